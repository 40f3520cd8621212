/** Where a page of instances ends: by start, then by id. */
import type { Instance } from '../domain/instance.ts'
import { parseCursor } from './page.ts'

type Cursor = readonly [startedAt: number, id: string]

export function instanceCursorOf({ startedAt, id }: Instance): string {
  return JSON.stringify([startedAt, id])
}

export function instanceCursor(text: string): Cursor {
  return parseCursor(text, isCursor)
}

function isCursor(value: unknown): value is Cursor {
  return Array.isArray(value) && Number.isSafeInteger(value[0]) && typeof value[1] === 'string'
}
