/** What the calls of a queue take. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { WorkflowDefinition } from '../../domain/workflow.ts'
import type { MutationOptions, TokenOptions } from '../call-options.ts'

/**
 * How the waits between retries grow. Each wait is a random time between half a step and the whole step. Fields you
 * leave out keep their defaults.
 */
export interface BackoffOptions {
  /** The first step, ms; default 1000. */
  readonly baseMs?: number | undefined
  /** How much longer each step is than the one before, 1 to 10; default 2. */
  readonly factor?: number | undefined
  /** The longest step, ms; default 300000, or `baseMs` if that is more. */
  readonly maxMs?: number | undefined
}

/**
 * How a queue is set up. Settings take effect when the queue is first used, or with `define()`. `Input` is what its
 * schema accepts, `Output` what the schema makes of it.
 */
export interface QueueOptions<Input = unknown, Output = Input> {
  /** job (default), merge, task, or one you defined. */
  readonly workflow?: string | WorkflowDefinition | undefined
  /** Slots of the processing lock. */
  readonly slots?: number | undefined
  /** Attempts in all, the first included: once this many have failed, an item fails for good; default 3. */
  readonly maxAttempts?: number | undefined
  /** Crashes without progress before quarantine; 0 = never. */
  readonly maxCrashes?: number | undefined
  /** Length of leases on its items and lock that a process renews, at least 500 ms; default that of the process. */
  readonly leaseMs?: number | undefined
  /** Length of leases on its items and lock that nobody renews; default 300 s, 30 min for tasks. */
  readonly manualLeaseMs?: number | undefined
  /** How the waits between retries grow: baseMs (1 s), factor (2), maxMs (5 min). */
  readonly backoff?: BackoffOptions | undefined
  /** Any Standard Schema (zod, valibot, arktype, …). The store keeps the payload as JSON; a claim returns what the schema makes of it. */
  readonly schema?: StandardSchemaV1<Input, Output> | undefined
}

/** How and when a new item is to run. */
export interface AddOptions extends MutationOptions {
  /** 0 (first) to 10 (last); default 5. */
  readonly priority?: number | undefined
  /** Name of the thing worked on; unique while the item is open. */
  readonly key?: string | undefined
  /** A second add under the same open key is refused. */
  readonly dedupeKey?: string | undefined
  /** Id or key of the item this one is stacked on. */
  readonly parent?: string | undefined
  /** Items that must succeed first: ids, or keys in this queue. */
  readonly blockers?: readonly string[] | undefined
  /** Not before this time, ms since 1970. */
  readonly runAt?: number | Date | undefined
  /** How long to wait before it can be claimed, ms; instead of `runAt`. */
  readonly delayMs?: number | undefined
  /** Attempts in all, the first included: once this many have failed, it fails for good. Default is the queue's. */
  readonly maxAttempts?: number | undefined
  /** Data of the workflow itself. */
  readonly data?: Record<string, unknown> | undefined
}

/** One of several items to add at once. */
export interface NewItem<Input>
  extends Pick<AddOptions, 'priority' | 'runAt' | 'delayMs' | 'maxAttempts' | 'data'> {
  /** Any JSON value. */
  readonly payload: Input
}

/** A change to be merged. */
export interface SubmitOptions<Input> extends Omit<AddOptions, 'key' | 'parent' | 'runAt'> {
  /** Id or key of the item this one is stacked on. Null: none. */
  readonly parent?: string | null | undefined
  /** Not before this time, ms since 1970. Null: without delay. */
  readonly runAt?: number | Date | null | undefined
  /** Commit or change to be merged. */
  readonly headSha: string
  /** Issue it belongs to. */
  readonly bead?: string | null | undefined
  /** Any JSON value. */
  readonly payload?: Input | undefined
}

/** How a failure is handled. */
export interface FailOptions extends TokenOptions {
  /** Whether a retry may help; default that of the workflow. */
  readonly retryable?: boolean | undefined
  /** How the waits between retries grow: baseMs (1 s), factor (2), maxMs (5 min). Default: that of the queue. */
  readonly backoff?: BackoffOptions | undefined
}

/** Options of an operator's change to an item. */
export interface OperatorOptions extends MutationOptions {
  /** Why; kept in the audit trail. */
  readonly reason?: string | undefined
  /** Refuse unless the item is at this version. */
  readonly expectedVersion?: number | undefined
}

/** Which held items an operator reclaims. */
export interface ReclaimOptions extends MutationOptions {
  /** Only what has been silent for this long, ms; 0 = everything held. Default 300 s. */
  readonly thresholdMs?: number | undefined
  /** Also take it from processes that are alive and renewing; needs a reason. */
  readonly force?: boolean | undefined
  /** Why; kept in the audit trail. */
  readonly reason?: string | undefined
  /** Report what would be done, and do nothing. */
  readonly dryRun?: boolean | undefined
}

/** Which items to list, and how many per page. */
export interface ListOptions {
  /** Only these states. */
  readonly states?: readonly string[] | undefined
  /** Only those in this phase. */
  readonly phase?: 'ready' | 'suspect' | 'waiting' | 'held' | 'closed' | undefined
  /** Only quarantined items. */
  readonly quarantined?: boolean | undefined
  /** How many at most, up to 1000. */
  readonly limit?: number | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
}
