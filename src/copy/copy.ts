/**
 * A store grows up: everything in it is carried to another one, of any engine, and verified row by row. A crash on any
 * line of this file leaves the source as it was, and the target either closed to everyone or complete. The same command
 * then continues where it stopped.
 *
 * 1. Make sure that nobody else works on the source. From here on one transaction holds it, so nobody can write to it.
 * 2. Mark the target as an unfinished copy before its first row.
 * 3. Carry pages of rows in key order, each in one transaction with the copy's new position.
 * 4. Read both stores side by side and compare them.
 * 5. Shut the source, naming the target; then open the target to everyone. The two are never usable at the same time.
 */
import { type CopyMark, type MovedMark, movedError, quoted } from '../engines/marks.ts'
import { absoluteUrl, openTransfer } from '../engines/open.ts'
import { interrupted, type Transfer } from '../engines/transfer.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError, InvalidError, NotFoundError } from '../errors.ts'
import { systemEnvironment } from '../host/system.ts'
import { type Beginning, findBeginning, type SourceState } from './beginning.ts'
import { carryAll } from './carry.ts'
import { type CopiedTable, type CopyProgress, type CopyReport, Meter } from './report.ts'
import { findProcesses } from './running.ts'
import { countRows, holdSource, prepareSource, readMoved, readState } from './source.ts'
import { compareAll, notTheSame } from './verify.ts'

export type { CopyProgress, CopyReport } from './report.ts'

/** What to copy, where to, and how. */
export interface CopyRequest {
  /** URL of the store to copy. */
  readonly from: string
  /** URL of an empty store or unused location, or of an unfinished copy of the same store. */
  readonly to: string
  /** Reports what would be done and changes nothing. Default false. */
  readonly dryRun?: boolean | undefined
  /** The source stays usable, and the two stores diverge from then on. Default false: the source is shut. */
  readonly keepSource?: boolean | undefined
  /** Start an unfinished copy over. Default false: resume it. */
  readonly restart?: boolean | undefined
  /** Called as the copy goes on. */
  readonly onProgress?: ((progress: CopyProgress) => void) | undefined
  /** Clock, randomness and timers, for tests. */
  readonly environment?: Environment | undefined
}

/**
 * Copies a whole store. If it throws, nothing but the target has changed, and the target is refused until it is
 * complete.
 */
