/**
 * What this connection has read or written in a namespace and nobody else has changed since: a completion need not
 * read again what its claim has written. SQLite tells, inside a write transaction, whether another connection has
 * committed; then all of it is forgotten, as after a rollback.
 */
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import type { Change, DefinedQueue } from '../engine.ts'
import type { Connection } from './connection.ts'

/** Held items kept at most; what a process holds beyond that is simply read again. */
const maxItems = 10_000
/** Likewise names of queues, and of locks, held or free. */
const maxNames = 10_000

export class RowCache {
  /** Held items by id. */
  readonly items = new Map<string, Item>()
  readonly queues = new Map<string, DefinedQueue | null>()
  /** The slots taken of locks for which nobody waits, by name and in the order of slots. */
  readonly locks = new Map<string, readonly Lock[]>()
  /** Instances that have not ended. */
  readonly running = new Set<string>()
  /** Highest token a deleted row has had. Null: not looked. */
  floor: number | null = null
  /** Does any item wait for another? Null: not looked. */
  hasBlockers: boolean | null = null
  /** Is any item a suspect that can be claimed? Null: not looked. */
  hasSuspects: boolean | null = null
  /** Nothing lapses before this on the lease clock, nothing comes due before this on the wall clock. */
  quiet: { lapseAt: number; dueAt: number } | null = null

  /** A change about to be written, and with it what can no longer be relied on. */
  note(change: Change): void {
    if (change.table === 'item') this.#noteItem(change.before, change.after)
    else if (change.table === 'queue' || change.table === 'workflow') this.queues.clear()
    else if (change.table === 'lock') this.#noteLock(change.before, change.after)
    else if (change.table === 'waiter') this.locks.delete(((change.after ?? change.before) as Waiter).name)
    else if (change.table === 'cascade') this.quiet = null
    else if (change.table === 'instance') this.running.clear()
  }

  #noteItem(before: Item | null, after: Item | null): void {
    // A held item may be told to wait too, for when it is given back.
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

  /** Read: the queue of this name, or that there is none. */
  rememberQueue(name: string, queue: DefinedQueue | null): void {
    if (this.queues.size >= maxNames) this.queues.clear()
    this.queues.set(name, queue)
  }

  /** Read: this instance has not ended. */
  rememberRunning(instance: string): void {
    if (this.running.size >= maxNames) this.running.clear()
    this.running.add(instance)
  }

  /** Read: nobody waits for this lock, and these slots of it are taken. */
  rememberLine(name: string, locks: readonly Lock[], floor: number): void {
    if (this.locks.size >= maxNames) this.locks.clear()
    this.locks.set(name, locks)
    this.floor = floor
  }

  #noteLapse(expiresAt: number | null): void {
    if (this.quiet) this.quiet.lapseAt = Math.min(this.quiet.lapseAt, expiresAt ?? 0)
  }
}

/** What is known, by namespace. */
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
