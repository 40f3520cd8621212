/** The process behind a claim: the caller's own, or the one registered for its agent. */
import type { Claimant } from '../../domain/instance.ts'
import type { Holder } from '../../domain/lease.ts'
import { endedError } from '../../errors.ts'
import type { Caller } from '../../port/command.ts'

export const claimant = ({ agent, instance }: Caller) => ({ select: 'claimant', agent, instance }) as const

/** Refuses if that process has ended: anything granted to it would be lost at once. */
export function holderWith({ agent, host, isForAnother }: Caller, { instance, hasEnded }: Claimant): Holder {
  if (hasEnded) throw endedError(instance)
  // A caller that claims for another agent does not know which host that agent works on.
  return { agent, instance, holderHost: isForAnother ? null : (host ?? null) }
}
