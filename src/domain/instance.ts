/** One incarnation of a process, with what is needed to prove its death. Names may repeat; instances never do. */
import type { Held } from './crash.ts'
import { type LeaseColumns, lastSignOfLife } from './lease.ts'

/** What identifies one incarnation of a process; enough to prove its death on the same machine. */
export interface ProcessIdentity {
  readonly bootId: string
  readonly pidNamespace: string
  readonly hostName: string
  readonly pid: number
  /** Start time reported by the kernel; null if unavailable, in which case only a missing pid proves death. */
  readonly startTime: string | null
}

export interface Instance extends ProcessIdentity {
  readonly id: string
  readonly agent: string
  readonly startedAt: number
  readonly beatAt: number
  /** Its last heartbeat on the lease clock; null for a process that others registered, which does not beat. */
  readonly seenAt: number | null
  /** When this process last looked for things to heal. */
  readonly sweptAt: number | null
  readonly endedAt: number | null
  readonly endReason: string | null
  /** Who registered this process for the agent; null if the process opened the store itself. */
  readonly registeredBy: string | null
  /** When something it held was first found lost, on the lease clock, and what its process held at that time. */
  readonly lostAt: number | null
  readonly lostItems: number
  readonly lostSuspects: number
  readonly version: number
}

/** A process joins the fleet under its agent's name. */
export function startInstance(
  identity: ProcessIdentity & { readonly id: string },
  { agent, registeredBy, seenAt }: { agent: string; registeredBy: string | null; seenAt: number | null },
  wall: number,
): Instance {
  const times = { startedAt: wall, beatAt: wall, seenAt, sweptAt: null, endedAt: null, endReason: null }
  const loss = { lostAt: null, lostItems: 0, lostSuspects: 0 }
  return { ...identity, agent, registeredBy, ...times, ...loss, version: 1 }
}

/** The process behind a claim: the caller's own, or the one registered for its agent; null for a manual lease. */
export interface Claimant {
  readonly instance: string | null
  /** A claim by an ended instance is refused, because nobody would notice its death. A missing row proves nothing. */
  readonly hasEnded: boolean
}

/** The same incarnation of the same process. */
export function isSameProcess(left: ProcessIdentity, right: ProcessIdentity): boolean {
  return (
    left.bootId === right.bootId &&
    left.hostName === right.hostName &&
    left.pidNamespace === right.pidNamespace &&
    left.pid === right.pid &&
    left.startTime === right.startTime
  )
}

export function endInstance(instance: Instance, reason: string, wall: number): Instance {
  return {
    ...instance,
    endedAt: Math.max(wall, instance.startedAt),
    endReason: reason,
    version: instance.version + 1,
  }
}

/** A process with all its instances, and how much it holds now. */
export interface Process extends Held {
  readonly instances: readonly Instance[]
}

/** Groups instances by process; a process that opened a store twice has two. */
export function processesOf(instances: readonly Instance[], holds: ReadonlyMap<string, Held>): Process[] {
  const processes: Instance[][] = []
  for (const instance of instances) {
    const known = processes.find(([first]) => first !== undefined && isSameProcess(first, instance))
    if (known) known.push(instance)
    else processes.push([instance])
  }
  const sum = (own: readonly Instance[], what: keyof Held) =>
    own.reduce((total, { id }) => total + (holds.get(id)?.[what] ?? 0), 0)
  return processes.map((own) => ({
    instances: own,
    items: sum(own, 'items'),
    suspects: sum(own, 'suspects'),
  }))
}

/**
 * What the process held when it was first found lost, if that was recorded. Its items may be taken in several
 * transactions and lapse one after another; without a record, the last one would look as if it had been alone. A record
 * applies to everything that has given no sign of life since.
 */
export function recordedLoss({ instances }: Process, lost: LeaseColumns): Held | null {
  const silentSince = lastSignOfLife(lost)
  const recorded = instances.find(({ lostAt }) => lostAt !== null && lostAt >= silentSince)
  return recorded ? { items: recorded.lostItems, suspects: recorded.lostSuspects } : null
}

export function recordLoss(instance: Instance, { items, suspects }: Held, now: number): Instance {
  return {
    ...instance,
    lostAt: now,
    lostItems: items,
    lostSuspects: suspects,
    version: instance.version + 1,
  }
}

export function lastSweptAt(running: readonly Instance[]): number | null {
  const times = running.flatMap(({ sweptAt }) => sweptAt ?? [])
  return times.length === 0 ? null : Math.max(...times)
}

/** Ten minutes: twenty heartbeats. A process that wakes up later than that joins again as a new instance. */
export const silentAfterMs = 10 * 60 * 1000

/**
 * Whether a process that should send heartbeats has been silent too long. Judged by the lease clock, which all share,
 * because the process's wall clock may be wrong.
 */
export function isSilent({ seenAt, endedAt }: Instance, now: number): boolean {
  return endedAt === null && seenAt !== null && seenAt < now - silentAfterMs
}

/** The instances that hold nothing beyond what is being taken from them. */
export function endableInstances(
  instances: readonly Instance[],
  held: readonly { readonly instance: string; readonly count: number }[],
  taken: readonly { readonly instance: string | null }[],
): Instance[] {
  return instances.filter(({ id }) => {
    const count = held.find(({ instance }) => instance === id)?.count ?? 0
    return taken.filter(({ instance }) => instance === id).length >= count
  })
}
