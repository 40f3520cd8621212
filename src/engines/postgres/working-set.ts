/**
 * The rows of a batch as its commands have changed them so far. A later command sees the items that earlier ones
 * changed; if it needs anything else of theirs, it waits for the next batch.
 */
import { compareInLine, type Item } from '../../domain/item.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import type { StateFloor } from '../../domain/state.ts'
import type { Change } from '../../port/decision.ts'
import type { Tables } from '../../port/tables.ts'
import { schema, type TableName } from '../schema.ts'
import { namesOf } from './names.ts'
import type { ItemNames, LineWant, Plan } from './plan.ts'

/** One row, from how it was loaded to how it is left; only the events record the steps in between. */
export interface NetChange {
  readonly table: TableName
  readonly before: object | null
  after: object | null
}

/** Two commands decided on one row without seeing each other: neither is applied. */
export class ChangedTwice extends Error {}

const none: readonly never[] = []

export class WorkingSet {
  /** Whether something was made ready, or moved among the ready items. */
  isReadier = false
  #movedSuspects = false
  readonly #items = new Map<string, Item>()
  readonly #damaged: { readonly row: Readonly<Record<string, unknown>>; readonly error: unknown }[] = []
  readonly #netChanges = new Map<string, NetChange>()
  readonly #names = new Set<string>()
  /** Waiters that joined a line here, and the names of those lines and of their agents. */
  readonly #joined: Waiter[] = []
  readonly #joinedNames = new Set<string>()
  readonly #tables = new Set<keyof Tables>()
  /** What a command that asked for more rows is working on, by name or id: nobody else decides on it meanwhile. */
  readonly #reserved = new Map<string, unknown>()
  /** What items that were changed here wait for, or waited for a moment ago. */
  readonly #blockers = new Set<string>()
  /** The items in each line, sorted once for all claims of the batch. */
  readonly #lines = new Map<string, readonly Item[]>()

  load(items: readonly Item[]): void {
    for (const item of items) this.#items.set(item.id, item)
  }

  /** A row that cannot be read stops only the commands that name it. */
  loadDamaged(row: Readonly<Record<string, unknown>>, error: unknown): void {
    this.#damaged.push({ row, error })
  }

  /** Something happened under these names that changed no row. */
  noteNames(names: readonly string[]): void {
    for (const name of names) this.#names.add(name)
  }

  get isUnchanged(): boolean {
    return this.#netChanges.size === 0
  }

  get netChanges(): readonly NetChange[] {
    return [...this.#netChanges.values()]
  }

  note(change: Change): void {
    const isJoining = change.table === 'waiter' && change.before === null && change.after !== null
    if (isJoining) this.#joined.push(change.after)
    const names = isJoining ? this.#joinedNames : this.#names
    for (const name of namesOf(change)) names.add(name)
    this.#tables.add(change.table)
    if (change.table === 'item') this.#noteItem(change.before, change.after)
    if (change.table === 'sealedEvents') return
    const key = keyOf(change.table, (change.after ?? change.before) as object)
    const earlier = this.#netChanges.get(key)
    if (earlier && change.table === 'stateFloor') {
      earlier.after = higherOf(earlier.after as StateFloor, change.after as StateFloor)
      return
    }
    if (earlier && earlier.after !== change.before) throw new ChangedTwice()
    if (earlier) earlier.after = change.after
    else this.#netChanges.set(key, { table: change.table, before: change.before, after: change.after })
  }

  #noteItem(before: Item | null, after: Item | null): void {
    // It may have joined a line.
    if (after?.phase === 'ready') {
      this.#lines.clear()
      this.isReadier = true
    }
    const isSuspect = before?.suspectedAt != null || after?.suspectedAt != null
    if (isSuspect && before?.phase !== after?.phase) this.#movedSuspects = true
    for (const item of [before, after])
      for (const blocker of item?.waitingFor ?? none) this.#blockers.add(blocker)
    if (after) this.#items.set(after.id, after)
    else if (before) this.#items.delete(before.id)
  }

  get joined(): readonly Waiter[] {
    return this.#joined
  }

  /** Whether the plan was loaded without something that another command of the batch did or is about to do. */
  isBehind(plan: Plan, owner: unknown): boolean {
    const isTaken = (name: string) =>
      this.#names.has(name) ||
      (plan.afterJoining === undefined && this.#joinedNames.has(name)) ||
      this.#isReserved(name, owner)
    return (
      (plan.names ?? none).some(isTaken) ||
      (plan.sharedNames ?? none).some(isTaken) ||
      (plan.searched ?? none).some((table) => this.#tables.has(table)) ||
      this.isWaitedFor(plan.awaited ?? none) ||
      (plan.seeksSuspects === true && this.#movedSuspects) ||
      this.#reservesAny(plan, owner)
    )
  }

  #reservesAny({ items, line }: Plan, owner: unknown): boolean {
    if (this.#reserved.size === 0) return false
    const named = items ? this.named(items) : none
    // The command working on it may leave it to the next in line.
    const inLine = line ? [...this.#items.values()].filter(line.fits) : none
    return [...named, ...inLine].some(({ id }) => this.#isReserved(id, owner))
  }

  #isReserved(name: string, owner: unknown): boolean {
    return this.#reserved.has(name) && this.#reserved.get(name) !== owner
  }

  reserve(plan: Plan, items: readonly Item[], owner: unknown): void {
    for (const name of plan.names ?? []) this.#reserved.set(name, owner)
    for (const { id } of items) this.#reserved.set(id, owner)
  }

  named({ ids = [], keys = [], dedupeKeys = [] }: ItemNames): Item[] {
    for (const { row, error } of this.#damaged) {
      const isMeant =
        ids.some((id) => row.id === id) ||
        keys.some(({ queue, key }) => row.queue === queue && row.key === key) ||
        dedupeKeys.some(({ queue, dedupeKey }) => row.queue === queue && row.dedupeKey === dedupeKey)
      if (isMeant) throw error
    }
    const found: Item[] = []
    for (const id of ids) {
      const item = this.#items.get(id)
      if (item) found.push(item)
    }
    if (keys.length === 0 && dedupeKeys.length === 0) return found
    const byKey = [...this.#items.values()].filter(
      (item) =>
        keys.some(({ queue, key }) => item.queue === queue && item.key === key) ||
        dedupeKeys.some(({ queue, dedupeKey }) => item.queue === queue && item.dedupeKey === dedupeKey),
    )
    return [...new Set([...found, ...byKey])]
  }

  /** The next in line among the items loaded for it and those this batch made ready. */
  inLine({ line, fits, limit }: LineWant): Item[] {
    const waiting = this.#lines.get(line) ?? [...this.#items.values()].filter(fits).sort(compareInLine)
    const free = waiting.filter(({ id }) => {
      const item = this.#items.get(id)
      return item !== undefined && fits(item)
    })
    this.#lines.set(line, free)
    return free.slice(0, limit)
  }

  /** Whether an item of this batch waits for one of these. */
  isWaitedFor(ids: readonly string[]): boolean {
    return ids.some((id) => this.#blockers.has(id))
  }
}

/** Every command that removes a document raises the floor, and none may lower it for another. */
function higherOf(left: StateFloor, right: StateFloor): StateFloor {
  return left.version > right.version ? left : right
}

function keyOf(table: TableName, row: object): string {
  const fields = row as Record<string, unknown>
  if (table === 'item') return `item\n${fields.id}`
  return [table, ...schema[table].key.map((field) => String(fields[field]))].join('\n')
}
