/**
 * Lets one worker at a time claim through the processing lock of a queue. To the store this whole process is one holder,
 * so a second worker would be given the item that the first is working on.
 */

/** A worker that claims through the processing lock of its queue. */
export interface LockUser {
  /** False once the worker has lost the lock: other workers then need not wait for it. */
  isAtWork(): boolean
}

export class LockUsers {
  readonly #users = new Map<string, LockUser>()

  /** False while another worker uses the lock of this queue. */
  use(queue: string, user: LockUser): boolean {
    const other = this.#users.get(queue)
    if (other !== undefined && other !== user && other.isAtWork()) return false
    this.#users.set(queue, user)
    return true
  }

  /** Lets another worker claim through the lock. */
  leave(queue: string, user: LockUser): void {
    if (this.#users.get(queue) === user) this.#users.delete(queue)
  }
}
