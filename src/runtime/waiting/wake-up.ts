/** Sleeping until something may have changed. */
import { onAbort } from '../../abort.ts'
import type { Bell } from '../../domain/bell.ts'
import { pause } from '../../environment.ts'
import type { Session } from '../session/session.ts'

export interface WakeUp {
  /** Resolves after `ms`, or as soon as the bell has rung, the signal has fired or the handle closes. */
  sleep(ms: number): Promise<void>
  end(): void
}

/** Call this before looking: whatever happens in between then ends the sleep at once. */
export function wakeOn(session: Session, bell: Bell, signal?: AbortSignal): WakeUp {
  const woken = new AbortController()
  const wake = () => woken.abort()
  const unwake = session.onRing(bell, wake)
  const stay = session.onClosing(wake)
  const unheard = onAbort(signal, wake)
  return {
    sleep: (ms) => pause(session.environment, ms, woken.signal),
    end() {
      unwake()
      stay()
      unheard()
    },
  }
}
