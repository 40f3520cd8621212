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
/** Numbers of items that were acknowledged, and codes of what was refused. */
let known = nothing()

const orders = {
  async open({ store, ...options }) {
    hf = await open(store, { logger: false, ...options })
    return hf.status
  },

  start({ name }) {
    for (let adder = 0; adder < adders; adder++)
      loops.push(repeat((round) => add(`${name}-${adder}-${round}`)))
    loops.push(repeat(() => count(name)))
    worker = hf.work('q', handle, { concurrency: 5 })
  },

  /** How far it is, without stopping. */
  look: () => ({ added: known.added.length, counted: known.counted, handled: known.handled.length }),

  status: () => hf.status,

  async stop() {
    isOver = true
    await Promise.all(loops)
    await worker.stop()
    return { ...known, value: (await hf.state(`counter of ${hf.agent}`).get())?.value ?? 0 }
  },

  async rest() {
    isOver = true
    await Promise.all(loops)
    await hf?.close()
    ;[hf, worker, isOver, loops, known] = [null, null, false, [], nothing()]
  },
}

function nothing() {
  return { added: [], counted: 0, handled: [], refused: [], lost: 0 }
}

async function add(number) {
  await hf.queue('q').add({ number })
  known.added.push(number)
}

async function count(name) {
  await hf.state(`counter of ${name}`).update((value) => (value ?? 0) + 1)
  known.counted++
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
