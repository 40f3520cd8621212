/** A worker process: items marked as poison kill it, items marked as long run until it ends, the others take a moment. */
import { setTimeout as moment } from 'node:timers/promises'
import { open } from 'holdfast'

const { STORE, CONCURRENCY } = process.env
const tell = (message) => new Promise((told) => process.send(message, told))

const hf = await open(STORE, { logger: false, agent: `worker-${process.pid}` })
process.on('disconnect', () => process.exit())
hf.work(
  'jobs',
  async ({ id, payload }) => {
    await tell({ type: 'handling', item: id })
    if (payload.kind === 'poison') process.kill(process.pid, 'SIGKILL')
    await (payload.kind === 'long' ? new Promise(() => {}) : moment(5))
  },
  { concurrency: Number(CONCURRENCY) },
)
await tell({ type: 'ready', pid: process.pid })
