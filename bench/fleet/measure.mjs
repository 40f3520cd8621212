/** What needs several processes: sharing one store, taking over from the dead, waking up. */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'holdfast'
import { payload, queueName, withStore } from '../store.mjs'
import { Member, withMembers } from './fleet.mjs'

/** Of all processes of a machine the same, ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6

/** Processes with one caller each, for a time: jobs of each, and the longest time one call took. */
export function share({ processes, ms, items }) {
  return withStore({ items }, (file) =>
    withMembers({ role: 'caller', file, count: processes }, async (members) => {
      const answers = await Promise.all(members.map((member) => member.ask('run', 'ran', { ms })))
      const jobs = answers.map((answer) => answer.jobs)
      const total = jobs.reduce((sum, each) => sum + each, 0)
      if (total >= items) throw new Error(`${items} items were too few for ${ms} ms`)
      return {
        rate: (total / ms) * 1000,
        share: Math.min(...jobs) / Math.max(...jobs),
        longestMs: Math.max(...answers.map((answer) => answer.longestMs)),
      }
    }),
  )
}

/** Processes that wait in line for one lock, for a time: how often each had its turn. */
export function takeTurns({ processes, ms }) {
  return withStore({ items: 0 }, (file) =>
    withMembers({ role: 'waiter', file, count: processes }, async (members) => {
      const facts = { ms, waitMs: 30_000, holdMs: 1 }
      const answers = await Promise.all(members.map((member) => member.ask('run', 'ran', facts)))
      const turns = answers.map((answer) => answer.turns)
      const total = turns.reduce((sum, each) => sum + each, 0)
      return { rate: (total / ms) * 1000, share: Math.min(...turns) / Math.max(...turns) }
    }),
  )
}

/** Time from the death of a holder until its item runs in another process, ms; one number a round. */
export function rerunAfterCrash({ rounds }) {
  return withStore({ items: 0 }, (file) =>
    withMembers({ role: 'worker', file }, async ([rescuer]) => {
      // Adds and does nothing else: this process must not help the rescuer to find the dead.
      const hf = await open(file, { background: false, recovery: false })
      const times = []
      for (let round = 0; round < rounds; round++) {
        await hf.queue(queueName).add(payload)
        times.push(await crashOnce(file, rescuer))
      }
      await hf.close()
      return times
    }),
  )
}

async function crashOnce(file, rescuer) {
  const holder = await Member.start('holder', file)
  await holder.ask('claim', 'claimed')
  await rescuer.ask('work', 'working')
  // Deaths are looked for every so often; each round meets that rhythm at another place.
  await sleep(Math.random() * 500)
  const before = now()
  await holder.kill()
  const { at } = await rescuer.hear('picked')
  await rescuer.ask('stop', 'stopped')
  return at - before
}

/** An idle worker in another process: time from asking for an item to be added until its handler runs, ms. */
export function pickUpElsewhere({ rounds }) {
  return withStore({ items: 0 }, (file) =>
    withMembers({ role: 'worker', file }, async ([worker]) => {
      await worker.ask('work', 'working')
      const hf = await open(file)
      const times = await pickUp(hf, rounds, async () => (await worker.hear('picked')).at)
      await hf.close()
      return times
    }),
  )
}

/** The same with the worker in this process. */
export function pickUpHere({ rounds }) {
  return withStore({ items: 0 }, async (file) => {
    const hf = await open(file)
    let picked
    hf.work(queueName, () => picked(now()))
    const times = await pickUp(hf, rounds, () => new Promise((resolve) => (picked = resolve)))
    await hf.close()
    return times
  })
}

async function pickUp(hf, rounds, nextPick) {
  const queue = hf.queue(queueName)
  const times = []
  // The first round finds everything cold and is not counted.
  for (let round = -1; round < rounds; round++) {
    await sleep(20 + Math.random() * 40)
    const pick = nextPick()
    const before = now()
    await queue.add(payload)
    const at = await pick
    if (round >= 0) times.push(at - before)
  }
  return times
}
