/** Repeats a cleanup at a fixed interval until it is stopped, its signal fires or the store closes. */
import * as z from 'zod'
import { onAbort } from '../../abort.ts'
import { maxLeaseMs } from '../../domain/lease.ts'
import { parseInput } from '../../operations/operation.ts'
import { signal } from '../session/option-fields.ts'
import type { Session } from '../session/session.ts'

/** How often to clean up, and what ends it. */
export interface CleanupOptions {
  /** Default 5 min. */
  readonly everyMs?: number | undefined
  /** Ends the cleanup. */
  readonly signal?: AbortSignal | undefined
}

const everyMsDefault = 5 * 60 * 1000

const cleanupOptions = {
  name: 'tasks.startLockCleanupBackground',
  input: z.strictObject({
    everyMs: z.int().min(1).max(maxLeaseMs).optional(),
    signal,
  }),
}

/** A round that fails is logged and does not stop later ones. */
export function repeatCleanup(
  session: Session,
  options: CleanupOptions,
  clean: () => Promise<unknown>,
): { stop(): void } {
  parseInput(cleanupOptions, options)
  const { everyMs = everyMsDefault, signal } = options
  let stopped = signal?.aborted ?? false
  let cancel = () => {}
  let unheard = () => {}
  const stop = () => {
    stopped = true
    cancel()
    unheard()
  }
  const schedule = () => {
    if (!stopped) cancel = session.environment.timer(everyMs, () => void round().finally(schedule))
  }
  const round = async () => {
    if (session.isClosed) return stop()
    await clean().catch((error) =>
      session.logger.warn({ trigger: 'manual', error: String(error) }, 'recovery.failed'),
    )
  }

  unheard = onAbort(signal, stop)
  schedule()
  return { stop }
}
