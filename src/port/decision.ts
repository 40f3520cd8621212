/** What the rules answer: changes with their events, or a request for more rows. */
import type { EventKind, Subject } from '../domain/event.ts'
import type { Json } from '../domain/json.ts'
import type { Grant } from './answer.ts'
import type { Loaded, Needs } from './selector.ts'
import type { Tables } from './tables.ts'

/** What happened, for the audit log; written with the change it belongs to. */
export interface EventDraft {
  readonly kind: EventKind
  readonly agent: string | null
  readonly detail?: Readonly<Record<string, Json | undefined>>
}

/** One row before and after: null before means insert, null after means delete. */
export type Change = {
  [Table in keyof Tables]: {
    readonly table: Table
    readonly before: Tables[Table] | null
    readonly after: Tables[Table] | null
    /** Absent only for renewals and bookkeeping, which carry no version and are not replayed. */
    readonly event?: EventDraft
  }
}[keyof Tables]

/** A remark about a thing that was not changed, such as a refused release. */
export interface Remark extends EventDraft {
  readonly subject: Subject
  readonly id: string
  readonly queue: string | null
  readonly token: number | null
}

export interface Decision<Result = unknown> {
  readonly changes: readonly Change[]
  readonly remarks?: readonly Remark[]
  readonly result: Result
  /** The grants that an idempotent repeat depends on. */
  readonly granted?: readonly Grant[]
}

/** A decision that needs more rows, one time: children of a merged parent, queues of lapsed items. */
export interface Ask<N extends Needs = Needs, Result = unknown> {
  readonly ask: N
  readonly then: (more: Loaded<N>) => Decision<Result>
}
