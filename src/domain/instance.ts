/** One incarnation of a process, with what is needed to prove its death. A name may repeat; an instance never. */

/** What identifies one incarnation of a process; enough to prove its death on the same machine. */
export interface ProcessIdentity {
  readonly bootId: string
  readonly pidNamespace: string
  readonly hostName: string
  readonly pid: number
  /** Start time as the kernel tells it; null where it cannot be had, then only a missing pid proves death. */
  readonly startTime: string | null
}

export interface Instance extends ProcessIdentity {
  readonly id: string
  readonly agent: string
  readonly startedAt: number
  readonly beatAt: number
  /** When this process last looked for things to heal. */
  readonly sweptAt: number | null
  readonly endedAt: number | null
  readonly endReason: string | null
  readonly version: number
}

export function endInstance(instance: Instance, reason: string, wall: number): Instance {
  return {
    ...instance,
    endedAt: Math.max(wall, instance.startedAt),
    endReason: reason,
    version: instance.version + 1,
  }
}
