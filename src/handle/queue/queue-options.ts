/** What the calls of a queue take. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { WorkflowDefinition } from '../../domain/workflow.ts'
import type { AskedOf } from '../../operations/table.ts'
import type { ClaimOptions, OptionsFor } from '../call-options.ts'

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
export interface QueueOptions<Input = unknown, Output = Input>
  extends Omit<AskedOf<'queue.define'>, 'queue' | 'workflow' | 'backoff'> {
  /** job (default), merge, task, or one you defined. */
  readonly workflow?: string | WorkflowDefinition | undefined
  /** How the waits between retries grow. */
  readonly backoff?: BackoffOptions | undefined
  /** Any Standard Schema (zod, valibot, arktype, …). The store keeps the payload as JSON; a claim returns what the schema makes of it. */
  readonly schema?: StandardSchemaV1<Input, Output> | undefined
}

/** How and when a new item is to run. */
export interface AddOptions extends OptionsFor<'queue.add', 'payload' | 'runAt'> {
  /** Not before this time: a `Date`, or ms since 1970. */
  readonly runAt?: number | Date | null | undefined
}

/** One of several items to add at once. */
export interface NewItem<Input>
  extends Pick<AddOptions, 'priority' | 'runAt' | 'delayMs' | 'maxAttempts' | 'data'> {
  /** Any JSON value. */
  readonly payload: Input
}

/** A change to be merged. */
export interface SubmitOptions<Input>
  extends OptionsFor<'queue.submit', 'key' | 'payload' | 'runAt'>,
    Pick<AddOptions, 'runAt'> {
  /** Any JSON value. */
  readonly payload?: Input | undefined
}

/** How a failure is handled. */
export interface FailOptions extends OptionsFor<'queue.fail', 'ref' | 'error' | 'backoff'> {
  /** How the waits between retries grow; default that of the queue. */
  readonly backoff?: BackoffOptions | undefined
}

/** How the processing lock is acquired. */
export interface ProcessingLockOptions extends OptionsFor<'queue.acquireProcessingLock'>, ClaimOptions {}

/** Options of an operator's change to an item. */
export interface OperatorOptions extends OptionsFor<'queue.retry', 'ref'> {}

/** Who retries what failed, and why. */
export interface RetryFailedOptions extends Pick<OperatorOptions, 'agent' | 'reason'> {
  /** Count what would be retried, and change nothing. */
  readonly dryRun?: boolean | undefined
}

/** Which held items an operator reclaims. */
export interface ReclaimOptions extends OptionsFor<'queue.reclaimStale'> {}

/** Which items to list, and how many per page. */
export interface ListOptions extends Omit<AskedOf<'queue.list'>, 'queue'> {}
