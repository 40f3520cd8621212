/** How long a lease lasts. */
import { assertRenewable } from '../../domain/lease.ts'
import type { Queue } from '../../domain/queue.ts'
import type { Caller } from '../../port/command.ts'

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
