/** Starts the caretaker in a thread, or in this one if the environment or the store cannot be shared with a thread. */

import type { Worker } from 'node:worker_threads'
import type { OpenedEngine } from '../../engines/open.ts'
import type { Environment } from '../../environment.ts'
import { type HoldfastError, revive } from '../../errors.ts'
import type { CheckedLogger } from '../../logger.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { Settings } from '../../options.ts'
import type { Board } from '../lease/board.ts'
import { notStarted, startThread } from '../thread/thread.ts'
import { waitForThreadAtExit } from '../thread/thread-exit.ts'
import { ThreadedEngine } from '../thread/threaded-engine.ts'
import { Caretaker, type CaretakerOptions } from './caretaker.ts'
import type { CaretakerHandle } from './caretaker-handle.ts'
import type { FromThread, ThreadData, ToThread } from './caretaker-messages.ts'

export interface CaretakerSetup {
  readonly url: string
  readonly engine: OpenedEngine
  readonly environment: Environment
  /** A lease that this process held is gone. */
  readonly lost: (lease: LeaseRef) => void
  readonly board: Board
  readonly logger: CheckedLogger
  readonly settings: Pick<Settings, 'durability' | 'busyTimeoutMs' | 'patienceMs'>
  readonly options: CaretakerOptions
  /** This process continues as a new instance. */
  readonly rejoined: (instance: string) => void
}

const restartAfterMs = 1000

/** Resolves once the caretaker is running: from then on every lease is renewed in time. */
export async function startCaretaker(setup: CaretakerSetup): Promise<CaretakerHandle> {
  const { engine, lost, board, options, rejoined } = setup
  if (engine instanceof ThreadedEngine) return engine.startCaretaker({ options, board, lost, rejoined })
  const isPrivate = setup.engine.status.location === ':memory:'
  return setup.environment.isLocal || isPrivate ? startInProcess(setup) : startInThread(setup)
}

function startInProcess({
  engine,
  environment,
  lost,
  board,
  logger,
  options,
  rejoined,
}: CaretakerSetup): CaretakerHandle {
  const caretaker = new Caretaker(engine, environment, board, options, {
    lost,
    rejoined,
    log: (level, name, facts) => logger[level]?.(facts, name),
  })
  board.onEarlierDuty(() => caretaker.wake())
  engine.onLogGrown?.(() => caretaker.checkpointSoon())
  return { stop: () => caretaker.close(), rejoin: () => caretaker.rejoin() }
}

async function startInThread(setup: CaretakerSetup): Promise<CaretakerHandle> {
  const { url, engine, environment, lost, board, logger } = setup
  const { durability, busyTimeoutMs, patienceMs } = setup.settings
  let { options } = setup
  let closing = false
  let thread: Worker | null = null
  /** Callers waiting to hear which instance this process continues as. */
  const asking = new Set<(instance: string) => void>()
  board.onEarlierDuty(() => post('wake'))
  engine.onLogGrown?.(() => post('checkpoint'))
  try {
    await new Promise<void>(start)
  } catch (error) {
    throw notStarted('the thread that renews leases', error)
  }

  /** Restarts a thread that died. The board still says what to renew; until then, deadlines run down. */
  function startAgain(cause: unknown): void {
    if (closing || engine.isLost) return
    logger.error({ leases: [...board.leases()].length, error: String(cause) }, 'renew.failed')
    environment.timer(restartAfterMs, () => {
      if (closing || engine.isLost) return
      start(() => {}, startAgain)
      // Nobody waits for this one. Must come last: attaching a message listener refs the thread again.
      thread?.unref()
    })
  }

  function start(ready: () => void, failed: (cause: unknown) => void): void {
    const cell = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const data: ThreadData = {
      url,
      settings: { file: engine.file ?? undefined, durability, busyTimeoutMs, patienceMs },
      options,
      board: board.buffer,
      cell: cell.buffer,
    }
    const file = new URL('./caretaker-thread.js', import.meta.url)
    const started = startThread(file, { name: 'holdfast caretaker', workerData: data })
    thread = started
    let isReady = false
    let cause: unknown = 'its thread was ended'
    const forget = waitForThreadAtExit({ thread: started, cell })
    started.on('message', (message: FromThread) => {
      if (message.type === 'lost') lost(message.lease)
      else if (message.type === 'storeLost') engine.lose?.(message.how)
      else if (message.type === 'rejoined') goOnAs(message.instance)
      else if (message.type === 'instance') tellWhoAsked(message.instance)
      else if (message.type === 'failed') cause = loseWith(revive(message.error))
      else if (message.type === 'ready') {
        isReady = true
        // Once it is running, it must not keep the program alive by itself.
        if (!closing) started.unref()
        ready()
      } else logger[message.level]?.(message.facts, message.name)
    })
    started.once('error', (error) => {
      cause = error
    })
    started.once('exit', () => {
      forget()
      thread = null
      tellWhoAsked(options.instance)
      if (isReady) startAgain(cause)
      else failed(cause)
    })
  }

  /** A thread that started late found the file gone. */
  function loseWith(error: HoldfastError): HoldfastError {
    if (typeof error.facts.lost === 'string') engine.lose?.(error.facts.lost)
    return error
  }

  function goOnAs(instance: string): void {
    options = { ...options, instance }
    setup.rejoined(instance)
  }

  function tellWhoAsked(instance: string): void {
    for (const tell of asking) tell(instance)
    asking.clear()
  }

  function post(message: ToThread): void {
    thread?.postMessage(message)
  }

  return {
    async stop() {
      closing = true
      if (thread === null) return
      const ended = new Promise<void>((resolve) => thread?.once('exit', () => resolve()))
      thread.ref()
      post('stop')
      await ended
    },

    async rejoin() {
      if (thread === null) return options.instance
      const answer = new Promise<string>((resolve) => asking.add(resolve))
      post('rejoin')
      // The thread alone does not keep the program running; a caller that waits for it does.
      thread.ref()
      const instance = await answer
      if (!closing && asking.size === 0) thread?.unref()
      return instance
    },
  }
}
