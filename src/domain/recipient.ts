/** Who can receive messages, how a message reaches them, and how many per minute. */
import { HoldfastError } from '../errors.ts'

export interface Recipient {
  readonly name: string
  /** Name of the adapter that delivers; the processes that registered it do the sending. */
  readonly adapter: string
  /** What the adapter needs to reach them: a channel, a pane. Never a command. */
  readonly address: string | null
  /** Messages they may send per minute; 0 = no limit. */
  readonly sendsPerMinute: number
  readonly acksPerMinute: number
  /** Deliveries they receive per minute, including retries; 0 = no limit. */
  readonly deliveriesPerMinute: number
  readonly registeredAt: number
  readonly version: number
}

/** A name that an agent has acted under here: it can receive messages although nobody registered it. */
export interface Addressable {
  readonly name: string
  /** Wall clock: since when. */
  readonly at: number
}

export type RecipientSettings = Partial<Omit<Recipient, 'name' | 'registeredAt' | 'version'>>

export const inboxAdapter = 'inbox'

const defaults = Object.freeze({
  adapter: inboxAdapter,
  address: null,
  sendsPerMinute: 10,
  acksPerMinute: 100,
  deliveriesPerMinute: 0,
})

/** An agent that opened the store without being registered: it is reached through its inbox. */
export function unregistered(name: string): Recipient {
  return { name, ...defaults, registeredAt: 0, version: 0 }
}

/**
 * Only the recipient decides how it is reached; otherwise another agent could redirect its messages to itself. Anyone
 * may register a name that nobody has used yet. Names are self-declared, so this protects against mistakes, not
 * impostors.
 */
export function assertMayReach(agent: string, before: Recipient | null, settings: RecipientSettings): void {
  if (before === null || before.name === agent) return
  const { adapter = before.adapter, address = before.address } = settings
  if (adapter === before.adapter && address === before.address) return
  const { name } = before
  throw new HoldfastError('FORBIDDEN', {
    what: `${agent} cannot change how ${name} is reached`,
    next: `let ${name} register itself; to act for it, give its name as the agent`,
    facts: { agent, recipient: name },
  })
}

/** A new registration, or the given changes to an existing one; null if nothing changes. */
export function registerRecipient(
  before: Recipient | null,
  name: string,
  settings: RecipientSettings,
  wall: number,
): Recipient | null {
  const base = before ?? { ...unregistered(name), registeredAt: wall }
  const after = { ...base, ...settings, version: base.version + 1 }
  const isSame = before !== null && fields.every((field) => before[field] === after[field])
  return isSame ? null : after
}

const fields = ['adapter', 'address', 'sendsPerMinute', 'acksPerMinute', 'deliveriesPerMinute'] as const
