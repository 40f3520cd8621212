/**
 * Pages of a list. One row more than asked for is read, to know whether the list continues. A cursor says where a page
 * ends: it is the JSON of the last row's sort key.
 */
import type { Delivery } from '../domain/delivery.ts'
import type { Instance } from '../domain/instance.ts'
import type { Item } from '../domain/item.ts'
import { InvalidError } from '../errors.ts'
import type { Page } from '../port/page.ts'

export function pageOf<Row>(rows: readonly Row[], limit: number, cursorOf: (row: Row) => string): Page<Row> {
  const last = rows[limit - 1]
  return { rows: rows.slice(0, limit), next: rows.length > limit && last ? cursorOf(last) : null }
}

/** Open items in working order, then closed ones, newest first. */
export type ItemCursor =
  | readonly ['open', priority: number, addedAt: number, id: string]
  | readonly ['closed', closedAt: number, id: string]

/** Null starts at the beginning, here and below. */
export function itemCursor(after: string | null): ItemCursor | null {
  return after === null
    ? null
    : parseCursor<ItemCursor>(after, (cursor) =>
        cursor[0] === 'open'
          ? hasKinds(cursor, 'string', 'number', 'number', 'string')
          : cursor[0] === 'closed' && hasKinds(cursor, 'string', 'number', 'string'),
      )
}

export function itemCursorOf({ phase, closedAt, priority, addedAt, id }: Item): string {
  const cursor: ItemCursor =
    phase === 'closed' ? ['closed', closedAt ?? 0, id] : ['open', priority, addedAt, id]
  return JSON.stringify(cursor)
}

/** Orders closed items, newest first. */
export function compareClosed(left: Item, right: Item): number {
  return (right.closedAt ?? 0) - (left.closedAt ?? 0) || (left.id < right.id ? 1 : -1)
}

/** An inbox: most urgent first, then oldest. */
export function inboxCursor(after: string | null): readonly [priority: number, id: string] | null {
  return after === null ? null : parseCursor(after, (cursor) => hasKinds(cursor, 'number', 'string'))
}

/** Builds the page from the rows of several queries, each of them in order and limited to one more than the limit. */
export function inboxPage(found: readonly Delivery[], limit: number): Page<Delivery> {
  const inOrder = [...found].sort(
    (left, right) => left.priority - right.priority || (left.id < right.id ? -1 : 1),
  )
  return pageOf(inOrder, limit, ({ priority, id }) => JSON.stringify([priority, id]))
}

/** Instances by a time, then by id. */
export function instanceCursor(after: string | null): readonly [at: number, id: string] {
  return after === null
    ? [Number.MIN_SAFE_INTEGER, '']
    : parseCursor(after, (cursor) => hasKinds(cursor, 'number', 'string'))
}

export function instanceCursorBy(column: 'startedAt' | 'seenAt' | 'endedAt'): (instance: Instance) => string {
  return (instance) => JSON.stringify([instance[column], instance.id])
}

/** Processes of all namespaces by namespace, then by start, then by id; '' starts at the beginning. */
export function processCursor(after: string): readonly [namespace: string, startedAt: number, id: string] {
  return after === ''
    ? ['', Number.MIN_SAFE_INTEGER, '']
    : parseCursor(after, (cursor) => hasKinds(cursor, 'string', 'number', 'string'))
}

export function processCursorOf({ namespace, instance }: { namespace: string; instance: Instance }): string {
  return JSON.stringify([namespace, instance.startedAt, instance.id])
}

/** Refuses anything that did not come from us. */
function parseCursor<Cursor>(text: string, isCursor: (cursor: readonly unknown[]) => boolean): Cursor {
  let cause: unknown
  try {
    const cursor: unknown = JSON.parse(text)
    if (Array.isArray(cursor) && isCursor(cursor)) return cursor as Cursor
  } catch (error) {
    cause = error
  }
  throw new InvalidError({
    what: `"${text.slice(0, 60)}" does not mark a page of this list`,
    next: 'pass `next` of the previous page, unchanged',
    cause,
  })
}

/** Numbers are whole. */
function hasKinds(cursor: readonly unknown[], ...kinds: readonly ('string' | 'number')[]): boolean {
  return kinds.every((kind, index) =>
    kind === 'string' ? typeof cursor[index] === 'string' : Number.isSafeInteger(cursor[index]),
  )
}
