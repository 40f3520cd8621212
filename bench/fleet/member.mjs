/** One process of a fleet: opens the store, with default settings but for what it is told, plays its role, talks to the one who started it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'holdfast'
import { payload, queueName } from '../store.mjs'

const [role, store, options] = process.argv.slice(2)
const hf = await open(store, { logger: false, ...JSON.parse(options) })
const queue = hf.queue(queueName)

/** The same in all processes of a machine, ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6
const tell = (name, facts = {}) => process.send({ name, ...facts })

/** Of all threads, since the start. */
function processorMs() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

const roles = {
  /** Claims and completes, one call after the other, for a time. */
  caller: {
    /** The same on its own store, so that compiling the code is not measured. */
    async warm({ jobs }) {
      const own = await open(`${store}-${process.pid}`, { logger: false, durability: 'normal' })
      const ownQueue = own.queue(queueName)
      for (let added = 0; added < jobs; added += 1000)
        await ownQueue.addMany(Array.from({ length: Math.min(1000, jobs - added) }, () => ({ payload })))
      for (let claim = await ownQueue.next(); claim.outcome === 'claimed'; claim = await ownQueue.next())
        await ownQueue.complete(claim.item.id)
      await own.close()
      tell('warmed')
    },
    async run({ ms }) {
      const until = now() + ms
      let [jobs, longestMs] = [0, 0]
      const timed = async (call) => {
        const before = now()
        const answer = await call
        longestMs = Math.max(longestMs, now() - before)
        return answer
      }
      while (now() < until) {
        const claim = await timed(queue.next())
        if (claim.outcome !== 'claimed') break
        await timed(queue.complete(claim.item.id))
        jobs++
      }
      tell('ran', { jobs, longestMs })
    },
  },
  /** Adds, claims and completes, one call after the other, for a time. */
  cycler: {
    async run({ ms }) {
      const until = now() + ms
      let cycles = 0
      for (; now() < until; cycles++) {
        await queue.add(payload)
        const claim = await queue.next()
        if (claim.outcome === 'claimed') await queue.complete(claim.item.id)
      }
      tell('ran', { cycles })
    },
  },
  /** A worker with nothing to do, on the busy queue or on another. */
  idler: {
    work({ queue: name }) {
      hf.work(name ?? queueName, () => {})
      tell('working')
    },
  },
  /** Waits in line for one lock, holds it briefly, releases it and waits again, for a time. */
  waiter: {
    async run({ ms, waitMs, holdMs }) {
      const until = now() + ms
      for (let turns = 0; ; turns++) {
        const { outcome } = await hf.locks.acquireLock('bench', { waitMs })
        if (outcome !== 'acquired') throw new Error(`no turn within ${waitMs} ms`)
        const isOver = now() >= until
        if (!isOver) await sleep(holdMs)
        await hf.locks.releaseLock('bench')
        if (isOver) return tell('ran', { turns })
      }
    },
  },
  /** Many waiters at once; each takes the lock once, or leaves the line when told to. */
  crowd: {
    async join({ count }) {
      const end = new AbortController()
      roles.crowd.leave = () => end.abort()
      const serve = async () => {
        const { outcome, lease } = await hf.locks.acquireLock('bench', {
          waitMs: 600_000,
          signal: end.signal,
        })
        if (outcome !== 'acquired') throw new Error(`a waiter was answered ${outcome}`)
        await hf.locks.releaseLock('bench', { token: lease.token })
      }
      const ends = await Promise.allSettled(Array.from({ length: count }, serve))
      tell('served', { served: ends.filter(({ status }) => status === 'fulfilled').length })
    },
  },
  /** Waits for a task with its own label. */
  picker: {
    async wait({ label }) {
      tell('waiting')
      const { outcome } = await hf.tasks.claimNext({ labels: [label], waitMs: 600_000 })
      tell('picked', { outcome })
    },
  },
  /** Claims an item and keeps it. */
  holder: {
    async claim() {
      const { outcome } = await queue.next()
      tell('claimed', { outcome })
    },
  },
  /** Keeps the store open and does nothing but the background work that every process does. */
  bystander: {},
  /** An idle worker that reports when an item reaches its handler. */
  worker: {
    work() {
      const worker = hf.work(queue, () => tell('picked', { at: now() }))
      roles.worker.stop = async () => {
        await worker.stop()
        tell('stopped')
      }
      tell('working')
    },
  },
}

process.on('message', async ({ name, ...facts }) => {
  if (name === 'cpu') return tell('used', { ms: processorMs() })
  if (name !== 'close') return roles[role][name](facts)
  await hf.close()
  process.disconnect()
})
tell('ready')
