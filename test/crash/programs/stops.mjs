/** A worker process that is stopped by signals. Its handler ends when it is told to, or never. */
import { open } from 'holdfast'

const { STORE, LISTENS, LISTENS_ONCE, LEAVES_SIGNALS } = process.env
const tell = (message) => new Promise((told) => process.send(message, told))
let goOn
const toldToGoOn = new Promise((resolve) => {
  goOn = resolve
})

const logger = {
  info: (_, name) => name === 'worker.stopping' && void tell({ type: 'trapped', point: name }),
  warn() {},
  error() {},
}
const hf = await open(STORE, { logger, agent: 'worker' })
if (LISTENS) process.on('SIGTERM', () => void tell({ type: 'refused', code: 'heard', added: 0 }))
/** An orderly end of the program's own, which takes a while longer than that of the worker. */
const endOrderly = async () => {
  await hf.close()
  setTimeout(() => process.exit(7), 500)
}
if (LISTENS_ONCE === 'before') process.once('SIGTERM', endOrderly)
process.on('message', () => goOn())
process.on('disconnect', () => process.exit())
hf.work(
  'jobs',
  async ({ id }, { signal }) => {
    signal.addEventListener('abort', () => void tell({ type: 'aborted', item: id, code: signal.reason.code }))
    await tell({ type: 'handling', item: id })
    await toldToGoOn
  },
  { concurrency: 2, ...(LEAVES_SIGNALS ? { stopOnSignals: false } : {}) },
)
if (LISTENS_ONCE === 'after') process.once('SIGTERM', endOrderly)
await tell({ type: 'ready', pid: process.pid })
