/** What a claim of the next task costs with a filter, against one without, in a store with many ready tasks. */
import { open } from 'holdfast'
import { median } from '../statistics.mjs'
import { withStore } from '../store.mjs'

const addedAtOnce = 500

/** Each is behind all others in line, so that none is found by luck. */
const wanted = { labels: ['rare', 'odd'], owner: 'olga', priority: 10 }

const filters = {
  unfiltered: { anyHost: true },
  home: {},
  label: { labels: ['rare'], anyHost: true },
  owner: { owner: 'olga', anyHost: true },
  'label-home': { labels: ['rare'] },
  several: { labels: ['rare', 'odd'], mine: true },
}

export function compareFilters({ rounds, claims, tasks }) {
  return withStore({ items: 0 }, async (file) => {
    // Not `full`: waiting for the disk would hide what the claim itself costs.
    const hf = await open(file, { durability: 'normal', background: false, logger: false, agent: 'olga' })
    await addTasks(hf, tasks)
    const result = Object.fromEntries([...Object.keys(filters), 'far'].map((name) => [name, []]))
    for (let round = 0; round < rounds; round++) {
      for (const [name, filter] of Object.entries(filters))
        result[name].push(await claimSome(hf, filter, claims))
      // In two long lists, and in both only at the end: one of them is walked completely.
      await hf.tasks.addTask('far', { labels: ['left', 'right'], priority: 10 })
      const before = performance.now()
      const { task } = await hf.tasks.claimNext({ labels: ['left', 'right'] })
      result.far.push(performance.now() - before)
      await hf.tasks.completeTask(task.id)
    }
    await hf.close()
    return result
  })
}

/** Fills the queue of tasks, half of them under one label and half under another. */
export async function addTasks(hf, count) {
  for (let added = 0; added < count; added += addedAtOnce) {
    const numbers = Array.from({ length: Math.min(addedAtOnce, count - added) }, (_, index) => added + index)
    await Promise.all(
      numbers.map((number) =>
        hf.tasks.addTask(`task ${number}`, { labels: [number % 2 === 0 ? 'left' : 'right'] }),
      ),
    )
  }
}

/** Median time of a claim, µs. Claimed tasks are completed. */
async function claimSome(hf, filter, count) {
  await Promise.all(Array.from({ length: count }, () => hf.tasks.addTask('wanted', wanted)))
  const times = []
  for (let claimed = 0; claimed < count; claimed++) {
    const before = performance.now()
    const { task } = await hf.tasks.claimNext(filter)
    times.push((performance.now() - before) * 1000)
    await hf.tasks.completeTask(task.id)
  }
  return median(times)
}
