/** Options that calls of queues, tasks and locks share: who acts, under which token, and how long to wait. */
import { shown } from '../domain/text.ts'
import { InvalidError } from '../errors.ts'
import type { AskedOf, OperationName } from '../operations/table.ts'
import { assertSignal, optionsOf } from '../runtime/session/input.ts'

/** Who calls. */
export interface AgentOptions {
  /** Who acts; default is this handle's own agent. */
  readonly agent?: string | undefined
}

/** Options of every change: who makes it, and under which idempotency key. */
export interface MutationOptions extends AgentOptions {
  /** Makes the request safe to retry: a repeated key returns the first result, for 24 h (`retention.answersMs`). */
  readonly idempotencyKey?: string | undefined
}

/**
 * Options of a method that changes something: the input of its operation, without the fields that the method takes as
 * arguments. A queue fills in its own name.
 */
export type OptionsFor<Name extends OperationName, Arguments extends PropertyKey = never> = Omit<
  AskedOf<Name>,
  Arguments | 'queue'
> &
  MutationOptions

/** Options of a change that only the holder may make. */
export interface TokenOptions extends Pick<AskedOf<'queue.next'>, 'token'>, MutationOptions {}

/** How an item is claimed. */
export interface ClaimOptions extends OptionsFor<'queue.next'> {
  /** False: a manual lease that this process does not renew. */
  readonly renew?: boolean | undefined
  /** The process that the claim belongs to, if not this one, by its id from `instance.join`. Nobody renews it. */
  readonly instance?: string | undefined
}

/**
 * A claim for this handle's own agent. The handle renews it, so `lease` is set. Exception: a handle opened with
 * `background: false` renews nothing, and its `lease` is null all the same.
 */
export interface OwnClaimOptions extends ClaimOptions {
  /** Only this handle's own agent. */
  readonly agent?: undefined
  /** Always renewed. */
  readonly renew?: true | undefined
  /** Only this process. */
  readonly instance?: undefined
}

/** The same options, restricted to this handle's own agent. */
export type Own<Options> = Omit<Options, keyof OwnAgent> & OwnAgent

type OwnAgent = Pick<OwnClaimOptions, 'agent' | 'renew' | 'instance'>

/** How long a claim waits for work, and what ends the wait. */
export interface WaitOptions {
  /** How long to wait for something to claim, ms; default 0: answer at once. */
  readonly waitMs?: number | undefined
  /** Ends the wait, and the promise rejects with its reason. If it has already fired, nothing is claimed. */
  readonly signal?: AbortSignal | undefined
}

/** Splits the wait from the other options of a claim. Throws if it is no valid wait, or is over before it begins. */
export function waitIn<Options extends MutationOptions & WaitOptions>(what: string, asked: Options) {
  const { waitMs = 0, signal, ...options } = optionsOf(what, asked)
  assertWait(what, waitMs, options.idempotencyKey)
  assertSignal(what, signal)
  signal?.throwIfAborted()
  return { waitMs, signal, options }
}

const maxWaitMs = 24 * 60 * 60 * 1000

/** A wait is a whole number of ms, up to 24 h, and makes many requests, so it cannot have an idempotency key. */
function assertWait(what: string, waitMs: number, idempotencyKey: string | undefined): void {
  if (!Number.isInteger(waitMs) || waitMs < 0 || waitMs > maxWaitMs) {
    throw new InvalidError({
      what: `${what}: waitMs: ${shown(waitMs)} is not a time to wait`,
      next: `give whole milliseconds from 0 to ${maxWaitMs} (24 h)`,
    })
  }
  if (waitMs === 0 || idempotencyKey === undefined) return
  throw new InvalidError({
    what: `${what}: a wait makes many requests, and an idempotency key covers only one`,
    next: 'leave out waitMs or the key',
  })
}
