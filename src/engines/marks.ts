/**
 * The marks that a copy leaves in both stores, so that nobody works on half a copy, or keeps working on a store that
 * has moved.
 */
import { fieldsIn } from '../domain/json-text.ts'
import { HoldfastError } from '../errors.ts'
import type { Position } from './transfer.ts'

/** In the target, written before its first row. */
export interface CopyMark {
  readonly id: string
  /** The identity of the source, and where it was. */
  readonly source: string
  readonly from: string
  /** The newest event of the source when the copy began. A different one means that the source has changed. */
  readonly newestEvent: number
  /** Lease clock of the target minus that of the source. */
  readonly shiftMs: number
  readonly startedAt: number
  readonly finishedAt: number | null
  /** How far each table has been copied. */
  readonly positions: Readonly<Record<string, Position | 'done'>>
}

/** In the source, written once everything was verified. */
export interface MovedMark {
  readonly copy: string
  /** Without a password. */
  readonly to: string
  readonly at: number
}

export interface Marks {
  readonly copy: string | null
  readonly moved: string | null
}

/**
 * Refuses a store that holds half a copy, and one that has moved. Checked by every opener, and by processes that
 * already have it open.
 */
export function assertUsable(location: string, { copy, moved }: Marks): void {
  if (moved !== null) throw movedError(location, parseMoved(location, moved).to)
  const mark = copy === null ? null : parseCopy(location, copy)
  if (mark === null || mark.finishedAt !== null) return
  throw new HoldfastError('STORE_UNFIT', {
    what: `${location} holds an unfinished copy of ${quoted(mark.from)}`,
    next: 'finish it with `holdfast copy` from the store that you were copying, or remove it and copy again',
    facts: { location, from: mark.from },
  })
}

/** The address is only a claim by whoever wrote the file, so it is shown but never offered as something to type. */
export function movedError(location: string, to: string, cause?: unknown): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `the store ${location} has moved to ${quoted(to)}; no more changes are accepted here`,
    next: 'open it there if you know that address; do not trust it just because this file names it',
    facts: { location, movedTo: to },
    ...(cause === undefined ? {} : { cause }),
  })
}

export function parseMoved(location: string, text: string): MovedMark {
  const { copy, to, at } = fieldsIn(text)
  if (typeof copy !== 'string' || typeof to !== 'string') throw damagedMark(location, 'moved')
  return { copy, to, at: Number(at) }
}

export function parseCopy(location: string, text: string): CopyMark {
  const mark = fieldsIn(text)
  const isNamed = [mark.id, mark.source, mark.from].every((each) => typeof each === 'string')
  const isFinished = mark.finishedAt === null || typeof mark.finishedAt === 'number'
  if (isNamed && isFinished && typeof mark.positions === 'object' && mark.positions !== null)
    return mark as unknown as CopyMark
  throw damagedMark(location, 'copy')
}

/** On one line, and recognisable as a quotation. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > maxQuoted ? `${text.slice(0, maxQuoted)}…` : text)
}

const maxQuoted = 300

function damagedMark(location: string, mark: keyof Marks): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `the mark "${mark}" of ${location} cannot be read`,
    next: 'restore a backup; the store was left as it is',
    facts: { location, mark },
  })
}
