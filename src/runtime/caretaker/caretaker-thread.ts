/** The caretaker in a thread: its own connection and event loop; leases and deadlines are on the shared board. */
import { parentPort, workerData } from 'node:worker_threads'
import { openEngine } from '../../engines/open.ts'
import { systemEnvironment } from '../../host/system.ts'
import { Board } from '../lease/board.ts'
import { errorAsJson } from '../thread/thread.ts'
import { markClosed, markOpen } from '../thread/thread-exit.ts'
import { Caretaker } from './caretaker.ts'
import { type FromThread, reportsBy, type ThreadData, type ToThread } from './caretaker-messages.ts'

const data = workerData as ThreadData
const port = parentPort as NonNullable<typeof parentPort>
const tell = (message: FromThread) => port.postMessage(message)
const reports = reportsBy(tell)

const cell = new Int32Array(data.cell)
markOpen(cell)
try {
  await begin()
} catch (error) {
  tell({ type: 'failed', error: errorAsJson(error) })
  markClosed(cell)
  port.close()
}

async function begin(): Promise<void> {
  const engine = await openEngine(data.url, {
    ...data.settings,
    environment: systemEnvironment,
    recoverOnOpen: false,
    healing: null,
    hasCaretaker: true,
    onCascadeFailed() {},
    log: reports.log,
  })
  engine.onLost?.((how) => tell({ type: 'storeLost', how }))
  const caretaker = new Caretaker(engine, systemEnvironment, new Board(data.board), data.options, reports)
  port.on('message', async (message: ToThread) => {
    if (message === 'wake') return caretaker.wake()
    if (message === 'checkpoint') return caretaker.checkpointSoon()
    if (message === 'rejoin') return tell({ type: 'instance', instance: await caretaker.rejoin() })
    await caretaker.close()
    await engine.close()
    markClosed(cell)
    port.close()
  })
  tell({ type: 'ready' })
}
