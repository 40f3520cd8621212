/** The named locks granted to this handle. One process may hold several slots of the same name. */
import { type LeaseRef, lockRef } from '../operations/lease/lease.ts'
import type { LockView } from '../operations/view.ts'
import type { Lease } from '../runtime/lease/keeper.ts'
import { leftByRelease } from '../runtime/lease/lease-ending.ts'
import { type CallOptions, type Request, type Session, textOf } from '../runtime/session/session.ts'

type Who = CallOptions & { readonly token?: number | undefined }

interface LockGrant extends LeaseRef {
  /** How many times its holder has acquired it without releasing it. */
  depth: number
}

/** What a release did. */
export interface Released {
  readonly released: boolean
  /** How many times its holder still holds it. */
  readonly depth: number
}

/** A bound, so that manual grants that are never released here do not pile up. Their holders know their tokens. */
const maxNames = 10_000

export class LockGrants {
  readonly #session: Session
  /** By agent and name; the latest grant comes last. */
  readonly #granted = new Map<string, LockGrant[]>()

  constructor(session: Session) {
    this.#session = session
  }

  /** Remembers a grant, and has it renewed when it belongs to this process. */
  add(lock: LockView, requestedAt: number, options: CallOptions): Lease | null {
    const { token, leaseMs } = lock.lease
    const id = lockRef(lock)
    const key = this.#keyOf(lock.name, options)
    const others = this.#granted.get(key)?.filter((each) => each.id !== id) ?? []
    others.push({ kind: 'lock', id, token, depth: lock.depth })
    this.#granted.set(key, others)
    if (this.#granted.size > maxNames) this.#forgetOldest()
    if (!this.#session.isBound(options)) return null
    return this.#session.keeper.hold({ kind: 'lock', id, token, leaseMs: leaseMs ?? 0, requestedAt })
  }

  #forgetOldest(): void {
    for (const [key, grants] of this.#granted) {
      if (grants.some((grant) => this.#session.keeper.holds(grant))) continue
      this.#granted.delete(key)
      return
    }
  }

  /** The token the caller passes, or else that of the latest grant under this name. */
  tokenFor(name: string, options: Who): number | undefined {
    return options.token ?? this.#granted.get(this.#keyOf(name, options))?.at(-1)?.token
  }

  /** Releases one grant and returns what the store did. */
  release(request: Request<'locks.releaseLock'>): Promise<Released> {
    const { options, input } = request
    const { name, token } = input
    const grant = this.#find(name, token, options)
    const isLast = grant === undefined || this.#session.endings.countOf(grant) + 1 >= grant.depth
    // A key, because repeating the release would give back one more level of a reentrant lock.
    const key = isLast ? {} : { idempotencyKey: options.idempotencyKey ?? this.#session.environment.id() }
    return this.#session.end(
      { operation: 'locks.releaseLock', input, options: { ...options, ...key } },
      {
        lease: grant ?? { kind: 'lock', id: name, token: token ?? 0 },
        isLast,
        leaves: ({ released, depth }) => {
          if (grant) grant.depth = depth
          return depth === 0 ? leftByRelease(released) : 'held'
        },
        forget: () => void this.#forget(name, token, options),
      },
    )
  }

  /** Forgets a grant that was lost, and notifies its user. */
  lose(name: string, token: number | undefined, options: CallOptions, reason: string): void {
    const granted = this.#forget(name, token, options)
    if (granted) this.#session.keeper.lose(granted, reason)
  }

  #find(name: string, token: number | undefined, options: CallOptions): LockGrant | undefined {
    return this.#granted.get(this.#keyOf(name, options))?.find((each) => each.token === token)
  }

  #forget(name: string, token: number | undefined, options: CallOptions): LeaseRef | undefined {
    const key = this.#keyOf(name, options)
    const all = this.#granted.get(key) ?? []
    const left = all.filter((each) => each.token !== token)
    if (left.length === 0) this.#granted.delete(key)
    else this.#granted.set(key, left)
    return all.find((each) => each.token === token)
  }

  #keyOf(name: string, { agent }: CallOptions): string {
    // Names may contain spaces, but no line breaks.
    return `${textOf(agent ?? this.#session.agent)}\n${textOf(name)}`
  }
}
