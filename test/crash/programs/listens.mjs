/** Works on queues and looks at nothing unasked: what it handles it was told of. Tells what it logs. */
import { open } from 'holdfast'

const [store, ...queues] = process.argv.slice(2)
const tell = (message) => process.send(message)
const log = (facts, name) => tell({ type: 'logged', name, facts })
const hf = await open(store, { logger: { warn: log, error: log } })
for (const queue of queues)
  hf.work(queue, ({ payload }) => tell({ type: 'handled', queue, payload }), { pollEveryMs: 600_000 })
// Once each worker has found its queue empty.
await hf.queue(queues[0]).peek()
process.on('message', () => hf.close().then(() => process.disconnect()))
tell({ type: 'ready', pid: process.pid })
