/**
 * A process that puts a store under load and knows what was acknowledged: it adds numbered items, works on them, and
 * raises a counter, again and again with a breath in between, so that the servers get on as well. A call that the
 * store could not serve is made again with a new number, so that nothing it repeats itself can look like a change made
 * twice.
 */
import { setTimeout as breath } from 'node:timers/promises'
import { open } from 'holdfast'

const tell = (message) => new Promise((told) => process.send(message, told))
const adders = 3
const breathMs = 5
let hf = null
let worker = null
let isOver = false
let loops = []
/** Tells the reader of events to end. */
let reading = null
/** Numbers of items that were acknowledged, and codes of what was refused. */
let known = nothing()
const logger = { warn() {}, error: (_, name) => known.errors.push(name) }

const orders = {
  async open({ store, ...options }) {
    hf = await open(store, { logger, ...options })
    return hf.status
  },

  /** `finishes`: some items are claimed and completed call by call, so that it is known what was acknowledged. */
  start({ name, finishes = false }) {
    if (finishes) loops.push(repeat(() => finish()))
    for (let adder = 0; adder < adders; adder++)
      loops.push(repeat((round) => add(`${name}-${adder}-${round}`)))
    loops.push(repeat(() => count(name)))
    worker = hf.work('q', handle, { concurrency: 5 })
  },

  /** Reads every event from the beginning on, as long as it is not stopped. */
  follow() {
    reading = new AbortController()
    loops.push(follow(reading.signal))
  },

  /** Stops at this event, which must be the last. */
  async stopFollowing({ last }) {
    while ((known.followed.at(-1) ?? 0) < last) await breath(breathMs)
    reading.abort()
    return known.followed
  },

  /** How far it is, without stopping. */
  look: () => ({ added: known.added.length, counted: known.counted, handled: known.handled.length }),

  status: () => hf.status,

  added: () => known.added,

  /** Names of the errors it has logged. */
  errors: () => known.errors,

  async stop() {
    isOver = true
    await Promise.all(loops)
    await worker.stop()
    return { ...known, value: (await hf.state(`counter of ${hf.agent}`).get())?.value ?? 0 }
  },

  async rest() {
    isOver = true
    reading?.abort()
    await Promise.all(loops)
    await hf?.close()
    ;[hf, worker, isOver, loops, reading, known] = [null, null, false, [], null, nothing()]
  },
}

function nothing() {
  return {
    added: [],
    doubtful: [],
    counted: 0,
    handled: [],
    finished: [],
    followed: [],
    refused: [],
    lost: 0,
    errors: [],
  }
}

async function add(number) {
  try {
    await hf.queue('q').add({ number })
  } catch (error) {
    if (error.facts?.inDoubt) known.doubtful.push(number)
    throw error
  }
  known.added.push(number)
}

async function count(name) {
  await hf.state(`counter of ${name}`).update((value) => (value ?? 0) + 1)
  known.counted++
}

async function finish() {
  const { outcome, item } = await hf.queue('q').next()
  if (outcome !== 'claimed') return
  known.handled.push(item.payload.number)
  await hf.queue('q').complete(item.id)
  known.finished.push(item.id)
}

async function follow(signal) {
  while (!signal.aborted) {
    try {
      for await (const { seq } of hf.events({ since: known.followed.at(-1) ?? 0, signal }))
        known.followed.push(seq)
    } catch (error) {
      known.refused.push({ code: error.code, message: error.message, inDoubt: error.facts?.inDoubt ?? null })
    }
  }
}

async function handle({ payload }, { signal }) {
  known.handled.push(payload.number)
  await new Promise(setImmediate)
  if (signal.aborted) known.lost++
}

async function repeat(act) {
  for (let round = 0; !isOver; round++) {
    try {
      await act(round)
    } catch (error) {
      known.refused.push({ code: error.code, message: error.message, inDoubt: error.facts?.inDoubt ?? null })
    }
    await breath(breathMs)
  }
}

process.on('disconnect', () => process.exit())
process.on('message', async ({ number, order, facts }) => {
  try {
    await tell({ type: 'answer', number, result: await orders[order](facts) })
  } catch (error) {
    await tell({
      type: 'answer',
      number,
      error: { code: error.code, message: error.message, facts: error.facts },
    })
  }
})
await tell({ type: 'ready', pid: process.pid })
