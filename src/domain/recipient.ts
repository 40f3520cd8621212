/** Who can be written to, how a message reaches them, and how much a minute. */
import { HoldfastError } from '../errors.ts'

export interface Recipient {
  readonly name: string
  /** Name of the adapter that delivers; the processes that registered it do. */
  readonly adapter: string
  /** What the adapter needs to find them: a channel, a pane. Never a command. */
  readonly address: string | null
  /** Messages they may send a minute; 0 = no limit. */
  readonly sendsPerMinute: number
  readonly acksPerMinute: number
  /** Deliveries they get a minute, retries included; 0 = no limit. */
  readonly deliveriesPerMinute: number
  readonly registeredAt: number
  readonly version: number
}

/** A name under which somebody has acted here: it can be written to, though nobody registered it. */
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

/** An agent that nobody registered but that opened the store: it is reached through its inbox. */
export function unregistered(name: string): Recipient {
  return { name, ...defaults, registeredAt: 0, version: 0 }
}

/**
 * Only they say how they are reached: another could have their messages sent to itself. A name that nobody has used yet
 * may be made known by anybody. Names are self-declared, so this guards against mistakes and not against impostors.
 */
export function assertMayReach(agent: string, before: Recipient | null, settings: RecipientSettings): void {
  if (before === null || before.name === agent) return
  const { adapter = before.adapter, address = before.address } = settings
  if (adapter === before.adapter && address === before.address) return
  const { name } = before
  throw new HoldfastError('FORBIDDEN', {
    what: `${agent} cannot change how ${name} is reached`,
    next: `let ${name} register itself; acting for it, give its name as the agent`,
    facts: { agent, recipient: name },
  })
}

/** Registered anew, or changed in what is given; null when nothing changes. */
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
