/** What the main thread and the caretaker thread say to each other. */
import type { LogFacts, LogName } from '../logger.ts'
import type { LeaseRef } from '../operations/lease.ts'
import type { CaretakerOptions, KeptLease } from './caretaker.ts'

export interface ThreadData {
  readonly url: string
  readonly durability: 'full' | 'normal'
  readonly busyTimeoutMs: number
  readonly options: CaretakerOptions
  readonly deadlines: SharedArrayBuffer
}

export type ToThread =
  | { readonly type: 'hold'; readonly lease: KeptLease }
  | { readonly type: 'drop'; readonly lease: LeaseRef }
  | { readonly type: 'close' }

export type FromThread =
  | { readonly type: 'lost'; readonly lease: LeaseRef }
  | {
      readonly type: 'log'
      readonly level: 'info' | 'warn' | 'error'
      readonly name: LogName
      readonly facts: LogFacts
    }
