/**
 * The engine in its own thread: none of the program's code can run between loading and committing a batch, so a handler
 * that computes for seconds keeps no row locked. The caretaker shares the thread and its connections.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { type OpenedEngine, openEngine } from '../../engines/open.ts'
import { systemEnvironment } from '../../host/system.ts'
import type { RecoveryReport } from '../../operations/recovery/report.ts'
import { Caretaker } from '../caretaker/caretaker.ts'
import { reportsBy } from '../caretaker/caretaker-messages.ts'
import { Board } from '../lease/board.ts'
import type { Answered, EngineThreadData, FromEngine, ToEngine } from './engine-messages.ts'
import { errorAsJson } from './thread.ts'

const data = workerData as EngineThreadData
const port = parentPort as NonNullable<typeof parentPort>
const tell = (message: FromEngine) => port.postMessage(message)
const reports = reportsBy(tell)

/** Answers collected in this turn of the event loop. */
let answers: Answered[] = []
/** The bells that the main thread listens to, and how to stop listening to each. */
const heard = new Map<number, () => void>()
let engine: OpenedEngine | null = null
let caretaker: Caretaker | null = null

try {
  engine = await openEngine(data.url, {
    ...data.settings,
    environment: systemEnvironment,
    healing: {
      reclaims: data.reclaims,
      done: (report, ms) => tell({ type: 'recovered', report: report as RecoveryReport, ms }),
      failed: (error, queue) => tell({ type: 'recoveryFailed', error: String(error), queue }),
    },
    hasCaretaker: true,
    onCascadeFailed: (error) => tell({ type: 'cascadeFailed', error: String(error) }),
    log: reports.log,
    onStatus: () => engine && tell({ type: 'status', status: engine.status }),
  })
  serve(engine)
} catch (error) {
  tell({ type: 'failed', error: errorAsJson(error) })
  port.close()
}

function serve(engine: OpenedEngine): void {
  port.on('message', (message: ToEngine) => void obey(engine, message))
  tell({ type: 'opened', status: engine.status })
}

async function obey(engine: OpenedEngine, message: ToEngine): Promise<void> {
  if (message.type === 'execute') {
    for (const { id, command } of message.asked) {
      engine.execute(command).then(
        (result) => answer({ id, result }),
        (error: unknown) => answer({ id, error: errorAsJson(error) }),
      )
    }
  } else if (message.type === 'startCaretaker') {
    caretaker = new Caretaker(engine, systemEnvironment, new Board(message.board), message.options, reports)
  } else if (message.type === 'wake') {
    caretaker?.wake()
  } else if (message.type === 'listen') {
    const { bell } = message
    if (!heard.has(bell))
      heard.set(
        bell,
        engine.onRing(bell, () => tell({ type: 'rung', bell })),
      )
  } else if (message.type === 'ignore') {
    heard.get(message.bell)?.()
    heard.delete(message.bell)
  } else if (message.type === 'hears') {
    tell({ type: 'hearing', hearsRings: engine.hearsRings })
  } else if (message.type === 'rejoin') {
    tell({ type: 'instance', instance: (await caretaker?.rejoin()) ?? null })
  } else if (message.type === 'stopCaretaker') {
    await caretaker?.close()
    caretaker = null
    tell({ type: 'caretakerStopped' })
  } else {
    // Concurrently: the caretaker's requests are abandoned with the rest.
    await Promise.all([caretaker?.close(), engine.close(message.withinMs)])
    port.close()
  }
}

/** The answers of a batch arrive in one turn of the event loop and go out as one message. */
function answer(each: Answered): void {
  if (answers.push(each) > 1) return
  setImmediate(() => {
    tell({ type: 'news', answers })
    answers = []
  })
}
