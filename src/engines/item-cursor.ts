/** Positions in a list of items: open items in working order, then closed ones, newest first. */
import type { Item } from '../domain/item.ts'
import { parseCursor } from './page.ts'

export type ItemCursor =
  | readonly ['open', priority: number, addedAt: number, id: string]
  | readonly ['closed', closedAt: number, id: string]

/** The cursor of a request; throws for one that did not come from a page of ours. */
export function itemCursor(after: string | null): ItemCursor | null {
  return after === null ? null : parseCursor(after, isCursor)
}

/** Orders closed items, newest first. */
export function compareClosed(left: Item, right: Item): number {
  return (right.closedAt ?? 0) - (left.closedAt ?? 0) || (left.id < right.id ? 1 : -1)
}

export function cursorOf(item: Item): string {
  const cursor: ItemCursor =
    item.phase === 'closed'
      ? ['closed', item.closedAt ?? 0, item.id]
      : ['open', item.priority, item.addedAt, item.id]
  return JSON.stringify(cursor)
}

function isCursor(value: unknown): value is ItemCursor {
  if (!Array.isArray(value) || !Number.isSafeInteger(value[1])) return false
  if (value[0] === 'open') return Number.isSafeInteger(value[2]) && typeof value[3] === 'string'
  return value[0] === 'closed' && typeof value[2] === 'string'
}
