/** Who holds what is claimed, and for how long: the process behind a claim, and the length of its lease. */
import type { Claimant } from '../../domain/instance.ts'
import { assertRenewable, type Holder } from '../../domain/lease.ts'
import type { Queue } from '../../domain/queue.ts'
import { endedError } from '../../errors.ts'
import type { Caller } from '../../port/command.ts'

export const claimant = ({ agent, instance }: Caller) => ({ select: 'claimant', agent, instance }) as const

/** Refuses if that process has ended: anything granted to it would be lost at once. */
export function holderWith({ agent, host, isForAnother }: Caller, { instance, hasEnded }: Claimant): Holder {
  if (hasEnded) throw endedError(instance)
  // A caller that claims for another agent does not know which host that agent works on.
  return { agent, instance, holderHost: isForAnother ? null : (host ?? null) }
}

const boundLeaseMs = 30_000
const manualLeaseMs = 300_000

/** As asked, else as the queue sets it, else a default: short if a process renews the lease, long if nobody does. */
export function leaseLength(
  asked: number | undefined,
  caller: Pick<Caller, 'instance' | 'renews' | 'leaseMs'>,
  queue: Pick<Queue, 'leaseMs' | 'manualLeaseMs'> | null,
  manualMs = manualLeaseMs,
): number {
  const isRenewed = caller.instance !== null && caller.renews !== false
  if (!isRenewed) return asked ?? queue?.manualLeaseMs ?? manualMs
  const leaseMs = asked ?? queue?.leaseMs ?? caller.leaseMs ?? boundLeaseMs
  assertRenewable(leaseMs)
  return leaseMs
}
