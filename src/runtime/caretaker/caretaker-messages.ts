/** What the caretaker thread is started with, and the messages between it and the main thread. */
import type { HoldfastError } from '../../errors.ts'
import type { LogLevel, LogName } from '../../log-lines.ts'
import type { LogFacts } from '../../logger.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { EngineOptions } from '../../port/engine.ts'
import type { CaretakerOptions } from './caretaker.ts'
import type { CaretakerReports } from './reports.ts'

export interface ThreadData {
  readonly url: string
  readonly settings: Pick<EngineOptions, 'file' | 'durability' | 'busyTimeoutMs' | 'patienceMs'>
  readonly options: CaretakerOptions
  readonly board: SharedArrayBuffer
  /** See thread-exit.ts. */
  readonly cell: SharedArrayBuffer
}

/** `wake`: a lease on the board needs attention before the next duty. `checkpoint`: a lot was written. */
export type ToThread = 'stop' | 'rejoin' | 'wake' | 'checkpoint'

/** What a caretaker in another thread tells its process, whichever thread it shares. */
export type CaretakerNews =
  | { readonly type: 'lost'; readonly lease: LeaseRef }
  | { readonly type: 'rejoined'; readonly instance: string }
  | {
      readonly type: 'log'
      readonly level: LogLevel
      readonly name: LogName
      readonly facts: LogFacts
    }

export type FromThread =
  | CaretakerNews
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: ReturnType<HoldfastError['toJSON']> }
  | { readonly type: 'storeLost'; readonly how: string }
  /** The answer to `rejoin`. */
  | { readonly type: 'instance'; readonly instance: string }

export function reportsBy(tell: (news: CaretakerNews) => void): CaretakerReports {
  return {
    lost: (lease) => tell({ type: 'lost', lease }),
    rejoined: (instance) => tell({ type: 'rejoined', instance }),
    log: (level, name, facts) => tell({ type: 'log', level, name, facts }),
  }
}
