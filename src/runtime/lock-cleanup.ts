/** Something done again and again at a period of its own, until it is stopped, its signal fires or the store closes. */
import { leaseMsMax } from '../domain/lease.ts'
import { InvalidError } from '../errors.ts'
import type { Session } from '../session.ts'

export interface CleanupOptions {
  /** Default 5 min. */
  readonly everyMs?: number
  readonly signal?: AbortSignal
}

const everyMsDefault = 5 * 60 * 1000

/** A round that fails is told and does not end the others. */
export function repeatCleanup(
  session: Session,
  { everyMs = everyMsDefault, signal }: CleanupOptions,
  clean: () => Promise<unknown>,
): { stop(): void } {
  if (!(everyMs >= 1 && everyMs <= leaseMsMax)) {
    throw new InvalidError({
      what: `locks cannot be cleaned up every ${everyMs} ms`,
      next: `give a period of 1 to ${leaseMsMax} ms`,
      facts: { everyMs },
    })
  }
  let stopped = signal?.aborted ?? false
  let cancel = () => {}
  const stop = () => {
    stopped = true
    cancel()
    signal?.removeEventListener('abort', stop)
  }
  const schedule = () => {
    if (stopped || session.isClosed) return
    cancel = session.environment.timer(everyMs, () => void round().finally(schedule))
  }
  const round = () =>
    clean().catch((error) =>
      session.logger.warn({ trigger: 'manual', error: String(error) }, 'recovery.failed'),
    )

  signal?.addEventListener('abort', stop, { once: true })
  schedule()
  return { stop }
}
