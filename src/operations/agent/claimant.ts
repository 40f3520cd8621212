/** The process behind a claim: the caller's own, or the one registered for its agent. */
import type { Claimant } from '../../domain/instance.ts'
import type { Holder } from '../../domain/lease.ts'
import type { Caller } from '../../engines/engine.ts'
import { endedError } from '../../errors.ts'

export const claimant = ({ agent, instance }: Caller) => ({ select: 'claimant', agent, instance }) as const

/** Refused where that process has ended: what it was granted would be lost at once. */
export function holderWith({ agent, host, isForAnother }: Caller, { instance, hasEnded }: Claimant): Holder {
  if (hasEnded) throw endedError(instance)
  // Whoever claims for another does not know where that one works.
  return { agent, instance, holderHost: isForAnother ? null : (host ?? null) }
}
