/** How a worker is set up: its handler and its options, checked before anything is claimed. */
import * as z from 'zod'
import { assertRenewable } from '../../domain/lease.ts'
import { HoldfastError } from '../../errors.ts'
import * as fields from '../../operations/fields.ts'
import { parseInput } from '../../operations/operation.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import { optionsOf } from '../../runtime/session/input.ts'
import { signal } from '../../runtime/session/option-fields.ts'
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

/** One day. Node timers cannot run for more than 24 days: a longer one would fire at once. */
const maxTimeMs = 24 * 60 * 60 * 1000

/** Checked before anything is claimed: if a backoff were refused with each failure, items would fail for good. */
const workOptions = {
  name: 'work',
  input: z.strictObject({
    concurrency: z.int().min(1).max(1000).default(1),
    prefetch: z.int().min(0).max(1000).default(0),
    leaseMs: fields.leaseMs,
    backoff: fields.backoff(),
    pollEveryMs: z.int().min(1).max(maxTimeMs).optional(),
    signal,
    stopOnSignals: z.boolean().default(true),
  } satisfies { [Name in keyof WorkOptions]-?: z.ZodType }),
}
type WorkSettings = z.output<typeof workOptions.input>

/** The options with their defaults. INVALID if one is unknown or wrong. */
export function workSettings(session: Session, options: WorkOptions): WorkSettings {
  const settings = parseInput(workOptions, optionsOf('work', options)) as WorkSettings
  assertRenewable(settings.leaseMs)
  assertRenewing(session)
  return settings
}

export const stopOptions = {
  name: 'worker.stop',
  input: z.strictObject({ drainMs: z.int().min(0).max(maxTimeMs) }),
}

/** A handler may run for longer than any manual lease. */
function assertRenewing(session: Session): void {
  if (session.instance !== null) return
  throw new HoldfastError('INVALID', {
    what: 'this handle was opened with background: false, so nothing would renew the leases of a worker',
    next: 'open the store without that option',
  })
}
