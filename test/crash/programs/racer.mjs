/** A process that gets in the way of others as fast as it can, and measures what its own calls take. */
import { open } from 'holdfast'

const tell = (message) => new Promise((told) => process.send(message, told))
let hf = null

const orders = {
  async open({ store, ...options }) {
    hf = await open(store, { logger: false, ...options })
  },

  /** Cancels every one of these items, whoever holds it, and claims what it can get, many of both in each turn. */
  async cancelAndClaim({ queue, ids, atOnce }) {
    const done = { cancelled: 0, claimed: 0, refused: {} }
    const order = shuffled(ids)
    for (let start = 0; start < order.length; start += atOnce) {
      const some = order.slice(start, start + atOnce)
      const answers = await Promise.allSettled([
        hf.queue(queue).claimMany(atOnce),
        ...some.map((id) => hf.queue(queue).cancel(id)),
      ])
      const [claim, ...cancels] = answers
      if (claim.value?.outcome === 'claimed') done.claimed += claim.value.items.length
      done.cancelled += cancels.filter(({ status }) => status === 'fulfilled').length
      for (const { reason } of answers.filter(({ status }) => status === 'rejected'))
        done.refused[reason.code] = (done.refused[reason.code] ?? 0) + 1
    }
    return done
  },

  /** So many claims, each alone; answers what each took, in ms. */
  async claim({ queue, count }) {
    const took = []
    while (took.length < count) {
      const askedAt = performance.now()
      const { outcome, item } = await hf.queue(queue).next()
      took.push(performance.now() - askedAt)
      if (outcome !== 'claimed') throw new Error(`the claim was ${outcome}`)
      await hf.queue(queue).complete(item.id)
    }
    return took
  },

  close: () => hf.close(),
}

function shuffled(values) {
  return values
    .map((value) => ({ value, place: Math.random() }))
    .sort((left, right) => left.place - right.place)
    .map(({ value }) => value)
}

process.on('disconnect', () => process.exit())
process.on('message', async ({ number, order, facts }) => {
  try {
    await tell({ type: 'answer', number, result: await orders[order](facts) })
  } catch ({ code, message, facts: known }) {
    await tell({ type: 'answer', number, error: { code, message, facts: known } })
  }
})
await tell({ type: 'ready', pid: process.pid })
