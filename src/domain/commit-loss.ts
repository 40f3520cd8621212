/**
 * Commits that a server acknowledged and no longer has: a standby that had not received them was promoted, or a server
 * that did not wait for its disk crashed. Each connection's own row in the store says which batch it wrote last.
 */
import type { StoredEvent } from './event.ts'

/** A batch, and the mark of the branch it was written on. */
export interface SentBatch {
  readonly batch: number
  readonly mark: string
}

/** What the connection finds when it is back. */
export interface FoundBatch {
  /** The last batch according to the row; null if there is no row. */
  readonly last: number | null
  /** The marks in the server's history. */
  readonly marks: readonly string[]
}

/**
 * Whether the last acknowledged batch is gone. A missing row alone proves nothing, since someone may have removed it.
 * But if the mark of its branch is missing, so is everything after that mark.
 */
export function isLost(acknowledged: SentBatch | null, { last, marks }: FoundBatch): boolean {
  if (acknowledged === null) return false
  return last === null ? !marks.includes(acknowledged.mark) : last < acknowledged.batch
}

/** Whether a commit in doubt (its response was lost) was committed; null if there is no way to tell. */
export function isCommitted({ batch, mark }: SentBatch, { last, marks }: FoundBatch): boolean | null {
  if (last !== null) return last === batch
  return marks.includes(mark) ? null : false
}

/** A reported loss, taken from its event. */
export interface CommitLoss {
  readonly at: number
  readonly agent: string | null
  /** The process had asked for `durability: 'normal'`, which may lose the most recent changes. */
  readonly isExpected: boolean
}

export const lossSubject = { subject: 'store', id: 'commits' } as const

export function lossOf({ at, agent, detail }: Pick<StoredEvent, 'at' | 'agent' | 'detail'>): CommitLoss {
  return { at, agent, isExpected: detail?.durability === 'normal' }
}
