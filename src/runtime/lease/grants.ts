/**
 * The grants that this process remembers, so that its callers need not pass tokens. They are kept by kind, agent and
 * name. A process may hold several slots of one lock, so a name can have several grants; the latest comes last.
 */
import { isHoldfastError } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { Keeper } from './keeper.ts'

/** The other name of an item: its queue and key. */
export interface GrantedItem {
  readonly queue: string
  readonly key: string | null
}

/** As the keeper knows it: `id` is the item, or the slot of the lock. */
export interface Grant extends LeaseRef {
  readonly item: GrantedItem | null
  /** How many times its holder has acquired it without releasing it. */
  depth: number
}

/** An item as a request refers to it (`sent`), and as its grant is remembered here (`id`). */
export interface NamedItem {
  readonly sent: string
  readonly id: string
  readonly token: number | undefined
}

/** Who was granted it, if not this process's own agent. */
interface By {
  readonly agent?: string | undefined
}

interface Asked extends By {
  readonly token?: number | undefined
}

/** A bound, so that manual grants that never end here do not pile up. Their holders know their tokens. */
const maxNames = 10_000
/** A completion is repeated soon or never. */
const maxCompleted = 1_000

export class Grants {
  readonly #agent: string
  readonly #keeper: Keeper
  readonly #byName = new Map<string, Grant[]>()
  /**
   * Tokens under which items were completed here, so that a repeated completion can name its grant: the latest ones, and
   * as many before them.
   */
  #completed = new Map<string, number>()
  #completedBefore = new Map<string, number>()

  constructor({ agent, keeper }: { readonly agent: string; readonly keeper: Keeper }) {
    this.#agent = agent
    this.#keeper = keeper
  }

  remember(name: string, grant: Grant, by: By): void {
    const key = this.#keyOf(grant.kind, name, by)
    const others = this.#byName.get(key)?.filter(({ id }) => id !== grant.id) ?? []
    others.push(grant)
    this.#byName.set(key, others)
    if (this.#byName.size > maxNames) this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const [key, grants] of this.#byName) {
      if (grants.some((grant) => this.#keeper.holds(grant))) continue
      this.#byName.delete(key)
      return
    }
  }

  #keyOf(kind: LeaseRef['kind'], name: string, { agent }: By): string {
    // Names may contain spaces but no line breaks. The operation refuses anything that is not a name; here it finds
    // nothing.
    return `${kind}\n${textOf(agent ?? this.#agent)}\n${textOf(name)}`
  }

  #latest(kind: LeaseRef['kind'], name: string, by: By): Grant | undefined {
    return this.#byName.get(this.#keyOf(kind, name, by))?.at(-1)
  }

  find(kind: LeaseRef['kind'], name: string, token: number | undefined, by: By): Grant | undefined {
    return this.#byName.get(this.#keyOf(kind, name, by))?.find((grant) => grant.token === token)
  }

  /** The token the caller passes, or else that of the latest grant under this name. */
  tokenFor(kind: LeaseRef['kind'], name: string, options: Asked): number | undefined {
    return options.token ?? this.#latest(kind, name, options)?.token
  }

  /** Whether this process still holds the lock that it was granted under this name. */
  keepsLock(name: string): boolean {
    const grant = this.#latest('lock', name, {})
    return grant !== undefined && this.#keeper.holds(grant)
  }

  /**
   * The item that a caller names by id or key, if its token is known. Awaits nothing, so that completing an item and
   * claiming the next in the same tick share a transaction, in that order. A request names the item as the caller did,
   * so it stays the same request when it is repeated after the grant was forgotten.
   */
  itemNamed(queue: string, ref: string, options: Asked): NamedItem | null {
    const token = this.tokenFor('item', ref, options)
    if (token !== undefined) return { sent: ref, id: this.#idOf(queue, ref, token, options), token }
    const kept = this.#keptUnder(queue, ref, options)
    return kept && { sent: kept.id, id: kept.id, token: kept.token }
  }

  /** The item that is held here under a key of its queue. While it is held, no other item has that key. */
  #keptUnder(queue: string, key: string, by: By): LeaseRef | null {
    const prefix = this.#keyOf('item', '', by)
    for (const [name, grants] of this.#byName) {
      if (!name.startsWith(prefix)) continue
      const kept = grants.find(({ item }) => item?.queue === queue && item.key === key)
      if (kept && this.#keeper.holds(kept)) return kept
    }
    return null
  }

  /**
   * Grants are remembered by id. This finds the id of an item that a caller names by id, or by key and token, if it was
   * granted here. The token alone would be a guess, because items claimed together share it.
   */
  #idOf(queue: string, ref: string, token: number | undefined, by: By): string {
    const named = this.#latest('item', ref, by)
    if (named?.token === token && named?.item?.queue === queue) return ref
    for (const grants of this.#byName.values()) {
      for (const { id, token: granted, item } of grants) {
        if (granted === token && item?.queue === queue && item.key === ref) return id
      }
    }
    return ref
  }

  /** Remembers the token of a completion whose caller named none, so that it need not name one when it repeats it. */
  noteCompleted(id: string, token: number, by: By): void {
    if (this.#completed.size >= maxCompleted) {
      this.#completedBefore = this.#completed
      this.#completed = new Map()
    }
    this.#completed.set(this.#keyOf('item', id, by), token)
  }

  /** The token under which this agent completed an item here. */
  completedUnder(id: string, by: By): number | undefined {
    const key = this.#keyOf('item', id, by)
    return this.#completed.get(key) ?? this.#completedBefore.get(key)
  }

  /** The grant has ended, through us or otherwise; `answer` is the store's. */
  ended(
    kind: LeaseRef['kind'],
    name: string,
    token: number | undefined,
    by: By,
    answer: unknown = null,
  ): void {
    const grant = this.forget(kind, name, token, by)
    if (grant) this.#keeper.drop(grant, answer)
  }

  forget(kind: LeaseRef['kind'], name: string, token: number | undefined, by: By): Grant | undefined {
    const grant = this.find(kind, name, token, by)
    if (grant === undefined) return undefined
    const key = this.#keyOf(kind, name, by)
    const left = this.#byName.get(key)?.filter((each) => each !== grant) ?? []
    if (left.length === 0) this.#byName.delete(key)
    else this.#byName.set(key, left)
    return grant
  }

  /** A guarded write was refused. If the lease is lost, the grant is forgotten and its work is notified. */
  refused(error: unknown, kind: LeaseRef['kind'], name: string, token: number | undefined, by: By): void {
    if (!isHoldfastError(error) || error.code !== 'LEASE_LOST') return
    const grant = this.forget(kind, name, token, by)
    if (grant) this.#keeper.lose(grant, error.facts.reason)
  }
}

/** Returns a name unchanged. Anything else may not even convert to a string, so it becomes ''. */
function textOf(name: unknown): string {
  return typeof name === 'string' ? name : ''
}
