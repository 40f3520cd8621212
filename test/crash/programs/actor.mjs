/**
 * A process that does as it is told, order by order, and can be made to die or freeze at a named point inside a
 * transaction. It lives until it is killed or its parent is gone.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { open } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'

/** Told in full before anything else happens: the next step may be the last. */
const tell = (message) => new Promise((told) => process.send(message, told))

/** What to do at the next point of that name: { point, signal }. */
let trap = null
let hf = null
let worker = null
let handled = 0
/** The last lease of each lock it was granted, by name. */
const leases = new Map()
let goOn
let toldToGoOn
waitAgain()

const orders = {
  async open({ store, identity, ...options }) {
    hf = await open(store, { logger: false, ...options, environment: environmentOf(identity) })
    return hf.status
  },

  async close() {
    await hf?.close()
    hf = null
    handled = 0
  },

  /** As if it had just been started. */
  async rest() {
    trap = null
    goOn()
    await orders.close()
    leases.clear()
    waitAgain()
  },

  stats: ({ queue }) => hf.queue(queue).stats(),

  add: ({ queue, payload }) => hf.queue(queue).add(payload),

  async next({ queue, ...options }) {
    const claim = await hf.queue(queue).next(options)
    if (claim.outcome !== 'claimed') return claim
    const { item, lease } = claim
    lease?.signal.addEventListener(
      'abort',
      () => void tell({ type: 'aborted', item: item.id, code: lease.signal.reason.code }),
    )
    return { outcome: claim.outcome, item }
  },

  /** Any method of a noun of the handle; what it claims tells of its loss. */
  async call({ noun, method, args }) {
    const answer = await hf[noun][method](...args)
    if (answer?.lease?.signal && answer.lock) leases.set(answer.lock.name, answer.lease)
    const { signal } = answer?.lease ?? {}
    signal?.addEventListener(
      'abort',
      () => void tell({ type: 'aborted', item: answer.lease.id, code: signal.reason.code }),
    )
    return answer
  },

  /** Whether it may still act under the lock, as it judges itself. */
  holds: ({ lock }) => leases.get(lock)?.isHeld ?? false,

  progress: ({ queue, item, progress }) => hf.queue(queue).progress(item, progress),

  complete: ({ queue, item, token }) => hf.queue(queue).complete(item, token === undefined ? {} : { token }),

  recover: () => hf.recovery.detectAndRecoverStale(),

  setState: ({ key, value, ...options }) => hf.state(key).set(value, options),

  /** So many updates that each add 1; one that gave up is tried again, for the test counts what was acknowledged. */
  async countUp({ key, times }) {
    const counted = { versions: [], gaveUp: 0 }
    while (counted.versions.length < times) {
      try {
        counted.versions.push((await hf.state(key).update((value) => (value ?? 0) + 1)).version)
      } catch (error) {
        if (error.code !== 'VERSION_MISMATCH') throw error
        counted.gaveUp++
      }
    }
    return counted
  },

  /** An update that stops between its read and its save: for the order to go on, or for good. */
  async updateSlowly({ key, drop, mark, die: dies }) {
    const { attempts, version } = await hf.state(key).update(async (acks) => {
      await tell({ type: 'trapped', point: 'read' })
      if (dies) die()
      await toldToGoOn
      return withoutOrMarked(acks, { drop, mark })
    })
    return { attempts, version }
  },

  /** The way of the source: read the file, work, write the file. */
  async rewriteSlowly({ path, drop, mark }) {
    const acks = JSON.parse(readFileSync(path, 'utf8'))
    await tell({ type: 'trapped', point: 'read' })
    await toldToGoOn
    writeFileSync(path, JSON.stringify(withoutOrMarked(acks, { drop, mark })))
  },

  /** A retry with an effect: claim it in the document, act, record it in the document. */
  async resend({ key, id }) {
    const { version: claim } = await hf.state(key).update((acks) => marked(acks, id, { sending: true }))
    await tell({ type: 'trapped', point: 'sent' })
    await toldToGoOn
    const { version } = await hf.state(key).update((acks) => marked(acks, id, { sending: false, retries: 1 }))
    return { claim, version }
  },

  goOn: () => goOn(),

  /** Tells of each item when its handler begins; then the handler dies, blocks the event loop, or is done. */
  work({ queue, each, blockMs, ...options }) {
    worker = hf.work(
      queue,
      async ({ id }) => {
        handled++
        if (each) await tell({ type: 'handling', item: id })
        if (each === 'die') die()
        if (blockMs) block(blockMs)
      },
      options,
    )
  },

  async stop() {
    await worker.stop()
    return handled
  },

  block: ({ ms }) => block(ms),

  set(next) {
    trap = next
  },

  die,
}

function waitAgain() {
  toldToGoOn = new Promise((resolve) => {
    goOn = resolve
  })
}

process.on('disconnect', () => process.exit())
process.on('message', async ({ number, order, facts }) => {
  try {
    const result = await orders[order](facts)
    await tell({ type: 'answer', number, result })
  } catch (error) {
    await tell({
      type: 'answer',
      number,
      error: { code: error.code, message: error.message, facts: error.facts },
    })
  }
})
await tell({ type: 'ready', pid: process.pid })

/** `isOfEarlierBoot`: its machine has been awake for an hour longer, so it ran before this one was started. */
function environmentOf({ isOfEarlierBoot = false, ...identity } = {}) {
  const { host, monotonic } = systemEnvironment
  return {
    ...systemEnvironment,
    ...(isOfEarlierBoot ? { monotonic: () => monotonic() + 3_600_000 } : {}),
    host: { ...host, identity: { ...host.identity, ...identity } },
    reached(point) {
      if (trap?.point !== point) return
      process.send({ type: 'trapped', point })
      process.kill(process.pid, trap.signal)
    },
  }
}

const withoutOrMarked = (acks, { drop, mark }) =>
  mark ? marked(acks, mark, { retries: 1 }) : acks.filter(({ id }) => id !== drop)

const marked = (acks, id, marks) => acks.map((ack) => (ack.id === id ? { ...ack, ...marks } : ack))

function die() {
  process.kill(process.pid, 'SIGKILL')
}

/** Nothing else of this thread runs meanwhile: no timer, no message, no signal. */
function block(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
