/** Where a page of processes of all namespaces ends: by namespace, then by start, then by id. */
import type { Instance } from '../domain/instance.ts'
import { parseCursor } from './page.ts'

type Cursor = readonly [namespace: string, startedAt: number, id: string]

export function processCursorOf({
  namespace,
  instance: { startedAt, id },
}: {
  readonly namespace: string
  readonly instance: Instance
}): string {
  return JSON.stringify([namespace, startedAt, id])
}

/** '' starts at the beginning. */
export function processCursor(text: string): Cursor {
  return text === '' ? ['', Number.MIN_SAFE_INTEGER, ''] : parseCursor(text, isCursor)
}

function isCursor(value: unknown): value is Cursor {
  if (!Array.isArray(value)) return false
  const [namespace, startedAt, id] = value
  return typeof namespace === 'string' && Number.isSafeInteger(startedAt) && typeof id === 'string'
}
