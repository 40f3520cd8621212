/** How a worker is set up: its handler and its options, checked before anything is claimed. */
import * as z from 'zod'
import { nearestName } from '../../domain/name.ts'
import { shown } from '../../domain/text.ts'
import { HoldfastError } from '../../errors.ts'
import * as fields from '../../operations/fields.ts'
import { parseInput } from '../../operations/operation.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import { assertSignal, given, optionsOf } from '../../runtime/session/input.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { QueueItem } from '../queue/queue-answers.ts'
import type { BackoffOptions } from '../queue/queue-options.ts'

/** What a handler gets besides its item. */
export interface WorkContext {
  /** Fires when the lease is lost, the item is cancelled, or the worker stops and no longer waits for this handler. */
  readonly signal: AbortSignal
  /** The lease on the item. */
  readonly lease: Lease
  /** Records progress of the item. */
  progress(progress: unknown): Promise<void>
}

/** Handles one item. Returning completes it, with the returned value as its result; throwing reports a failure. */
export type Handler<Payload> = (item: QueueItem<Payload>, context: WorkContext) => unknown

/** How a worker claims and runs items. */
export interface WorkOptions {
  /** Handlers at once; default 1. A queue with a processing lock always runs one. */
  readonly concurrency?: number | undefined
  /** Items claimed ahead of free handlers; default 0. */
  readonly prefetch?: number | undefined
  /** Length of the leases, ms, at least 500; default is the queue's, then the handle's. */
  readonly leaseMs?: number | undefined
  /** How the waits between retries grow; default that of the queue. */
  readonly backoff?: BackoffOptions | undefined
  /**
   * Look for work at least this often, even when nothing rings, ms. By default every second, and less and less often, down
   * to every five seconds, while there is nothing to do and rings are known to arrive.
   */
  readonly pollEveryMs?: number | undefined
  /** Stops the worker like `stop()`. */
  readonly signal?: AbortSignal | undefined
  /**
   * On SIGINT and SIGTERM, drains for at most 8 s, gives back what is left, and lets the signal end the process unless
   * the program listens for it too; a second signal gives back at once. Default true; false leaves it to the program.
   */
  readonly stopOnSignals?: boolean | undefined
}

const defaults = Object.freeze({ concurrency: 1, prefetch: 0 })
const optionNames = [
  'concurrency',
  'prefetch',
  'pollEveryMs',
  'stopOnSignals',
  'leaseMs',
  'backoff',
  'signal',
] as const satisfies readonly (keyof WorkOptions)[]
/** One day. Node timers cannot run for more than 24 days: a longer one would fire at once. */
export const maxTimeMs = 24 * 60 * 60 * 1000

/** The options with their defaults. INVALID if one is unknown or wrong. */
export function workSettings(session: Session, options: WorkOptions) {
  assertKnown(optionsOf('work', options))
  assertSignal('work', options.signal)
  assertRenewing(session)
  assertBackoff(options.backoff)
  const settings = { ...defaults, ...given(options) }
  assertWhole('concurrency', settings.concurrency, 1, 1000)
  assertWhole('prefetch', settings.prefetch, 0, 1000)
  if (settings.pollEveryMs !== undefined) assertWhole('pollEveryMs', settings.pollEveryMs, 1, maxTimeMs)
  return settings
}

function assertKnown(options: object): void {
  const unknown = Object.keys(options).find((name) => !(optionNames as readonly string[]).includes(name))
  if (unknown === undefined) return
  const nearest = nearestName(unknown, optionNames)
  throw new HoldfastError('INVALID', {
    what: `unknown option "${unknown}" of work`,
    next: nearest ? `did you mean "${nearest}"?` : `known options: ${optionNames.join(', ')}`,
  })
}

/** A handler may run for longer than any manual lease. */
function assertRenewing(session: Session): void {
  if (session.instance !== null) return
  throw new HoldfastError('INVALID', {
    what: 'this handle was opened with background: false, so nothing would renew the leases of a worker',
    next: 'open the store without that option',
  })
}

/** Checked before anything is claimed: if it were refused with each failure, items would fail for good. */
function assertBackoff(backoff: unknown): void {
  if (backoff === undefined) return
  parseInput({ name: 'work', input: z.strictObject({ backoff: fields.backoff() }) }, { backoff })
}

export function assertWhole(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return
  throw new HoldfastError('INVALID', {
    what: `${name} is ${shown(value)}`,
    next: `give a whole number from ${min} to ${max}`,
  })
}
