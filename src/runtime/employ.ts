/** Starts the caretaker where it belongs: in a thread, or here when time or store cannot be shared with one. */
import { Worker } from 'node:worker_threads'
import type { OpenedEngine } from '../engines/open.ts'
import type { Environment } from '../environment.ts'
import type { Logger } from '../logger.ts'
import { Caretaker, type CaretakerOptions, type KeptLease } from './caretaker.ts'
import type { FromThread, ThreadData, ToThread } from './caretaker-messages.ts'
import type { Deadlines } from './deadlines.ts'
import type { Caretaking, Keeper } from './keeper.ts'

export interface Employment {
  readonly url: string
  readonly engine: OpenedEngine
  readonly environment: Environment
  readonly keeper: Keeper
  readonly deadlines: Deadlines
  readonly logger: Logger
  readonly durability: 'full' | 'normal'
  readonly busyTimeoutMs: number
  readonly options: CaretakerOptions
}

export function employCaretaker(employment: Employment): Caretaking {
  const isPrivate = employment.engine.status.location === ':memory:'
  return employment.environment.isLocal || isPrivate ? employHere(employment) : employThread(employment)
}

const lostElsewhere = 'it was cancelled, released or granted to another holder'

function employHere({ engine, environment, keeper, deadlines, logger, options }: Employment): Caretaking {
  return new Caretaker(engine, environment, deadlines, options, {
    lost: (lease) => keeper.lose(lease, lostElsewhere),
    log: (level, name, facts) => logger[level]?.(facts, name),
  })
}

const restartAfterMs = 1000

function employThread(employment: Employment): Caretaking {
  const { url, environment, keeper, deadlines, logger, durability, busyTimeoutMs, options } = employment
  const data: ThreadData = { url, durability, busyTimeoutMs, options, deadlines: deadlines.buffer }
  const kept = new Map<string, KeptLease>()
  let closing = false
  let running = true
  let worker = start()

  function start(): Worker {
    const thread = new Worker(new URL('./caretaker-thread.js', import.meta.url), {
      workerData: data,
      name: 'holdfast caretaker',
    })
    thread.on('message', (message: FromThread) => {
      if (message.type === 'lost') keeper.lose(message.lease, lostElsewhere)
      else logger[message.level]?.(message.facts, message.name)
    })
    thread.on('error', (error) => logger.error({ error: String(error) }, 'renew.failed'))
    // Until a new one has taken over, deadlines pass and signals fire: the holder fences itself.
    thread.once('exit', () => {
      running = false
      if (!closing) environment.timer(restartAfterMs, restart)
    })
    // The thread alone must not keep the program running. Said last: listening for messages takes it back.
    thread.unref()
    return thread
  }
  function restart(): void {
    if (closing) return
    worker = start()
    running = true
    for (const lease of kept.values()) tell({ type: 'hold', lease })
  }
  function tell(message: ToThread): void {
    worker.postMessage(message)
  }

  return {
    hold(lease) {
      kept.set(`${lease.kind} ${lease.id}`, lease)
      tell({ type: 'hold', lease })
    },
    drop(lease) {
      kept.delete(`${lease.kind} ${lease.id}`)
      tell({ type: 'drop', lease })
    },
    async close() {
      closing = true
      if (!running) return
      const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
      worker.ref()
      tell({ type: 'close' })
      await ended
    },
  }
}
