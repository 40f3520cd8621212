/** What to do with a target: start, resume, start over, or leave it alone. */
import { type CopyMark, movedError, parseCopy, parseMoved, quoted } from '../engines/marks.ts'
import { type Transfer, transferTables } from '../engines/transfer.ts'
import { HoldfastError } from '../errors.ts'

/** What must be unchanged for a copy to resume. */
export interface SourceState {
  readonly id: string | null
  readonly newestEvent: number
  readonly shiftMs: number
  /** The copy that shut the source; null while it is in use. */
  readonly shutBy: string | null
}

export type Beginning =
  | { readonly how: 'fresh' }
  | { readonly how: 'resumed'; readonly mark: CopyMark }
  | { readonly how: 'restarted'; readonly mark: CopyMark }
  | { readonly how: 'finished'; readonly mark: CopyMark }

/** A larger difference means that the two stores' clocks moved against each other, by a restart or a changed date. */
const clocksAgreeMs = 2_000

/** Throws for a target that holds anything but an unfinished or finished copy of this source. */
export async function findBeginning(
  target: Transfer,
  source: SourceState,
  { restart }: { restart: boolean },
): Promise<Beginning> {
  const text = await target.readMark('copy')
  const mark = text === null ? null : parseCopy(target.location, text)
  if (mark === null || (mark.finishedAt !== null && mark.source !== source.id)) {
    await assertNotMoved(target)
    await assertEmpty(target)
    return { how: 'fresh' }
  }
  if (mark.source !== source.id) throw holdsAnother(target.location, mark)
  if (mark.finishedAt !== null) return { how: 'finished', mark }
  return { how: restart || hasChanged(mark, source) ? 'restarted' : 'resumed', mark }
}

/** A source that this very copy shut is unchanged, whatever the clocks say. */
function hasChanged(mark: CopyMark, { newestEvent, shiftMs, shutBy }: SourceState): boolean {
  if (shutBy === mark.id) return false
  return mark.newestEvent !== newestEvent || Math.abs(mark.shiftMs - shiftMs) > clocksAgreeMs
}

/** A target that has moved would stay shut, and its source would be shut as well. */
async function assertNotMoved(target: Transfer): Promise<void> {
  const text = await target.readMark('moved')
  if (text !== null) throw movedError(target.location, parseMoved(target.location, text).to)
}

async function assertEmpty(target: Transfer): Promise<void> {
  const rows: Record<string, number> = {}
  for (const table of transferTables) {
    const count = await target.countRows(table)
    if (count > 0) rows[table.name] = count
  }
  const found = Object.entries(rows).map(([table, count]) => `${count} in ${table}`)
  if (found.length === 0) return
  throw new HoldfastError('STORE_UNFIT', {
    what: `${target.location} is not empty (rows: ${found.slice(0, 5).join(', ')}); it was left as it is`,
    next: 'copy to a new file, database or schema',
    facts: { location: target.location, rows },
  })
}

function holdsAnother(location: string, { from }: CopyMark): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `${location} holds an unfinished copy of another store, ${quoted(from)}; it was left as it is`,
    next: 'finish that copy, or copy to a new file, database or schema',
    facts: { location, from },
  })
}
