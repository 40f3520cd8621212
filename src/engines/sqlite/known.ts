/**
 * What this connection has read or written in a namespace and nobody else has changed since: a completion need not
 * read again what its claim has written. SQLite tells, inside a write transaction, whether another connection has
 * committed; then all of it is forgotten, as after a rollback.
 */
import type { Item } from '../../domain/item.ts'
import type { Change, DefinedQueue } from '../engine.ts'
import type { Connection } from './connection.ts'

/** Held items kept at most; what a process holds beyond that is simply read again. */
const itemsMax = 10_000

export class Known {
  /** Held items by id. */
  readonly items = new Map<string, Item>()
  readonly queues = new Map<string, DefinedQueue | null>()
  /** Does any item wait for another? Null: not looked. */
  hasBlockers: boolean | null = null
  /** Nothing lapses before this on the lease clock, nothing comes due before this on the wall clock. */
  quiet: { lapseAt: number; dueAt: number } | null = null

  /** A change about to be written, and with it what can no longer be relied on. */
  note(change: Change): void {
    if (change.table === 'item') this.#noteItem(change.before, change.after)
    else if (change.table === 'queue' || change.table === 'workflow') this.queues.clear()
    else if (change.table === 'lock' && change.after) this.#noteLapse(change.after.expiresAt)
    else if (change.table === 'cascade') this.quiet = null
  }

  #noteItem(before: Item | null, after: Item | null): void {
    // A held item may be told to wait too, for when it is given back.
    if (after && after.waitingFor.length > 0) this.hasBlockers = true
    if (after?.standing === 'held') {
      if (this.items.size >= itemsMax) this.items.clear()
      this.items.set(after.id, after)
      this.#noteLapse(after.expiresAt)
      return
    }
    if (before?.standing === 'held') this.items.delete(before.id)
    if (after === null) return
    if (after.runAt !== null && this.quiet) this.quiet.dueAt = Math.min(this.quiet.dueAt, after.runAt)
  }

  #noteLapse(expiresAt: number | null): void {
    if (this.quiet) this.quiet.lapseAt = Math.min(this.quiet.lapseAt, expiresAt ?? 0)
  }
}

/** What is known, by namespace. */
export class Memory {
  readonly #namespaces = new Map<string, Known>()
  #version: unknown = null

  of(namespace: string): Known {
    const known = this.#namespaces.get(namespace)
    if (known) return known
    const fresh = new Known()
    this.#namespaces.set(namespace, fresh)
    return fresh
  }

  /** First thing in a write transaction: whether another connection has committed since; then all is forgotten. */
  refresh(connection: Connection): boolean {
    const version = connection.get('pragma data_version')?.[0]
    const isStale = version !== this.#version
    if (isStale) this.forget()
    this.#version = version
    return isStale
  }

  /** Also that nobody has written since: whoever was refused by what he found then finds it again. */
  forget(): void {
    this.#namespaces.clear()
    this.#version = null
  }
}
