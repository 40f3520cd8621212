/** Pages of a list. One row more than asked for is read, to know whether the list continues. */
import { InvalidError } from '../errors.ts'
import type { Page } from '../port/page.ts'

export function pageOf<Row>(rows: readonly Row[], limit: number, cursorOf: (row: Row) => string): Page<Row> {
  const last = rows[limit - 1]
  return { rows: rows.slice(0, limit), next: rows.length > limit && last ? cursorOf(last) : null }
}

/** Cursors are the JSON of a page's sort key; anything else did not come from us. */
export function parseCursor<Cursor>(text: string, isCursor: (value: unknown) => value is Cursor): Cursor {
  try {
    const cursor: unknown = JSON.parse(text)
    if (isCursor(cursor)) return cursor
  } catch (cause) {
    throw badCursor(text, cause)
  }
  throw badCursor(text)
}

function badCursor(text: string, cause?: unknown): InvalidError {
  return new InvalidError({
    what: `"${text.slice(0, 60)}" does not mark a page of this list`,
    next: 'pass `next` of the previous page, unchanged',
    cause,
  })
}
