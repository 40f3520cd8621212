/** What an import tells, the same for every source, and how it refuses rows that cannot be taken over. */
import { counted } from '../domain/count.ts'
import { InvalidError } from '../errors.ts'

export type ImportSource = 'pending-acks' | 'zjj' | 'exarp-go' | 'evaluation-locks' | 'beads'

export interface ImportOptions {
  /** Look at everything, say what would be done, and change nothing. */
  readonly dryRun?: boolean | undefined
  /** Leave out rows that cannot be taken over instead of refusing the whole file. */
  readonly skipBad?: boolean | undefined
  readonly onProgress?: ((progress: ImportProgress) => void) | undefined
}

export interface ImportProgress {
  readonly phase: 'looking' | 'importing'
  readonly done: number
  readonly total: number
}

/** Things are named as their old program named them. */
export interface ImportReport {
  readonly from: ImportSource
  readonly dryRun: boolean
  /** Taken over now (or what would be). */
  readonly imported: readonly string[]
  /** Taken over before; left as they are here. */
  readonly known: readonly string[]
  /** Of those taken over now: held there. They arrive with a lapsed lease and come back by themselves. */
  readonly lapsed: readonly string[]
  /** Taken over with something missing or changed, each with what. */
  readonly flagged: readonly { readonly id: string; readonly gaps: readonly string[] }[]
  /** No work for anybody here, each with why. */
  readonly skipped: readonly { readonly id: string; readonly why: string }[]
  /** Not to be taken over; only where bad rows were to be skipped. */
  readonly bad: readonly BadRow[]
}

export interface BadRow {
  /** Where it stands: `line 7`, `merge_queue row 12`. */
  readonly row: string
  readonly why: string
}

const maxShown = 10
const maxListed = 100

/** Refuses the whole file for the sake of its bad rows, naming them, unless they are to be skipped. */
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
