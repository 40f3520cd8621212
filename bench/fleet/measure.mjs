/** Measurements that need several processes: sharing one store, taking over from dead holders, waking up. */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'holdfast'
import { addTasks } from '../samples/filters.mjs'
import { median } from '../statistics.mjs'
import { makeFolder, payload, queueName, withStore } from '../store.mjs'
import { Member, withMembers } from './fleet.mjs'

/** The same in all processes of a machine, ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6

/**
 * Processes with one caller each, for a time: jobs of each, and the longest time one call took. Each has done
 * `warmJobs` on a store of its own before.
 */
export function share({ processes, ms, items, warmJobs }) {
  return withStore({ items }, (store) =>
    withMembers({ role: 'caller', store, count: processes }, async (members) => {
      if (warmJobs > 0)
        await Promise.all(members.map((member) => member.ask('warm', 'warmed', { jobs: warmJobs })))
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

/** Add, claim and complete in one process, cycles per second, beside idle workers in a process each. */
export function besideIdle({ idle, isSameQueue, ms }) {
  // Started all at once, they would keep each other waiting.
  const settings = { busyTimeoutMs: 60_000 }
  return withStore({ items: 0 }, (store) =>
    withMembers({ role: 'idler', store, count: idle, settings }, async (members) => {
      const queueOf = (index) => (isSameQueue ? {} : { queue: `idle-${index}` })
      await Promise.all(members.map((member, index) => member.ask('work', 'working', queueOf(index))))
      const busy = await Member.start({ role: 'cycler', store })
      try {
        await busy.ask('run', 'ran', { ms: ms / 5 })
        const { cycles } = await busy.ask('run', 'ran', { ms })
        return (cycles / ms) * 1000
      } finally {
        await busy.close()
      }
    }),
  )
}

/** Processes that wait in line for one lock, for a time: how often each got it. */
export function takeTurns({ processes, ms }) {
  return withStore({ items: 0 }, (store) =>
    withMembers({ role: 'waiter', store, count: processes }, async (members) => {
      const facts = { ms, waitMs: 30_000, holdMs: 1 }
      const answers = await Promise.all(members.map((member) => member.ask('run', 'ran', facts)))
      const turns = answers.map((answer) => answer.turns)
      const total = turns.reduce((sum, each) => sum + each, 0)
      return { rate: (total / ms) * 1000, share: Math.min(...turns) / Math.max(...turns) }
    }),
  )
}

/**
 * Waiters for one lock, in several processes: time of a hand-over when all of them take it in turn, how many places
 * were lost meanwhile, and how long the last one waits when all others leave at once; ms.
 */
/** Adds tasks that none of so many waiting processes wants, then one for each: the median time of an addition. */
export function addBesidePickers({ processes, tasks, added }) {
  const settings = { durability: 'normal' }
  return withStore({ items: 0 }, async (store) => {
    const hf = await open(store, { logger: false, agent: 'adder', ...settings })
    await addTasks(hf, tasks)
    const timed = async () => {
      const times = []
      for (let number = 0; number < added; number++) {
        const before = now()
        await hf.tasks.addTask('common', { labels: ['left'] })
        times.push(now() - before)
        await sleep(2)
      }
      return median(times)
    }
    const aloneMs = await timed()
    const besideMs = await withMembers(
      { role: 'picker', store, count: processes, settings },
      async (members) => {
        await Promise.all(
          members.map((member, index) => member.ask('wait', 'waiting', { label: `own-${index}` })),
        )
        await sleep(500)
        const ms = await timed()
        for (const index of members.keys()) await hf.tasks.addTask('own', { labels: [`own-${index}`] })
        const picked = await Promise.all(members.map((member) => member.hear('picked')))
        if (picked.some(({ outcome }) => outcome !== 'claimed'))
          throw new Error('a waiter did not get its task')
        return ms
      },
    )
    await hf.close()
    return { aloneMs, besideMs }
  })
}

export function serveCrowd({ processes, waiters }) {
  const settings = { durability: 'normal', quotas: { lockWaits: 1000 } }
  const count = Math.floor(waiters / processes)
  const total = count * processes
  return withStore({ items: 0 }, (store) =>
    withMembers({ role: 'crowd', store, count: processes, settings }, async (members) => {
      const hf = await open(store, { logger: false, agent: 'holder', ...settings })
      const gather = async (last) => {
        const held = await hf.locks.acquireLock('bench')
        for (const member of members) member.tell('join', { count: last ? count - 1 : count })
        const inLine = last ? total - processes : total
        while ((await hf.locks.getCurrentLockInfo('bench')).waiting < inLine) await sleep(20)
        return () => hf.locks.releaseLock('bench', { token: held.lease.token })
      }
      const release = await gather(false)
      const startedAt = now()
      await release()
      const served = await Promise.all(members.map((member) => member.hear('served')))
      const handOverMs = (now() - startedAt) / total
      const lost = total - served.reduce((sum, each) => sum + each.served, 0)
      const rejoined = (await joinsIn(hf)) - total

      const free = await gather(true)
      const last = hf.locks.acquireLock('bench', { waitMs: 60_000, agent: 'last' })
      while ((await hf.locks.getCurrentLockInfo('bench')).waiting <= total - processes) await sleep(20)
      const leftAt = now()
      for (const member of members) member.tell('leave')
      await free()
      await last
      const lastMs = now() - leftAt
      await Promise.all(members.map((member) => member.hear('served')))
      await hf.close()
      return { handOverMs, lost: lost + rejoined, lastMs }
    }),
  )
}

/**
 * Idle workers: the processor time of each, in percent of a core, and transactions of each per second where the store is
 * on a server. Measured after a while: for most of the first minute Node tidies up after the start.
 */
export function rest({ processes, settleMs, ms, server }) {
  return withStore({ items: 0, server }, (store) =>
    withMembers({ role: 'worker', store, count: processes }, async (members) => {
      await Promise.all(members.map((member) => member.ask('work', 'working')))
      await sleep(settleMs)
      const used = () => Promise.all(members.map((member) => member.ask('cpu', 'used')))
      const before = { cpu: sumOf(await used()), transactions: await transactionsOn(store, server) }
      await sleep(ms)
      const after = { cpu: sumOf(await used()), transactions: await transactionsOn(store, server) }
      return {
        processorPercent: ((after.cpu - before.cpu) / ms / processes) * 100,
        transactions: ((after.transactions - before.transactions) / ms / processes) * 1000,
      }
    }),
  )
}

function sumOf(answers) {
  return answers.reduce((sum, { ms }) => sum + ms, 0)
}

/** Committed and rolled back so far; 0 if there is no server. A session reports its own once per second. */
async function transactionsOn(store, server) {
  if (server === undefined) return 0
  const { withClient } = await import('../postgres/database.mjs')
  const { rows } = await withClient(store, (client) =>
    client.query(
      'select (xact_commit + xact_rollback)::float8 as done from pg_stat_database where datname = current_database()',
    ),
  )
  return rows[0].done
}

/** How often a position in line was taken. */
async function joinsIn(hf) {
  let joins = 0
  for (let since = 0; since !== null; ) {
    const page = await hf.execute('events.list', { since, limit: 1000, subject: 'waiter' })
    joins += page.events.filter(({ kind }) => kind === 'waiter.joined').length
    since = page.next
  }
  return joins
}

/**
 * Time from the death of a holder until its item runs in another process, ms; one number a round. `elsewhere`: the
 * holder is on another machine than the rescuer, with so many processes beside it that can see it die.
 */
export function rerunAfterCrash({ rounds, server, elsewhere = null }) {
  return withStore({ items: 0, server }, (store) =>
    withMembers({ role: 'worker', store }, ([rescuer]) =>
      withMachine(elsewhere, (machine) =>
        withMembers({ role: 'bystander', store, machine, count: elsewhere?.reporters ?? 0 }, async () => {
          // Adds and does nothing else: this process must not help the rescuer find the dead holder.
          const hf = await open(store, { background: false, recovery: false })
          const times = []
          for (let round = 0; round < rounds; round++) {
            await hf.queue(queueName).add(payload)
            times.push(await crashOnce({ store, machine, leaseMs: elsewhere?.leaseMs }, rescuer))
          }
          await hf.close()
          return times
        }),
      ),
    ),
  )
}

async function withMachine(elsewhere, use) {
  if (elsewhere === null) return use(undefined)
  const folder = makeFolder()
  try {
    return await use(folder.path)
  } finally {
    folder.remove()
  }
}

async function crashOnce(place, rescuer) {
  const holder = await Member.start({ ...place, role: 'holder' })
  await holder.ask('claim', 'claimed')
  await rescuer.ask('work', 'working')
  // Probing is periodic; each round starts at another point of the period.
  await sleep(Math.random() * 500)
  const before = now()
  await holder.kill()
  const { at } = await rescuer.hear('picked')
  await rescuer.ask('stop', 'stopped')
  return at - before
}

/** An idle worker in another process: time from asking for an item to be added until its handler runs, ms. */
export function pickUpElsewhere({ rounds, server }) {
  return withStore({ items: 0, server }, (store) =>
    withMembers({ role: 'worker', store }, async ([worker]) => {
      await worker.ask('work', 'working')
      const hf = await open(store)
      const times = await pickUp(hf, rounds, async () => (await worker.hear('picked')).at)
      await hf.close()
      return times
    }),
  )
}

/** The same with the worker in this process. */
export function pickUpHere({ rounds }) {
  return withStore({ items: 0 }, async (store) => {
    const hf = await open(store)
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
  // The first round starts cold and is not counted.
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
