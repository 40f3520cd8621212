/**
 * A process that delivers messages by webhook as it is told, and can be made to die or freeze at a named point between
 * the claim, the sending and the record of a delivery. It lives until it is killed or its parent is gone.
 */
import { open, webhook } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'

/** What to do at the next point of that name: { point, signal }. */
let trap = null
let hf = null

const orders = {
  async open({ store, url, ...options }) {
    const adapters = { hook: webhook({ url }) }
    hf = await open(store, { logger: false, ...options, adapters, environment })
  },
  async rest() {
    trap = null
    await hf?.close()
    hf = null
  },
  pass: () => hf.messages.processRetries(),
  execute: ({ operation, input }) => hf.execute(operation, input),
  set(next) {
    trap = next
  },
}

const environment = {
  ...systemEnvironment,
  reached(point) {
    if (trap?.point !== point) return
    process.send({ type: 'trapped', point })
    process.kill(process.pid, trap.signal)
  },
}

process.on('disconnect', () => process.exit())
process.on('message', async ({ number, order, facts }) => {
  try {
    process.send({ type: 'answer', number, result: await orders[order](facts) })
  } catch ({ code, message, facts: known }) {
    process.send({ type: 'answer', number, error: { code, message, facts: known } })
  }
})
process.send({ type: 'ready', pid: process.pid })
