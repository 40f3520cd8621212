/**
 * Commits that a server has acknowledged and no longer has: a standby that had not received them was promoted, or a
 * server crashed that did not wait for its disk. A connection's own row in the store says which batch it wrote last.
 */
import type { StoredEvent } from './event.ts'

/** A batch, and the mark of the branch it was written on. */
export interface SentBatch {
  readonly batch: number
  readonly mark: string
}

/** What is found when the connection is back. */
export interface FoundBatch {
  /** The last batch by the row; null: there is none. */
  readonly last: number | null
  /** The marks of the server's history. */
  readonly marks: readonly string[]
}

/**
 * Whether the last batch that was acknowledged is gone. A missing row alone says nothing, since somebody may have
 * removed it; but where the mark of its branch is missing, everything that came after that mark is.
 */
export function isLost(acknowledged: SentBatch | null, { last, marks }: FoundBatch): boolean {
  if (acknowledged === null) return false
  return last === null ? !marks.includes(acknowledged.mark) : last < acknowledged.batch
}

/** Whether a batch was committed whose answer was lost; null: nobody can say. */
export function isCommitted({ batch, mark }: SentBatch, { last, marks }: FoundBatch): boolean | null {
  if (last !== null) return last === batch
  return marks.includes(mark) ? null : false
}

/** A report of a loss, as its event tells it. */
export interface CommitLoss {
  readonly at: number
  readonly agent: string | null
  /** The process had asked for `durability: 'normal'`, which may lose the last changes. */
  readonly isExpected: boolean
}

/** The thing that events of losses are about. */
export const lossSubject = { subject: 'store', id: 'commits' } as const

export function lossOf({ at, agent, detail }: Pick<StoredEvent, 'at' | 'agent' | 'detail'>): CommitLoss {
  return { at, agent, isExpected: detail?.durability === 'normal' }
}
