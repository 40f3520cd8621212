/** Renews one lease on request, for leases that no Holdfast process keeps by itself. */
import { onAbort } from '../../abort.ts'
import { safetyMarginMs } from '../../domain/lease.ts'
import { shown } from '../../domain/text.ts'
import { InvalidError, isHoldfastError, LeaseLostError } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { Session } from '../session/session.ts'

/** How often to renew, and what to do when the lease is lost. */
export interface RenewalOptions {
  /** Length of each renewal, ms; default: that of the lease. */
  readonly leaseMs?: number | undefined
  /** Default a third of the lease. More than half is accepted with a warning: one missed try would lose it. */
  readonly everyMs?: number | undefined
  /** Ends the renewal; the lease then runs out by itself. */
  readonly signal?: AbortSignal | undefined
  /** Called once, when the lease is lost. */
  readonly onLost?: ((error: LeaseLostError) => void) | undefined
}

/** A renewal that continues until it is stopped or the lease is lost. */
export interface LeaseRenewal {
  /** Fires when the lease is lost or could not be renewed in time. Its reason is a LeaseLostError. */
  readonly signal: AbortSignal
  /** Stops renewing. The lease lapses unless it is released. */
  stop(): void
}

interface Renewing extends RenewalOptions {
  readonly session: Session
  readonly subject: string
  readonly lease: LeaseRef
  readonly leaseMs: number
  /** Monotonic time at which the lease ends in the store unless it is renewed. */
  readonly endsAt: number
  readonly renew: (leaseMs: number) => Promise<unknown>
}

/**
 * A lease that is about to end, or has lapsed but not been reclaimed, can still be renewed: how long to wait for that.
 */
const firstAnswerMs = 1000

export function runRenewal(options: Renewing): LeaseRenewal {
  const { session, subject, leaseMs } = options
  const { environment, logger } = session
  const everyMs = options.everyMs ?? leaseMs / 3
  assertEvery(everyMs, leaseMs)
  if (everyMs > leaseMs / 2) logger.warn({ subject, everyMs, leaseMs }, 'renew.seldom')
  const lost = new AbortController()
  let stopped = false
  let cancelRound = () => {}
  let cancelDeadline = () => {}
  let unheard = () => {}

  const renewal = session.keeper.renewByHand(options.lease)
  const stop = () => {
    stopped = true
    renewal.end()
    cancelRound()
    cancelDeadline()
    unheard()
  }
  const lose = (error: LeaseLostError) => {
    stop()
    lost.abort(error)
    options.onLost?.(error)
  }
  /** Counted from before the request: however long it takes, we never trust the lease longer than the store does. */
  const trustUntil = (deadline: number) => {
    cancelDeadline()
    cancelDeadline = environment.timer(deadline - environment.monotonic(), () =>
      lose(lossOf(subject, 'it could not be renewed in time')),
    )
  }
  const round = async () => {
    // The holder has asked to give it back: it ends unless that is refused.
    if (renewal.isSuspended) return schedule(leaseMs / 15)
    const requestedAt = environment.monotonic()
    try {
      await options.renew(leaseMs)
      if (stopped) return
      trustUntil(requestedAt + leaseMs - safetyMarginMs(leaseMs))
      schedule(everyMs - (environment.monotonic() - requestedAt))
    } catch (error) {
      if (stopped) return
      if (session.isClosed) return lose(lossOf(subject, 'its process closed the store'))
      logger.warn({ subject, error: String(error) }, 'renew.failed')
      if (isLoss(error)) lose(error)
      else if (isHoldfastError(error) && error.retryable) schedule(leaseMs / 15)
      else lose(lossOf(subject, String(error)))
    }
  }
  const schedule = (ms: number) => {
    cancelRound = environment.timer(Math.max(0, ms), () => void round())
  }

  unheard = onAbort(options.signal, stop)
  if (stopped) return { signal: lost.signal, stop }
  // Renew at once: the answer tells whether the lease is held at all, and when its countdown starts.
  const now = environment.monotonic()
  trustUntil(Math.max(options.endsAt - safetyMarginMs(leaseMs), now + firstAnswerMs))
  void round()
  return { signal: lost.signal, stop }
}

function assertEvery(everyMs: number, leaseMs: number): void {
  if (Number.isFinite(everyMs) && everyMs > 0 && everyMs < leaseMs) return
  throw new InvalidError({
    what: `a lease of ${leaseMs} ms cannot be kept by renewing it every ${shown(everyMs)} ms`,
    next: 'renew more often than once per lease; the default is three times',
    facts: { leaseMs },
  })
}

function isLoss(error: unknown): error is LeaseLostError {
  return isHoldfastError(error) && error.code === 'LEASE_LOST'
}

function lossOf(subject: string, reason: string): LeaseLostError {
  return new LeaseLostError({ subject, token: null, currentToken: 0, holder: null, reason })
}
