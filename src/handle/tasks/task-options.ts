/** What the calls of tasks take. */
import type { TaskStatus } from '../../domain/task.ts'
import type { ClaimOptions, MutationOptions, TokenOptions } from '../call-options.ts'

/** The contents of a task. */
export interface TaskFields {
  /** What is to be done. */
  readonly body?: string | undefined
  /** Labels to filter by. */
  readonly labels?: readonly string[] | undefined
  /** Files and folders it touches. */
  readonly paths?: readonly string[] | undefined
  /** Owner of the task, regardless of who works on it. */
  readonly owner?: string | null | undefined
  /** The machine it belongs on. */
  readonly host?: string | null | undefined
  /** 0 (first) to 10 (last); default 5. */
  readonly priority?: number | undefined
  /** Any JSON of your own. */
  readonly metadata?: unknown
  /** Tasks that must be done first. */
  readonly dependsOn?: readonly string[] | undefined
}
/** A new task. `key` is your own name for it, unique while the task is open. */
export interface AddTaskOptions extends TaskFields, MutationOptions {
  /** Your own name for it, such as T-12; unique while it is open. */
  readonly key?: string | undefined
}
/** What to change; fields you leave out stay as they are. */
export interface TaskChanges extends TaskFields {
  /** A one-line title. */
  readonly title?: string | undefined
  /** A state that is not held; In Progress is reached by a claim. */
  readonly status?: Exclude<TaskStatus, 'In Progress'> | undefined
  /** Progress of the work; only its holder can set it. */
  readonly progress?: unknown
  /** Kept with the task, even when its holder is lost. */
  readonly note?: string | undefined
}
/** A change, and the conditions under which it is made. */
export interface UpdateTaskOptions extends TaskChanges, TokenOptions {
  /** Refuse unless the item is at this version. */
  readonly expectedVersion?: number | undefined
  /** Do it even if another agent holds it; needs a reason. */
  readonly force?: boolean | undefined
  /** Why; kept in the audit trail. */
  readonly reason?: string | undefined
}
/** How a task is removed, and why. */
export interface RemoveTaskOptions extends MutationOptions {
  /** Why; kept in the audit trail. */
  readonly reason: string
  /** Do it even if somebody holds it; the holder loses it. */
  readonly force?: boolean | undefined
  /** What to do with tasks that depend on it: release them. */
  readonly dependents?: 'release' | undefined
  /** Refuse unless the item is at this version. */
  readonly expectedVersion?: number | undefined
}
/**
 * Which tasks are meant: those with all of these labels, this owner and this host (null = none), and at least this
 * urgent.
 */
export interface TaskFilter {
  /** Only tasks with all of these labels. */
  readonly labels?: readonly string[] | undefined
  /** Owner; null = none. */
  readonly owner?: string | null | undefined
  /** Only tasks that you own or that nobody owns. */
  readonly mine?: boolean | undefined
  /** The machine they belong on; null = none. */
  readonly host?: string | null | undefined
  /** At least this urgent: lower numbers come first. */
  readonly maxPriority?: number | undefined
}
/** Which tasks to list, and how many per page. */
export interface ListTasksOptions extends TaskFilter {
  /** Only these. */
  readonly status?: TaskStatus | readonly TaskStatus[] | undefined
  /** Held by this agent. */
  readonly assignee?: string | undefined
  /** How many at most, up to 1000. */
  readonly limit?: number | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
}
/**
 * How a task is claimed. `fromReview` also takes it back out of review, `force` also takes it from the agent it is
 * offered to.
 */
export interface ClaimTaskOptions extends ClaimOptions {
  /** Also take it back out of review. */
  readonly fromReview?: boolean | undefined
  /** Take it even if it is offered to another agent. For operators. */
  readonly force?: boolean | undefined
}
/** Which task to claim, and how many this agent and this host may hold. */
export interface ClaimNextOptions extends TaskFilter, Omit<ClaimOptions, 'token'> {
  /** Include tasks that belong on other machines. */
  readonly anyHost?: boolean | undefined
  /** Most tasks this agent may hold. */
  readonly maxPerAgent?: number | undefined
  /** Most tasks that may be held on this host, by its processes or by hand. */
  readonly maxPerHost?: number | undefined
}
