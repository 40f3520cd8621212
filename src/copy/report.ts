/** What a copy reports while it runs and when it is done. */
import type { Beginning } from './beginning.ts'
import type { Running } from './running.ts'

export interface CopyProgress {
  readonly phase: 'copying' | 'verifying'
  readonly table: string
  /** Rows over all tables. */
  readonly done: number
  readonly total: number
}

export interface CopiedTable {
  readonly table: string
  readonly rows: number
  /** SHA-256 over its rows in key order, equal on both sides; null if nothing was compared. */
  readonly digest: string | null
}

export interface CopyReport {
  /** `planned`: a dry run. `already`: it was copied before, and there was nothing left to do. */
  readonly outcome: 'copied' | 'planned' | 'already'
  /** Without passwords. */
  readonly from: string
  readonly to: string
  /** Whether the target was empty, or what became of the copy it held. */
  readonly began: Beginning['how']
  readonly tables: readonly CopiedTable[]
  readonly rows: number
  /** What happens to the source. */
  readonly source: 'shut' | 'kept'
  /** Lease times are shifted by this: the difference between the two lease clocks. */
  readonly shiftMs: number
  /** In a dry run, the processes that would have to be stopped first. */
  readonly running: readonly Running[]
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
