/** Who holds something, and what is known about the holder: whether it is alive, and how we know. */
import type { Instance } from './instance.ts'
import { type LeaseColumns, type LeaseStatus, leaseStatus } from './lease.ts'

/** What one process could tell about another. */
export interface Judged {
  readonly instance: string
  readonly liveness: 'alive' | 'dead' | 'unknown'
  readonly evidence: string
  readonly isStopped?: boolean | undefined
}

export interface Holding {
  readonly agent: string | null
  /** Bound: a process renews it. Manual: it ends by release, by lapse or by an operator. */
  readonly kind: 'manual' | 'bound'
  readonly liveness: Judged['liveness']
  readonly evidence: string
  readonly token: number
  /** Lease clock. */
  readonly grantedAt: number | null
  readonly renewedAt: number | null
  readonly expiresAt: number | null
  readonly remainingMs: number
  readonly status: LeaseStatus
}

/** What is known about the processes behind leases. */
export interface Processes {
  readonly instances: readonly Instance[]
  readonly judged: readonly Judged[]
}

export function describeHolding(row: LeaseColumns, processes: Processes, now: number): Holding {
  const { agent, instance, token, grantedAt, renewedAt, expiresAt } = row
  return {
    agent,
    kind: instance === null ? 'manual' : 'bound',
    ...(instance === null ? noProcess : judgeProcess(instance, processes)),
    token,
    grantedAt,
    renewedAt,
    expiresAt,
    remainingMs: (expiresAt ?? now) - now,
    status: leaseStatus(row, now),
  }
}

const noProcess = {
  liveness: 'unknown',
  evidence: 'a manual lease, tied to no process',
} as const

/**
 * The store's record of its end comes first, then what someone observed. Otherwise it is unknown, and the lease
 * decides.
 */
export function judgeProcess(id: string, processes: Processes): Pick<Judged, 'liveness' | 'evidence'> {
  const { instances, judged } = processes
  const instance = instances.find((each) => each.id === id)
  if (instance?.endedAt != null)
    return { liveness: 'dead', evidence: `its process ended: ${instance.endReason}` }
  const seen = judged.find((each) => each.instance === id)
  if (seen) return { liveness: seen.liveness, evidence: seen.evidence }
  return {
    liveness: 'unknown',
    evidence: instance
      ? `nobody here can see process ${instance.pid} of ${instance.hostName}`
      : 'its process is unknown here',
  }
}

/** Machines with a process that has the store open and has not been found dead. */
export function runningHosts({ instances, judged }: Processes): ReadonlySet<string> {
  const dead = new Set(judged.filter(({ liveness }) => liveness === 'dead').map(({ instance }) => instance))
  const running = instances.filter(({ id, endedAt }) => endedAt === null && !dead.has(id))
  return new Set(running.map(({ hostName }) => hostName))
}

/** The lease has expired, or its holder is proven dead: the next recovery takes it. */
export function isLost(holding: Holding): boolean {
  return isOver(holding) || isOrphaned(holding)
}

export function isOver({ status }: Holding): boolean {
  return status === 'expired' || status === 'stale'
}

/** The process that should renew the lease is proven dead. */
export function isOrphaned({ kind, liveness }: Holding): boolean {
  return kind === 'bound' && liveness === 'dead'
}
