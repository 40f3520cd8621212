/** What the calls of tasks return. */
import type {
  BatchClaimOutcome,
  NextTaskOutcome,
  TaskClaimOutcome,
} from '../../operations/task/claim-outcome.ts'
import type { TaskView } from '../../operations/task/view.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'

/** A task as callers see it. */
export type Task = TaskView

type Held<Outcome, Kept> = Outcome extends { outcome: 'claimed' }
  ? Outcome & { readonly lease: Kept }
  : Outcome
/** The outcome of claiming a task by name. */
export type TaskClaim<Kept extends Lease | null = Lease | null> = Held<TaskClaimOutcome, Kept>
/** The outcome of claiming the next task. */
export type NextTask<Kept extends Lease | null = Lease | null> = Held<NextTaskOutcome, Kept>
/** The outcome of claiming several tasks: all of them, or none with the reasons. */
export type BatchClaim<Kept extends Lease | null = Lease | null> =
  | { readonly outcome: 'claimed'; readonly tasks: { readonly task: Task; readonly lease: Kept }[] }
  | Exclude<BatchClaimOutcome, { outcome: 'claimed' }>
