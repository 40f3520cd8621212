/** What every import reports, and how it refuses rows that cannot be imported. */
import { counted } from '../domain/count.ts'
import { InvalidError } from '../errors.ts'

/** The tools that data can be imported from. */
export type ImportSource = 'pending-acks' | 'zjj' | 'exarp-go' | 'evaluation-locks' | 'beads'

/** How an import runs. */
export interface ImportOptions {
  /** Report what would be done, and change nothing. */
  readonly dryRun?: boolean | undefined
  /** Skip rows that cannot be imported instead of refusing the whole file. */
  readonly skipBad?: boolean | undefined
  /** Called as the import goes on. */
  readonly onProgress?: ((progress: ImportProgress) => void) | undefined
}

/** How far an import is. */
export interface ImportProgress {
  /** Everything is looked at before anything is imported. */
  readonly phase: 'looking' | 'importing'
  /** Rows so far. */
  readonly done: number
  /** Rows in all. */
  readonly total: number
}

/** What an import did. Things are called by the names their old program gave them. */
export interface ImportReport {
  /** The program it came from. */
  readonly from: ImportSource
  /** Whether it only looked. */
  readonly dryRun: boolean
  /** Imported now (or what would be). */
  readonly imported: readonly string[]
  /** Imported earlier, and left as they are here. */
  readonly known: readonly string[]
  /** Imported now and held there. They arrive with a lapsed lease, so recovery gives them back. */
  readonly lapsed: readonly string[]
  /** Imported with something missing or changed, and what. */
  readonly flagged: readonly { readonly id: string; readonly gaps: readonly string[] }[]
  /** Not work for anybody here, and why. */
  readonly skipped: readonly { readonly id: string; readonly why: string }[]
  /** Rows that cannot be imported; only if bad rows were to be skipped. */
  readonly bad: readonly BadRow[]
}

/** A row that cannot be imported. */
export interface BadRow {
  /** Where it is: `line 7`, `merge_queue row 12`. */
  readonly row: string
  /** What is wrong with it. */
  readonly why: string
}

const maxShown = 10
const maxListed = 100

/** Refuses the whole file if it has bad rows, and names them, unless they are to be skipped. */
export function assertNoneBad(
  bad: readonly BadRow[],
  { what, skipBad }: { what: string; skipBad: boolean | 'never' },
): void {
  const [first] = bad
  if (first === undefined || skipBad === true) return
  const others = bad.length === 1 ? '' : `, and ${bad.length - 1} more`
  throw new InvalidError({
    what: `${counted(bad.length, 'row')} of ${what} cannot be imported: ${first.row}: ${first.why}${others}`,
    next: `nothing was imported and the file was left as it is; fix ${bad.length === 1 ? 'it' : 'them'}${skipBad === 'never' ? '' : ', or leave bad rows out (--skip-bad)'}`,
    facts: {
      rows: bad.slice(0, maxListed).map(({ row, why }) => ({ row, why })),
      count: bad.length,
      issues: bad.slice(0, maxShown).map(({ row, why }) => ({ path: row, message: why })),
    },
  })
}
