/** Starts the caretaker where it belongs: in a thread, or here when time or store cannot be shared with one. */
import { Worker } from 'node:worker_threads'
import type { OpenedEngine } from '../engines/open.ts'
import type { Environment } from '../environment.ts'
import type { Logger } from '../logger.ts'
import { Caretaker, type CaretakerOptions } from './caretaker.ts'
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

function employThread({
  url,
  keeper,
  deadlines,
  logger,
  durability,
  busyTimeoutMs,
  options,
}: Employment): Caretaking {
  const data: ThreadData = { url, durability, busyTimeoutMs, options, deadlines: deadlines.buffer }
  const worker = new Worker(new URL('./caretaker-thread.js', import.meta.url), {
    workerData: data,
    name: 'holdfast caretaker',
  })
  // The thread alone must not keep the program running.
  worker.unref()
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  worker.on('message', (message: FromThread) => {
    if (message.type === 'lost') keeper.lose(message.lease, lostElsewhere)
    else if (message.type === 'log') logger[message.level]?.(message.facts, message.name)
  })
  // Without renewals the deadlines pass and the signals fire: the holder fences itself.
  worker.on('error', (error) => logger.error({ error: String(error) }, 'renew.failed'))
  const tell = (message: ToThread) => worker.postMessage(message)
  return {
    hold: (lease) => tell({ type: 'hold', lease }),
    drop: (lease) => tell({ type: 'drop', lease }),
    async close() {
      worker.ref()
      tell({ type: 'close' })
      await ended
    },
  }
}