export async function copyStore(asked: CopyRequest): Promise<CopyReport> {
  const environment = asked.environment ?? systemEnvironment
  const request = { ...asked, from: absoluteUrl(asked.from), to: absoluteUrl(asked.to) }
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

type Unfinished = Exclude<Beginning, { how: 'finished' }>

class Copy {
  readonly #request: CopyRequest
  readonly #source: Transfer
  readonly #target: Transfer
  readonly #environment: Environment
  readonly #meter: Meter
  readonly #startedAt: number

  constructor(request: CopyRequest, parts: { source: Transfer; target: Transfer; environment: Environment }) {
    this.#request = request
    this.#source = parts.source
    this.#target = parts.target
    this.#environment = parts.environment
    this.#meter = new Meter(request.onProgress)
    this.#startedAt = parts.environment.monotonic()
  }

  async plan(): Promise<CopyReport> {
    await this.#source.look()
    const moved = await readMoved(this.#source)
    const { running } = await findProcesses(this.#source, this.#environment)
    const tables = await countRows(this.#source)
    if (!(await this.#target.exists())) {
      if (moved !== null) throw movedError(this.#source.location, moved.to)
      return this.#report({ outcome: 'planned', began: 'fresh', shiftMs: 0, tables, running })
    }
    await this.#target.look()
    const { beginning, state } = await this.#findBeginning(moved)
    const outcome = isUnfinished(beginning) ? 'planned' : 'already'
    return this.#report({ outcome, began: beginning.how, shiftMs: state.shiftMs, tables, running })
  }

  async run(): Promise<CopyReport> {
    await prepareSource(this.#source, { url: this.#request.from, environment: this.#environment })
    this.#environment.reached?.('copy.prepared')
    const moved = await holdSource(this.#source, this.#environment)
    if (moved !== null && !(await this.#target.exists())) throw movedError(this.#source.location, moved.to)
    await this.#target.hold()
    const { beginning, state } = await this.#findBeginning(moved)
    const counted = await countRows(this.#source)
    if (!isUnfinished(beginning)) {
      const { shiftMs } = beginning.mark
      return this.#report({ outcome: 'already', began: beginning.how, shiftMs, tables: counted })
    }
    this.#meter.total = sumOf(counted)
    const { how, mark, tables } = await this.#complete(beginning, state)
    await this.#handOver(mark)
    return this.#report({ outcome: 'copied', began: how, shiftMs: mark.shiftMs, tables })
  }

  /** Carries and compares. Afterwards the target is held. */
  async #complete(
    beginning: Unfinished,
    state: SourceState,
  ): Promise<{ how: Unfinished['how']; mark: CopyMark; tables: readonly CopiedTable[] }> {
    const { how } = beginning
    const mark = await this.#begin(beginning, state)
    const written = await this.#carry(mark)
    this.#environment.reached?.('copy.filled')
    await this.#target.hold()
    // A copy of the same store from another file may have continued this one, or even opened the target to everyone.
    if ((await this.#target.readMark('copy')) !== written) throw interrupted(this.#target.location)
    const { same, different } = await this.#compare(mark)
    if (different.length === 0) return { how, mark, tables: same }
    if (how !== 'resumed') throw notTheSame(this.#target.location, different)
    // Something changed between the two attempts without an event, such as a lease renewed by hand.
    return this.#complete({ how: 'restarted', mark }, state)
  }

  /**
   * A copy that died after shutting the source is finished by running it again; any other move stands. A finished copy
   * may have been used since, so it counts as this one only if the source says so.
   */
  async #findBeginning(moved: MovedMark | null): Promise<{ beginning: Beginning; state: SourceState }> {
    const state = await readState(this.#source, this.#target, moved)
    const restart = this.#request.restart ?? false
    const beginning = await findBeginning(this.#target, state, { restart })
    const copy = 'mark' in beginning ? beginning.mark.id : null
    if (moved !== null && copy !== moved.copy) throw movedError(this.#source.location, moved.to)
    if (moved === null && !isUnfinished(beginning)) throw alreadyCopied(this.#target.location, beginning.mark)
    return { beginning, state }
  }

  /** Called with the target held. From the commit on, the target is refused to everyone until the copy is complete. */
  async #begin(beginning: Unfinished, state: SourceState): Promise<CopyMark> {
    if (beginning.how === 'resumed') {
      this.#meter.begin('copying', sumOf(await countRows(this.#target)))
      await this.#target.rollBack()
      return beginning.mark
    }
    if (beginning.how === 'restarted') await this.#target.removeAllRows()
    this.#meter.begin('copying')
    const mark: CopyMark = {
      // A restarted copy keeps its id: the source may have been shut under it.
      id: beginning.how === 'restarted' ? beginning.mark.id : this.#environment.id(),
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

  #carry(mark: CopyMark): Promise<string> {
    return carryAll({
      source: this.#source,
      target: this.#target,
      mark,
      onCarried: (table, rows) => {
        this.#meter.add(table, rows)
        this.#environment.reached?.('copy.carried')
      },
    })
  }

  /** Runs while nobody can write to either store. */
  #compare({ shiftMs }: CopyMark) {
    this.#meter.begin('verifying')
    return compareAll({
      source: this.#source,
      target: this.#target,
      shiftMs,
      onCompared: (table, rows) => this.#meter.add(table, rows),
    })
  }

  /**
   * Shuts the source first, then opens the target: a crash in between leaves two stores that refuse, never two that
   * serve.
   */
  async #handOver(mark: CopyMark): Promise<void> {
    await this.#target.numberOn()
    const finishedAt = await this.#target.wallNow()
    const grace = await this.#source.readMark('manual_grace_ms')
    if (grace !== null) await this.#target.writeMark('manual_grace_ms', grace)
    await this.#target.writeMark('copy', JSON.stringify({ ...mark, positions: {}, finishedAt }))
    if (!this.#request.keepSource) {
      // If the target is gone, shutting the source would lose its rows.
      this.#target.assertThere()
      const moved: MovedMark = { copy: mark.id, to: this.#target.location, at: finishedAt }
      await this.#source.writeMark('moved', JSON.stringify(moved))
      await this.#source.commit()
      this.#environment.reached?.('copy.shut')
    }
    await this.#target.commit()
  }

  #report(
    parts: Pick<CopyReport, 'outcome' | 'began' | 'shiftMs' | 'tables'> &
      Partial<Pick<CopyReport, 'running'>>,
  ): CopyReport {
    return {
      from: this.#source.location,
      to: this.#target.location,
      rows: sumOf(parts.tables),
      source: this.#request.keepSource ? 'kept' : 'shut',
      running: [],
      ms: Math.round(this.#environment.monotonic() - this.#startedAt),
      ...parts,
    }
  }
}

function sumOf(tables: readonly CopiedTable[]): number {
  return tables.reduce((sum, { rows }) => sum + rows, 0)
}

function isUnfinished(beginning: Beginning): beginning is Unfinished {
  return beginning.how !== 'finished'
}

function alreadyCopied(location: string, { from, finishedAt }: CopyMark): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `${location} holds a finished copy of ${quoted(from)} and may have changed since; it was left as it is`,
    next: 'use it, or copy to a new file, database or schema',
    facts: { location, from, finishedAt },
  })
}

function sameStore(location: string): InvalidError {
  return new InvalidError({
    what: `both ends of the copy are ${location}`,
    next: 'give another location with --to',
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
