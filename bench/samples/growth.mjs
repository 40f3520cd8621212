/** What a read costs in a store with millions of rows, against one with tens of thousands: enough to reach every bound. */
import { open } from 'holdfast'
import { median } from '../statistics.mjs'
import { payload, queueName, withStore } from '../store.mjs'
import { fillDeep } from './depth.mjs'

const day = 86_400_000

/** Each is a read that people, agents or the caretaker make all the time. */
const looks = {
  'events-newest': (hf) => hf.execute('events.list', { newest: true, limit: 100 }),
  'events-of-kind': (hf) => hf.execute('events.list', { newest: true, limit: 100, subject: 'lock' }),
  'events-sealing': (hf) => hf.execute('events.seal', { past: { from: Date.now(), ageMs: 90 * day } }),
  list: (hf) => hf.queue(queueName).list(),
  'list-held': (hf) => hf.queue(queueName).list({ states: ['running'] }),
  'list-failed': (hf) => hf.queue(queueName).list({ states: ['failed'] }),
  'list-quarantined': (hf) => hf.queue(queueName).list({ quarantined: true }),
  'list-tasks': (hf) => hf.tasks.listTasks(),
  'stale-locks': (hf) => hf.tasks.detectStaleLocks(),
  agents: (hf) => hf.agents.list(),
  prime: (hf) => hf.fleet.prime(),
  status: (hf) => hf.fleet.status(),
  doctor: (hf) => hf.fleet.doctor(),
}

const lookNames = Object.keys(looks)

export function compareGrowth({ rounds, times, shallow, deep }) {
  return withStore({ items: 0 }, (shallowFile) =>
    withStore({ items: 0 }, async (deepFile) => {
      await fillDeep(shallowFile, shallow)
      await fillDeep(deepFile, deep)
      const stores = { shallow: await openWithTrouble(shallowFile), deep: await openWithTrouble(deepFile) }
      const result = Object.fromEntries(lookNames.map((name) => [name, { deep: [], shallow: [] }]))
      for (let round = 0; round < rounds; round++) {
        for (const [name, look] of Object.entries(looks)) {
          for (const side of ['deep', 'shallow'])
            result[name][side].push(await timeOf(look, stores[side], times))
        }
      }
      await stores.deep.close()
      await stores.shallow.close()
      return result
    }),
  )
}

/** `status` in a store with many queues, against one with as many items in few; one queue in ten only fails. */
export function compareQueues({ rounds, times, few, many, items }) {
  return withStore({ items: 0 }, (smallFile) =>
    withStore({ items: 0 }, async (largeFile) => {
      const stores = {
        small: await openWithQueues(smallFile, few, items / few),
        large: await openWithQueues(largeFile, many, items / many),
      }
      const result = { small: [], large: [] }
      for (let round = 0; round < rounds; round++) {
        for (const side of ['large', 'small'])
          result[side].push(await timeOf(looks.status, stores[side], times))
      }
      await stores.large.close()
      await stores.small.close()
      return result
    }),
  )
}

async function openWithQueues(file, count, itemsEach) {
  const hf = await open(file, { durability: 'normal', background: false, logger: false })
  const fill = async (number) => {
    const queue = hf.queue(`queue-${number}`)
    await queue.addMany(Array.from({ length: itemsEach }, () => ({ payload })))
    if (number % 10 > 0) return
    const { items } = await queue.claimMany(3, { renew: false })
    for (const { item } of items) await queue.fail(item.id, 'no', { retryable: false })
  }
  for (let first = 0; first < count; first += 50)
    await Promise.all(Array.from({ length: Math.min(50, count - first) }, (_, index) => fill(first + index)))
  return hf
}

/** With something to find: held, failed and quarantined items. */
async function openWithTrouble(file) {
  const hf = await open(file, { durability: 'normal', background: false, logger: false })
  const queue = hf.queue(queueName)
  for (let number = 0; number < 20; number++) {
    const { item } = await queue.next({ renew: false })
    if (number % 2 === 0) await queue.fail(item.id, 'no', { retryable: false })
  }
  return hf
}

/** Median time of one read, µs. */
async function timeOf(look, hf, times) {
  const taken = []
  for (let time = 0; time < times; time++) {
    const before = performance.now()
    await look(hf)
    taken.push((performance.now() - before) * 1000)
  }
  return median(taken)
}
