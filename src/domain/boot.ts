/**
 * Whether a process of another boot id can be running beside us. Another boot id is no proof that it cannot:
 * containers may have boot ids of their own on one kernel and one disk. What counts is whether the kernel has been
 * restarted since the process last showed itself.
 */

/** What a process has shown of itself. */
export interface SignsOfLife {
  /** Wall times. */
  readonly startedAt: number
  readonly beatAt: number
  /** Awake time of its machine at its last beat or renewal, ms; null or missing where it is not known. */
  readonly awakeAt?: number | null
}

/** This machine, as the kernel tells it. */
export interface KernelTimes {
  /** Wall time of the kernel's start; null where that may be a container's own, or cannot be had. */
  readonly bootedAt: number | null
  /** Awake time now, ms. */
  readonly awakeMs: number
}

/** In place of a boot id that cannot be had (no /proc, as in some sandboxes): it is the same for all who have none. */
export const unknownBoot = 'unknown boot'

export function isUnknownBoot(bootId: string): boolean {
  return bootId === unknownBoot
}

/** Clocks are corrected by seconds while a machine starts; taking a live process for dead is the worse mistake. */
const slackMs = 60_000
/** Whoever lives beats every 30 s. */
const silentMs = 120_000

/** Awake time begins anew with each start of the kernel and never goes back between: no wall clock is needed. */
export function isAwakeTimeBack(beforeMs: number, nowMs: number): boolean {
  return nowMs < beforeMs - slackMs
}

/** In doubt false: then the lease decides. */
export function isOfEarlierBoot(
  { startedAt, beatAt, awakeAt }: SignsOfLife,
  { bootedAt, awakeMs }: KernelTimes,
): boolean {
  if (awakeAt != null) {
    if (isAwakeTimeBack(awakeAt, awakeMs)) return true
    // On a clock that nobody sets it may have beaten just now; the wall clock may have been wrong when it did.
    if (awakeMs - awakeAt < silentMs) return false
  }
  return bootedAt !== null && Math.max(startedAt, beatAt) < bootedAt - slackMs
}
