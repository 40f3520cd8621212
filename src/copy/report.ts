/** What a copy says while it is under way and when it is done. */
import type { Beginning } from './beginning.ts'
import type { Running } from './running.ts'

export interface CopyProgress {
  readonly phase: 'copying' | 'verifying'
  readonly table: string
  /** Rows of all tables. */
  readonly done: number
  readonly total: number
}

export interface CopiedTable {
  readonly table: string
  readonly rows: number
  /** SHA-256 over its rows in the order of their keys, equal on both sides; null where nothing was compared. */
  readonly digest: string | null
}

export interface CopyReport {
  /** `planned`: a dry run. `already`: it was copied before, and nothing was left to do. */
  readonly outcome: 'copied' | 'planned' | 'already'
  /** Without passwords. */
  readonly from: string
  readonly to: string
  /** Whether the target was empty, or what became of the copy it held. */
  readonly began: Beginning['how']
  readonly tables: readonly CopiedTable[]
  readonly rows: number
  /** What becomes of the source. */
  readonly source: 'shut' | 'kept'
  /** Lease times are moved by so much: the difference of the two lease clocks. */
  readonly shiftMs: number
  /** A dry run names who would have to be stopped first. */
  readonly running: readonly Running[]
  readonly ms: number
}

/** Counts rows over all tables, and tells of it. */
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
