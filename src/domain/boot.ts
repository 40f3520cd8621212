/**
 * Whether a process with another boot id can be running alongside us. A different boot id does not prove that it
 * cannot: containers may have their own boot ids on one kernel and one disk. What counts is whether the kernel has
 * restarted since the process last gave a sign of life.
 */

export interface SignsOfLife {
  /** Wall times. */
  readonly startedAt: number
  readonly beatAt: number
  /** Awake time of its machine at its last heartbeat or renewal, in ms; null or missing if unknown. */
  readonly awakeAt?: number | null
}

/** What the kernel says about this machine. */
export interface KernelTimes {
  /** Wall time when the kernel started; null if that may be a container's own, or is unavailable. */
  readonly bootedAt: number | null
  /** Awake time now, in ms. */
  readonly awakeMs: number
}

/**
 * Stands in for a boot id that is unavailable (no /proc, as in some sandboxes); shared by all processes without one.
 */
export const unknownBoot = 'unknown boot'

export function isUnknownBoot(bootId: string): boolean {
  return bootId === unknownBoot
}

/** Clocks are corrected by seconds while a machine starts, and taking a live process for dead is the worse mistake. */
const slackMs = 60_000
/** A live process beats every 30 s. */
const silentMs = 120_000

/** Awake time starts over with each kernel start and never goes back in between, so no wall clock is needed. */
export function isAwakeTimeBack(beforeMs: number, nowMs: number): boolean {
  return nowMs < beforeMs - slackMs
}

/** False if in doubt: then the lease decides. */
export function isOfEarlierBoot(signs: SignsOfLife, { bootedAt, awakeMs }: KernelTimes): boolean {
  const { startedAt, beatAt, awakeAt } = signs
  if (awakeAt != null) {
    if (isAwakeTimeBack(awakeAt, awakeMs)) return true
    // By a clock that nobody sets, its last heartbeat may be recent; the wall clock may have been wrong at the time.
    if (awakeMs - awakeAt < silentMs) return false
  }
  return bootedAt !== null && Math.max(startedAt, beatAt) < bootedAt - slackMs
}
