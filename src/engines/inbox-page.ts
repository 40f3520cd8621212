/** A page of an inbox: most urgent first, then oldest. */
import type { Delivery } from '../domain/delivery.ts'
import type { Page } from '../port/page.ts'
import { pageOf, parseCursor } from './page.ts'

type Cursor = readonly [priority: number, id: string]

/** Builds the page from the rows of several queries, each of them in order and limited to one more than the limit. */
export function inboxPage(found: readonly Delivery[], limit: number): Page<Delivery> {
  const inOrder = [...found].sort(
    (left, right) => left.priority - right.priority || (left.id < right.id ? -1 : 1),
  )
  return pageOf(inOrder, limit, ({ priority, id }) => JSON.stringify([priority, id]))
}

/** Null starts at the beginning. */
export function inboxCursor(text: string | null): Cursor | null {
  return text === null ? null : parseCursor(text, isCursor)
}

function isCursor(value: unknown): value is Cursor {
  return Array.isArray(value) && Number.isSafeInteger(value[0]) && typeof value[1] === 'string'
}
