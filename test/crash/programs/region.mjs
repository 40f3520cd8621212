/** A process of one region that says how long its calls take, and how long it once had to stand still. */
import { setTimeout as breath } from 'node:timers/promises'
import { open } from 'holdfast'

const tell = (message) => new Promise((told) => process.send(message, told))
let hf = null
let isOver = false
let adding = Promise.resolve()
const known = { added: [], refused: [], longestMs: 0 }

const orders = {
  async open({ store, ...options }) {
    const startedAt = performance.now()
    hf = await open(store, { logger: false, ...options })
    return performance.now() - startedAt
  },

  /** One call after the other, ms each. */
  adds: ({ count }) => timed(count, () => hf.queue('calls').add('work')),

  /** The same for a claim and the completion of what was claimed. */
  claims: ({ count }) =>
    timed(count, async () => {
      const { item } = await hf.queue('calls').next()
      await hf.queue('calls').complete(item.id)
    }),

  /** How many were added in a second by so many callers at once. */
  async rate({ callers, ms }) {
    const endsAt = performance.now() + ms
    let added = 0
    const call = async () => {
      while (performance.now() < endsAt) {
        await hf.queue('many').add('work')
        added++
      }
    }
    await Promise.all(Array.from({ length: callers }, call))
    return (added * 1000) / ms
  },

  /** Adds numbered items from now on. */
  start() {
    adding = keepAdding()
  },

  count: () => known.added.length,

  /** The longest time between two answers since it was last asked. */
  standstill() {
    const { longestMs } = known
    known.longestMs = 0
    return longestMs
  },

  async stop() {
    isOver = true
    await adding
    return known
  },
}

async function timed(count, call) {
  const times = []
  for (let round = 0; round < count; round++) {
    const startedAt = performance.now()
    await call()
    times.push(performance.now() - startedAt)
  }
  return times
}

async function keepAdding() {
  let answeredAt = performance.now()
  for (let round = 0; !isOver; round++) {
    const number = `${hf.agent}-${round}`
    try {
      await hf.queue('kept').add({ number })
      known.added.push(number)
    } catch (error) {
      known.refused.push({ number, code: error.code, inDoubt: error.facts?.inDoubt ?? null })
    }
    known.longestMs = Math.max(known.longestMs, performance.now() - answeredAt)
    answeredAt = performance.now()
    await breath(5)
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
