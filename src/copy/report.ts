/** What a copy reports while it runs and when it is done. */
import type { Beginning } from './beginning.ts'
import type { Running } from './running.ts'

/** How far a copy is. */
export interface CopyProgress {
  /** Everything is copied, then compared. */
  readonly phase: 'copying' | 'verifying'
  /** The table it is at. */
  readonly table: string
  /** Rows over all tables. */
  readonly done: number
  /** Rows in all. */
  readonly total: number
}

/** What was copied of one table. */
export interface CopiedTable {
  /** Its name. */
  readonly table: string
  /** How many rows it has. */
  readonly rows: number
  /** SHA-256 over its rows in key order, equal on both sides; null if nothing was compared. */
  readonly digest: string | null
}

/** Whether the target was empty, or what became of the copy it held. */
export type CopyBeginning = Beginning['how']

/** What a copy did. */
export interface CopyReport {
  /** `planned`: a dry run. `already`: it was copied before, and there was nothing left to do. */
  readonly outcome: 'copied' | 'planned' | 'already'
  /** Without passwords. */
  readonly from: string
  /** Without passwords. */
  readonly to: string
  /** Whether the target was empty, or what became of the copy it held. */
  readonly began: CopyBeginning
  /** Each table that was copied. */
  readonly tables: readonly CopiedTable[]
  /** Rows over all tables. */
  readonly rows: number
  /** What happens to the source. */
  readonly source: 'shut' | 'kept'
  /** Lease times are shifted by this: the difference between the two lease clocks. */
  readonly shiftMs: number
  /** In a dry run, the processes that would have to be stopped first. */
  readonly running: readonly Running[]
  /** How long it took. */
  readonly ms: number
}

/** Counts rows over all tables and reports progress. */
export class Meter {
  readonly #tell: (progress: CopyProgress) => void
  #phase: CopyProgress['phase'] = 'copying'
  #done = 0
  total = 0

  constructor(tell: (progress: CopyProgress) => void = () => {}) {
    this.#tell = tell
  }

  begin(phase: CopyProgress['phase'], done = 0): void {
    this.#phase = phase
    this.#done = done
  }

  add(table: string, rows: number): void {
    this.#done += rows
    this.#tell({ phase: this.#phase, table, done: this.#done, total: this.total })
  }
}
