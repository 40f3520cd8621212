/**
 * What this connection has read or written in a namespace and nobody else has changed since, so that a completion need
 * not reread what its claim wrote. Inside a write transaction, SQLite tells whether another connection has committed;
 * if so, everything is forgotten, as after a rollback.
 */
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import type { Change } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import type { Connection } from './connection.ts'

/** Maximum number of held items kept; the rest are simply read again. */
const maxItems = 10_000
/** The same bound for the names of queues, locks (held or free) and running instances. */
const maxNames = 10_000

export class RowCache {
  /** Held items by id. */
  readonly items = new Map<string, Item>()
  readonly queues = new Map<string, DefinedQueue | null>()
  /** The taken slots of locks that nobody waits for, by name, ordered by slot. */
  readonly locks = new Map<string, readonly Lock[]>()
  /** Instances that have not ended. */
  readonly running = new Set<string>()
  /** The highest token any deleted row had. Null: not loaded yet. */
  floor: number | null = null
  /** Does any item wait for another? Null: not loaded yet. */
  hasBlockers: boolean | null = null
  /** Is any item a suspect that can be claimed? Null: not loaded yet. */
  hasSuspects: boolean | null = null
  /** Nothing lapses before `lapseAt` on the lease clock, and nothing is due before `dueAt` on the wall clock. */
  quiet: { lapseAt: number; dueAt: number } | null = null

  /** Notes a change about to be written and drops what it invalidates. */
  note(change: Change): void {
    if (change.table === 'item') this.#noteItem(change.before, change.after)
    else if (change.table === 'queue' || change.table === 'workflow') this.queues.clear()
    else if (change.table === 'lock') this.#noteLock(change.before, change.after)
    else if (change.table === 'waiter') this.locks.delete(((change.after ?? change.before) as Waiter).name)
    else if (change.table === 'cascade') this.quiet = null
    else if (change.table === 'instance') this.running.clear()
  }

  #noteItem(before: Item | null, after: Item | null): void {
    // A held item may get blockers too; they count once it is released.
    if (after && after.waitingFor.length > 0) this.hasBlockers = true
    if (after?.phase === 'held') {
      if (this.items.size >= maxItems) this.items.clear()
      this.items.set(after.id, after)
      this.#noteLapse(after.expiresAt)
      return
    }
    if (before?.phase === 'held') this.items.delete(before.id)
    if (after?.phase === 'suspect') this.hasSuspects = true
    if (after === null) {
      if (before?.key != null) this.noteFloor(before.token)
      return
    }
    if (after.runAt !== null && this.quiet) this.quiet.dueAt = Math.min(this.quiet.dueAt, after.runAt)
  }

  #noteLock(before: Lock | null, after: Lock | null): void {
    if (after) this.#noteLapse(after.expiresAt)
    else if (before) this.noteFloor(before.token)
    const { name, slot } = (after ?? before) as Lock
    const known = this.locks.get(name)
    if (known === undefined) return
    const now = known.filter((lock) => lock.slot !== slot)
    if (after) now.push(after)
    this.locks.set(name, now.length > 1 ? now.sort((left, right) => left.slot - right.slot) : now)
  }

  /** A row with this token is about to be deleted. */
  noteFloor(token: number): void {
    if (this.floor !== null) this.floor = Math.max(this.floor, token)
  }

  /** Remembers a read: the queue of this name, or that there is none. */
  rememberQueue(name: string, queue: DefinedQueue | null): void {
    if (this.queues.size >= maxNames) this.queues.clear()
    this.queues.set(name, queue)
  }

  /** Remembers a read: this instance has not ended. */
  rememberRunning(instance: string): void {
    if (this.running.size >= maxNames) this.running.clear()
    this.running.add(instance)
  }

  /** Remembers a read: nobody waits for this lock, and these of its slots are taken. */
  rememberLine(name: string, locks: readonly Lock[], floor: number): void {
    if (this.locks.size >= maxNames) this.locks.clear()
    this.locks.set(name, locks)
    this.floor = floor
  }

  #noteLapse(expiresAt: number | null): void {
    if (this.quiet) this.quiet.lapseAt = Math.min(this.quiet.lapseAt, expiresAt ?? 0)
  }
}

/** The row caches, by namespace. */
export class RowCaches {
  readonly #namespaces = new Map<string, RowCache>()
  #version: unknown = null

  of(namespace: string): RowCache {
    const known = this.#namespaces.get(namespace)
    if (known) return known
    const fresh = new RowCache()
    this.#namespaces.set(namespace, fresh)
    return fresh
  }

  /**
   * Called first in a write transaction. Whether another connection has committed since; if so, everything is
   * forgotten.
   */
  refresh(connection: Connection): boolean {
    const version = connection.get('pragma data_version')?.[0]
    const isStale = version !== this.#version
    if (isStale) this.forget()
    this.#version = version
    return isStale
  }

  /**
   * Also forgets the data version, so that the next transaction checks the store again: a process refused for a mark it
   * found must be refused again.
   */
  forget(): void {
    this.#namespaces.clear()
    this.#version = null
  }
}
