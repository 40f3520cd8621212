/**
 * A store grows up: everything in it is carried to another one, of any engine, and verified row by row. What dies on
 * any line of this file leaves the source as it was and the target either refused to everybody or complete; the same
 * command then goes on where it stopped.
 *
 * 1. Nobody else works on the source, and from here on nobody can write to it: one transaction holds it.
 * 2. The target is marked as an unfinished copy before its first row.
 * 3. Pages of rows go over in the order of their keys, each in one transaction with how far it brings the copy.
 * 4. Both stores are read side by side and compared.
 * 5. The source is shut, naming the target; then the target is open to all. Never are both usable.
 */
import type { CopyMark, MovedMark } from '../engines/marks.ts'
import { assertUsable, movedError } from '../engines/marks.ts'
import { openTransfer } from '../engines/open.ts'
import {
  positionOf,
  type Transfer,
  type TransferRow,
  type TransferTable,
  transferTables,
} from '../engines/transfer.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError, InvalidError, NotFoundError } from '../errors.ts'
import { open } from '../holdfast.ts'
import { systemEnvironment } from '../host/system.ts'
import { type Beginning, findBeginning, type SourceState } from './beginning.ts'
import { PageLength, Pages } from './pages.ts'
import { assertNobodyRuns, findProcesses, type Running } from './running.ts'
import { translator } from './translate.ts'
import { type DifferentTable, type VerifiedTable, verifyTable } from './verify.ts'

export interface CopyRequest {
  /** URL of the store to copy. */
  readonly from: string
  /** URL of an empty place, or of an unfinished copy of the same store. */
  readonly to: string
  /** Says what would be done and changes nothing. Default false. */
  readonly dryRun?: boolean
  /** The source stays usable; the two go their own ways from then on. Default false: it is shut. */
  readonly keepSource?: boolean
  /** An unfinished copy is begun anew. Default false: it is gone on with. */
  readonly restart?: boolean
  readonly onProgress?: (progress: CopyProgress) => void
  readonly environment?: Environment
}

export interface CopyProgress {
  readonly phase: 'copying' | 'verifying'
  readonly table: string
  readonly done: number
  readonly total: number
}

export interface CopyReport {
  /** `planned`: a dry run. `already`: it was copied before, and nothing was left to do. */
  readonly outcome: 'copied' | 'planned' | 'already'
  readonly from: string
  readonly to: string
  /** Whether the target held an unfinished copy, and what became of it. */
  readonly began: Beginning['how']
  /** Rows that go over, or went, by table; a digest once they were verified. */
  readonly tables: readonly {
    readonly table: string
    readonly rows: number
    readonly digest: string | null
  }[]
  readonly rows: number
  /** What became of the source. */
  readonly source: 'shut' | 'kept'
  /** Lease times were moved by so much: the difference of the two lease clocks. */
  readonly shiftMs: number
  /** A dry run names who would have to be stopped first. */
  readonly running: readonly Running[]
  readonly ms: number
}

