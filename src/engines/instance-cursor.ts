/** Where a page of instances ends: by a time, then by id. */
import type { Instance } from '../domain/instance.ts'
import { parseCursor } from './page.ts'

type Cursor = readonly [at: number, id: string]

export function instanceCursorBy(column: 'startedAt' | 'seenAt' | 'endedAt'): (instance: Instance) => string {
  return (instance) => JSON.stringify([instance[column], instance.id])
}

/** Before all times if there is no page yet. */
export function instanceCursor(text: string | null): Cursor {
  return text === null ? [Number.MIN_SAFE_INTEGER, ''] : parseCursor(text, isCursor)
}

function isCursor(value: unknown): value is Cursor {
  return Array.isArray(value) && Number.isSafeInteger(value[0]) && typeof value[1] === 'string'
}
