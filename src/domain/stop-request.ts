/** Whether a command ended because it was asked to. Then its exit says nothing about its work. */

export type StopSignal = 'SIGINT' | 'SIGQUIT' | 'SIGTERM' | 'SIGHUP'

/**
 * An agent or a shell at a terminal takes an interrupt as "leave that" and goes on to something else, so what it does
 * later counts. Ample time to clean up for one that takes it as "end".
 */
const interruptedMs = 60_000

/** `askedAt`: when each signal was last sent. TERM and HUP ask for nothing but the end, however long that takes. */
export function isStopHeeded(askedAt: ReadonlyMap<StopSignal, number>, endedAt: number): boolean {
  return [...askedAt].some(
    ([signal, at]) => signal === 'SIGTERM' || signal === 'SIGHUP' || endedAt - at <= interruptedMs,
  )
}
