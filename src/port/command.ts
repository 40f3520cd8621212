/** What an engine is asked, by whom, and the facts at the time of the decision. */
import type { Outage } from '../domain/outage.ts'
import type { Quotas } from '../domain/quota.ts'
import type { SearchPosition } from './item.ts'

/** Plain data: what is asked, and by whom. Anything random or clock-like comes with it or from the store. */
export interface Command {
  readonly operation: string
  readonly input: unknown
  readonly namespace: string
  readonly caller: Caller
  readonly idempotencyKey?: string | undefined
  /** How long it waits for an unreachable store. Default: the engine's own patience. */
  readonly patienceMs?: number | undefined
  /** Set if the input was already checked and turned into plain data, so that it is not checked again. */
  readonly checked?: { readonly requestHash: string | null }
  /** Fresh ids and a random number, generated where the command was created. */
  readonly entropy: { readonly ids: readonly string[]; readonly random: number }
}

export interface Caller {
  readonly agent: string
  /** The instance behind bound leases; null for one-shot and remote callers. */
  readonly instance: string | null
  /** False: that instance is a process that renews nothing, so its leases are as long as manual ones. */
  readonly renews?: false | undefined
  /** The machine of the calling process; absent if unknown. */
  readonly host?: string | undefined
  /** It acts for another agent, which may be on any machine. */
  readonly isForAnother?: true | undefined
  /** Length of the leases that process renews, if neither the claim nor the queue sets one. */
  readonly leaseMs?: number | undefined
  /** How much of the shared resources this agent may take. */
  readonly quotas?: Quotas | undefined
  /** How far it has searched, with reads, for a matching task; its claim continues there. */
  readonly searched?: SearchPosition | undefined
}

/** The facts at the time of a decision. */
export interface Context extends Caller {
  /** Lease clock, ms. */
  readonly now: number
  /** Wall clock, ms. */
  readonly wall: number
  /** The lease clock may be wrong, so nobody loses a lease by it. */
  readonly isDoubtful: boolean
  /** When this process last could not reach the store, if that lasted long. */
  readonly outage: Outage | null
  /** How long the store spares a lease that nobody renews after it expires. */
  readonly manualGraceMs: number
  readonly ids: readonly string[]
  readonly random: number
}
