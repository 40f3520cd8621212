/** What redelivery costs: many due messages at once, each claimed under its own lease, sent and recorded. */
import { importPendingAcks, open } from 'holdfast'
import { withStore } from '../store.mjs'
import { TransactionWatch } from '../transactions.mjs'

/** The time it takes in all, and the longest time others had to wait for one transaction. */
export function redeliver({ due }) {
  return withStore({ items: 0 }, async (file) => {
    const filler = await open(file, { background: false, durability: 'normal' })
    await importPendingAcks(filler, JSON.stringify({ pending_acks: Array.from({ length: due }, pending) }))
    await filler.close()

    const watch = new TransactionWatch()
    const { environment } = watch
    const hf = await open(file, { background: false, recovery: false, logger: false, environment })
    const before = performance.now()
    const { retried } = await hf.messages.processRetries()
    const ms = performance.now() - before
    await hf.close()
    if (retried !== due) throw new Error(`${retried} of ${due} messages were sent`)
    return { ms, longestMs: watch.longestMs }
  })
}

function pending(_, number) {
  return {
    msg_id: `m${number}`,
    sender_id: 'sender',
    recipient_id: 'recipient',
    message: { type: 'QUESTION', content: 'which branch is the release cut from?' },
    sent_at: '2026-01-01T00:00:00Z',
    next_retry_at: '2026-01-01T00:00:30Z',
  }
}
