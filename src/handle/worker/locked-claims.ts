/** How a worker claims from a queue with a processing lock: one item at a time, and only while it may use the lock. */
import type { Lease } from '../../runtime/lease/held-lease.ts'
import type { LockUser } from '../../runtime/session/lock-users.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { OwnClaimOptions } from '../call-options.ts'
import type { Queue } from '../queue/queue.ts'
import type { Claimed } from './item-work.ts'

/** What was claimed, or why nothing was and when to ask again. */
export type ClaimAnswer<Payload> = Claimed<Payload>[] | { outcome: string; nextDueAt?: number | null }

export class LockedClaims<Payload> {
  readonly #session: Session
  readonly #queue: Queue<unknown, Payload>
  readonly #user: LockUser
  #hasLock = false

  constructor(session: Session, queue: Queue<unknown, Payload>, user: LockUser) {
    this.#session = session
    this.#queue = queue
    this.#user = user
  }

  async claim(options: OwnClaimOptions): Promise<ClaimAnswer<Payload>> {
    if (!this.#session.lockUsers.use(this.#queue.name, this.#user)) {
      this.#hasLock = false
      return { outcome: 'held' }
    }
    try {
      const answer = await this.#queue.nextWithLock(options)
      if (answer.outcome === 'claimed') {
        this.#hasLock = true
        return [{ item: answer.item, lease: answer.lease as Lease }]
      }
      // Do not sit on the lock without an item: others may want it, and a pause may last. `#hasLock` is cleared only
      // after the release, so a failed release is repeated after the next look.
      if (this.#hasLock && answer.outcome !== 'held') await this.#queue.releaseProcessingLock()
      this.#hasLock = false
      return answer
    } finally {
      // Wakes nobody: others would find no more than this worker did, and would wake each other for ever.
      if (!this.#hasLock) this.leave()
    }
  }

  /** Releases the lock, but not one that another worker of this process acquired after this one had lost it. */
  async release(): Promise<void> {
    if (!this.#hasLock) return
    this.#hasLock = false
    if (this.#session.lockUsers.use(this.#queue.name, this.#user)) await this.#queue.releaseProcessingLock()
  }

  /** Lets another worker of this process claim through the lock. */
  leave(): void {
    this.#session.lockUsers.leave(this.#queue.name, this.#user)
  }
}