/** Copies a whole store. Throws without having changed anything but the target, which is refused until it is complete. */
export async function copyStore(request: CopyRequest): Promise<CopyReport> {
  const environment = request.environment ?? systemEnvironment
  const source = await openTransfer(request.from, environment)
  try {
    const target = await openTransfer(request.to, environment)
    try {
      if (source.location === target.location) throw sameStore(source.location)
      if (!(await source.exists())) throw noStore(source.location)
      const copy = new Copy(request, { source, target, environment })
      return request.dryRun ? await copy.plan() : await copy.run()
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

class Copy {
  readonly #request: CopyRequest
  readonly #source: Transfer
  readonly #target: Transfer
  readonly #environment: Environment
  readonly #startedAt: number
  #done = 0
  #total = 0

  constructor(request: CopyRequest, parts: { source: Transfer; target: Transfer; environment: Environment }) {
    this.#request = request
    this.#source = parts.source
    this.#target = parts.target
    this.#environment = parts.environment
    this.#startedAt = parts.environment.monotonic()
  }

  async plan(): Promise<CopyReport> {
    await this.#source.look()
    const moved = await this.#movedMark()
    const { running } = await findProcesses(this.#source, this.#environment)
    const counts = await this.#count()
    if (!(await this.#target.exists())) {
      this.#assertMovedHere(moved, null)
      return this.#report({ outcome: 'planned', began: 'fresh', shiftMs: 0, tables: counts, running })
    }
    await this.#target.look()
    const state = await this.#sourceState()
    const beginning = await findBeginning(this.#target, state, { restart: this.#request.restart ?? false })
    this.#assertMovedHere(moved, beginning)
    const outcome = beginning.how === 'finished' ? 'already' : 'planned'
    if (outcome === 'planned' || moved === null) this.#assertUnfinished(beginning)
    return this.#report({ outcome, began: beginning.how, shiftMs: state.shiftMs, tables: counts, running })
  }

  async run(): Promise<CopyReport> {
    const moved = await this.#prepareSource()
    await this.#source.hold()
    if (moved === null) await this.#assertFree()
    await this.#target.hold()
    const state = await this.#sourceState()
    const beginning = await findBeginning(this.#target, state, { restart: this.#request.restart ?? false })
    this.#assertMovedHere(moved, beginning)
    const counts = await this.#count()
    if (beginning.how === 'finished' && moved !== null)
      return this.#report({
        outcome: 'already',
        began: 'finished',
        shiftMs: beginning.mark.shiftMs,
        tables: counts,
      })
    this.#assertUnfinished(beginning)
    const mark = await this.#begin(beginning, state)
    await this.#carryAll(mark)
    const tables = await this.#finish(mark)
    return this.#report({ outcome: 'copied', began: beginning.how, shiftMs: mark.shiftMs, tables })
  }

  /**
   * The source is given an identity, by which an unfinished copy is known again. What its dead held is given back:
   * their deaths can be proven here, and perhaps not where the store goes.
   */
  async #prepareSource(): Promise<MovedMark | null> {
    await this.#source.hold()
    const moved = await this.#movedMark()
    if ((await this.#source.readMark('store_id')) === null)
      await this.#source.writeMark('store_id', this.#environment.id())
    const { running, bereaved } = await findProcesses(this.#source, this.#environment)
    await this.#source.commit()
    if (moved !== null) return moved
    assertNobodyRuns(this.#source.location, running)
    for (const namespace of bereaved) {
      const { environment } = this.#request
      const own = environment === undefined ? {} : { environment }
      const hf = await open(this.#request.from, { namespace, background: false, logger: false, ...own })
      await hf.close()
    }
    return null
  }

  async #assertFree(): Promise<void> {
    const { running } = await findProcesses(this.#source, this.#environment)
    assertNobodyRuns(this.#source.location, running)
  }

  async #movedMark(): Promise<MovedMark | null> {
    const { location } = this.#source
    const moved = await this.#source.readMark('moved')
    if (moved !== null) return JSON.parse(moved) as MovedMark
    assertUsable(location, { copy: await this.#source.readMark('copy'), moved })
    return null
  }

  /** A copy that died after the source was shut is finished by running it again; any other move stays. */
  #assertMovedHere(moved: MovedMark | null, beginning: Beginning | null): void {
    if (moved === null) return
    const mark = beginning !== null && 'mark' in beginning ? beginning.mark : null
    if (mark?.id !== moved.copy) throw movedError(this.#source.location, moved.to)
  }

  #assertUnfinished(beginning: Beginning): asserts beginning is Exclude<Beginning, { how: 'finished' }> {
    if (beginning.how !== 'finished') return
    const { location } = this.#target
    throw new HoldfastError('STORE_UNFIT', {
      what: `${location} holds a finished copy of ${beginning.mark.from} and may have gone on since; it was left as it is`,
      next: 'use it, or copy to a new file, database or schema',
      facts: { location, from: beginning.mark.from, finishedAt: beginning.mark.finishedAt },
    })
  }

  async #sourceState(): Promise<SourceState> {
    return {
      id: await this.#source.readMark('store_id'),
      newestEvent: await this.#source.newestEvent(),
      shiftMs: await this.#measureShift(),
    }
  }

  /** Between two readings of the one clock lies the reading of the other. */
  async #measureShift(): Promise<number> {
    const before = await this.#source.leaseNow()
    const there = await this.#target.leaseNow()
    const after = await this.#source.leaseNow()
    return Math.round(there - (before + after) / 2)
  }

  async #count(): Promise<{ table: string; rows: number; digest: null }[]> {
    const counts = []
    for (const table of transferTables)
      counts.push({ table: table.name, rows: await this.#source.countRows(table), digest: null })
    this.#total = counts.reduce((sum, { rows }) => sum + rows, 0)
    return counts
  }

  /** The target is held. From the commit on it is refused to all until the copy is complete. */
  async #begin(beginning: Exclude<Beginning, { how: 'finished' }>, state: SourceState): Promise<CopyMark> {
    if (beginning.how === 'resumed') {
      for (const table of transferTables) this.#done += await this.#target.countRows(table)
      await this.#target.rollBack()
      return beginning.mark
    }
    if (beginning.how === 'restarted') await this.#target.removeAllRows()
    const mark: CopyMark = {
      id: this.#environment.id(),
      source: state.id as string,
      from: this.#source.location,
      newestEvent: state.newestEvent,
      shiftMs: state.shiftMs,
      startedAt: await this.#target.wallNow(),
      finishedAt: null,
      positions: {},
    }
    await this.#target.writeMark('copy', JSON.stringify(mark))
    await this.#target.commit()
    return mark
  }

  async #carryAll(mark: CopyMark): Promise<void> {
    const positions = { ...mark.positions }
    let before = JSON.stringify(mark)
    for (const table of transferTables) {
      const from = positions[table.name] ?? null
      if (from === 'done') continue
      const translate = translator(table, { shiftMs: mark.shiftMs, holdsNul: this.#target.holdsNul })
      const pages = new Pages(this.#source, table, from)
      const length = new PageLength()
      for (let rows = await pages.next(length.rows); rows.length > 0; ) {
        length.note(rows)
        positions[table.name] = positionOf(table, rows.at(-1) as TransferRow)
        const after = JSON.stringify({ ...mark, positions })
        const page = { table, rows: rows.map(translate), before, after }
        // The next page is read while this one is written.
        const [next] = await Promise.all([pages.next(length.rows), this.#target.carry(page)])
        before = after
        this.#progress('copying', table, rows.length)
        this.#environment.reached?.('copy.carried')
        rows = next
      }
      positions[table.name] = 'done'
    }
  }

  /** Verified while nobody can write on either side. */
  async #finish(mark: CopyMark): Promise<VerifiedTable[]> {
    await this.#target.hold()
    const tables = await this.#verify(mark)
    this.#environment.reached?.('copy.verified')
    await this.#target.numberOn()
    const finishedAt = await this.#target.wallNow()
    await this.#target.writeMark('copy', JSON.stringify({ ...mark, positions: {}, finishedAt }))
    if (!this.#request.keepSource) {
      const moved: MovedMark = { copy: mark.id, to: this.#target.location, at: finishedAt }
      await this.#source.shut(JSON.stringify(moved))
      await this.#source.commit()
      this.#environment.reached?.('copy.shut')
    }
    await this.#target.commit()
    return tables
  }

  async #verify({ shiftMs }: CopyMark): Promise<VerifiedTable[]> {
    this.#done = 0
    const same: VerifiedTable[] = []
    const different: DifferentTable[] = []
    for (const table of transferTables) {
      const translate = translator(table, { shiftMs, holdsNul: this.#target.holdsNul })
      const sides = { source: this.#source, target: this.#target, translate }
      const verdict = await verifyTable(table, sides, (count) => this.#progress('verifying', table, count))
      if ('same' in verdict) same.push(verdict.same)
      else different.push(verdict.different)
    }
    if (different.length > 0) throw notTheSame(this.#target.location, different)
    return same
  }

  #progress(phase: CopyProgress['phase'], { name }: TransferTable, count: number): void {
    this.#done += count
    this.#request.onProgress?.({ phase, table: name, done: this.#done, total: this.#total })
  }

  #report(
    parts: Pick<CopyReport, 'outcome' | 'began' | 'shiftMs' | 'tables'> &
      Partial<Pick<CopyReport, 'running'>>,
  ): CopyReport {
    return {
      from: this.#source.location,
      to: this.#target.location,
      rows: parts.tables.reduce((sum, { rows }) => sum + rows, 0),
      source: this.#request.keepSource ? 'kept' : 'shut',
      running: [],
      ms: Math.round(this.#environment.monotonic() - this.#startedAt),
      ...parts,
    }
  }
}

function notTheSame(location: string, tables: readonly DifferentTable[]): HoldfastError {
  const shown = tables.map(
    ({ table, source, target, first }) =>
      `${table} (${source.rows} rows and ${target.rows}, first at ${JSON.stringify(first)})`,
  )
  return new HoldfastError('STORE_UNFIT', {
    what: `the copy at ${location} is not what its source is: ${shown.join(', ')}; the source stays in use`,
    next: 'run the copy again with --restart; if it differs again, please report this',
    facts: { location, tables },
  })
}

function sameStore(location: string): InvalidError {
  return new InvalidError({
    what: `both ends of the copy are ${location}`,
    next: 'name another place with --to',
    facts: { location },
  })
}

function noStore(location: string): NotFoundError {
  return new NotFoundError({
    what: `there is no store at ${location}`,
    next: 'check --from',
    facts: { location },
  })
}
