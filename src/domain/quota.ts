/**
 * How much of a shared resource one agent may take. Names are self-declared, so this guards against mistakes and
 * runaway loops.
 */
import { HoldfastError } from '../errors.ts'

/** How much of a shared resource one agent may take. */
export interface Quotas {
  /** Path reservations held at once. */
  readonly reservations: number
  /** Waits for named locks at once. */
  readonly lockWaits: number
}

/** For callers that set no quotas, such as those of a server. */
export const defaultQuotas: Quotas = Object.freeze({ reservations: 100, lockWaits: 50 })

const subjects: Readonly<Record<keyof Quotas, { readonly has: string; readonly next: string }>> = {
  reservations: {
    has: 'path reservations',
    next: 'release some; src/** is one pattern for everything below a folder',
  },
  lockWaits: { has: 'places in lock lines', next: 'wait for fewer locks at once' },
}

export function assertQuota(
  of: keyof Quotas,
  agent: string,
  held: number,
  quotas: Quotas = defaultQuotas,
): void {
  const max = quotas[of]
  if (held < max) return
  const { has, next } = subjects[of]
  throw new HoldfastError('BUSY', {
    what: `${agent} has ${held} ${has}, the limit per agent`,
    next: `${next}; the option quotas.${of} of open() sets the limit`,
    facts: { quota: of, agent, held, max },
  })
}
