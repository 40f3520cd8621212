/** The messages between the main thread and the thread that runs the engine. */

import type { HoldfastError } from '../../errors.ts'
import type { RecoveryReport } from '../../operations/recovery/report.ts'
import type { Command } from '../../port/command.ts'
import type { EngineOptions, StoreStatus } from '../../port/engine.ts'
import type { CaretakerOptions } from '../caretaker/caretaker.ts'
import type { CaretakerNews } from '../caretaker/caretaker-messages.ts'

export interface EngineThreadData {
  readonly url: string
  readonly settings: Pick<
    EngineOptions,
    'mustExist' | 'durability' | 'busyTimeoutMs' | 'recoverOnOpen' | 'patienceMs' | 'manualGraceMs'
  >
  /** Whether lapsed leases are reclaimed before claims. */
  readonly reclaims: boolean
}

export interface Asked {
  readonly id: number
  readonly command: Command
}

export type ToEngine =
  | { readonly type: 'execute'; readonly asked: readonly Asked[] }
  | { readonly type: 'startCaretaker'; readonly options: CaretakerOptions; readonly board: SharedArrayBuffer }
  /** `wake`: a lease on the board needs attention before the caretaker's next duty. */
  | { readonly type: 'wake' }
  | { readonly type: 'rejoin' }
  /** From now on somebody in the main thread listens to this bell, or nobody does any longer. */
  | { readonly type: 'listen'; readonly bell: number }
  | { readonly type: 'ignore'; readonly bell: number }
  | { readonly type: 'hears' }
  | { readonly type: 'stopCaretaker' }
  | { readonly type: 'close'; readonly withinMs: number | undefined }

export type Answered = { readonly id: number } & (
  | { readonly result: unknown }
  | { readonly error: ReturnType<HoldfastError['toJSON']> }
)

export type FromEngine =
  | CaretakerNews
  | { readonly type: 'opened'; readonly status: StoreStatus }
  | { readonly type: 'failed'; readonly error: ReturnType<HoldfastError['toJSON']> }
  | { readonly type: 'news'; readonly answers: readonly Answered[] }
  | { readonly type: 'status'; readonly status: StoreStatus }
  | { readonly type: 'rung'; readonly bell: number }
  /** The answer to `hears`. */
  | { readonly type: 'hearing'; readonly hearsRings: boolean }
  | { readonly type: 'caretakerStopped' }
  | { readonly type: 'recovered'; readonly report: RecoveryReport; readonly ms: number }
  | { readonly type: 'recoveryFailed'; readonly error: string; readonly queue: string | null }
  | { readonly type: 'cascadeFailed'; readonly error: string }
  /** The answer to `rejoin`; null: there is no caretaker. */
  | { readonly type: 'instance'; readonly instance: string | null }
