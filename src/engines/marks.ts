/**
 * What a copy leaves written in the stores it works on, so that nobody works on half a copy, and nobody goes on
 * working on a store that has moved.
 */
import { HoldfastError } from '../errors.ts'
import type { Position } from './transfer.ts'

/** In the target, from before its first row on. */
export interface CopyMark {
  readonly id: string
  /** The identity of the source, and where it was. */
  readonly source: string
  readonly from: string
  /** The newest event of the source when the copy began: another one means that the source has changed. */
  readonly newestEvent: number
  /** Lease clock of the target minus that of the source. */
  readonly shiftMs: number
  readonly startedAt: number
  readonly finishedAt: number | null
  /** How far each table is. */
  readonly positions: Readonly<Record<string, Position | 'done'>>
}

/** In the source, from when everything was verified on. */
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

/** Refuses a store that holds half a copy, and one that has moved. Every opener asks, and who has it open already. */
export function assertUsable(location: string, { copy, moved }: Marks): void {
  if (moved !== null) throw movedError(location, (JSON.parse(moved) as MovedMark).to)
  const mark = copy === null ? null : (JSON.parse(copy) as CopyMark)
  if (mark === null || mark.finishedAt !== null) return
  throw new HoldfastError('STORE_UNFIT', {
    what: `${location} holds an unfinished copy of ${mark.from}`,
    next: `finish it: holdfast copy --from ${mark.from} --to ${location}`,
    facts: { location, from: mark.from },
  })
}

export function movedError(location: string, to: string, cause?: unknown): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `the store ${location} has moved to ${to}; nothing is changed here any more`,
    next: `open ${to} instead`,
    facts: { location, movedTo: to },
    ...(cause === undefined ? {} : { cause }),
  })
}
