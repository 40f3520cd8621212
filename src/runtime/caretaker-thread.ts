/** The caretaker in a thread: its own connection, its own event loop; deadlines go through shared memory. */
import { parentPort, workerData } from 'node:worker_threads'
import { openEngine } from '../engines/open.ts'
import { systemEnvironment } from '../host/system.ts'
import { Caretaker } from './caretaker.ts'
import type { FromThread, ThreadData, ToThread } from './caretaker-messages.ts'
import { Deadlines } from './deadlines.ts'

const data = workerData as ThreadData
const port = parentPort as NonNullable<typeof parentPort>
const tell = (message: FromThread) => port.postMessage(message)

const engine = await openEngine(data.url, {
  environment: systemEnvironment,
  durability: data.durability,
  busyTimeoutMs: data.busyTimeoutMs,
  recoverOnClaim: false,
  onRecovered() {},
  onRecoveryFailed() {},
})
const caretaker = new Caretaker(engine, systemEnvironment, new Deadlines(data.deadlines), data.options, {
  lost: (lease) => tell({ type: 'lost', lease }),
  log: (level, name, facts) => tell({ type: 'log', level, name, facts }),
})

port.on('message', async (message: ToThread) => {
  switch (message.type) {
    case 'hold':
      return caretaker.hold(message.lease)
    case 'drop':
      return caretaker.drop(message.lease)
    case 'close':
      await caretaker.close()
      await engine.close()
      return port.close()
    default:
      return message satisfies never
  }
})
