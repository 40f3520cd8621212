/**
 * One batch, one transaction, two round trips: everything its commands name is locked and loaded by queries sent
 * together; the commands decide in order on one working set; all changes, events and COMMIT are sent together.
 * Nothing waits for a row while it holds others but in one fixed order: names, items by id, then what is searched
 * and claimed, which skips what others hold. So two batches never wait for each other in a circle.
 */
import { noteRings } from '../../domain/bell.ts'
import type { Item } from '../../domain/item.ts'
import type { Outage } from '../../domain/outage.ts'
import { isHoldfastError } from '../../errors.ts'
import { decide } from '../../operations/decide.ts'
import { leavesWaiting } from '../cascade.ts'
import type { Change, Command, Decision, Loaded, Needs, SealedEvents, Selector, Tables } from '../engine.ts'
import { rowWithoutDamage } from '../row.ts'
import { applying, type EventRow, maxEvents, tellEvents } from './apply.ts'
import { type Around, type AroundWanted, aroundQuery, lapsedQuery, readAround, staleQuery } from './around.ts'
import { isLockedOut } from './classify.ts'
import type { LineStarts } from './line-starts.ts'
import { planFor } from './load.ts'
import { namedItems } from './named-items.ts'
import { HeldNames, lockNumber, type NameLock, namesOf, taking, trying, tryNames } from './names.ts'
import { type AskedQuery, distinct, type Need } from './need.ts'
import { type LineWant, NoSuchId, type Plan, type PlanScope, type Query, type Row } from './plan.ts'
import { counting, waits, withoutWaiting } from './query.ts'
import { RetryBatch } from './retry-batch.ts'
import { decodeReadable } from './rows.ts'
import { begin, beginSnapshot } from './settings.ts'
import { decode, tables } from './tables.ts'
import type { Waiting } from './waiting-line.ts'
import { WorkingSet } from './working-set.ts'

/** Where a batch runs. */
export interface BatchScope {
  readonly namespace: string
  readonly schema: string
  readonly lane: string
  readonly batch: number
  /** Which row of the token floor this connection raises. */
  readonly bucket: number
  /** Look for lapsed leases and ended delays before claims. */
  readonly checksLapsed: boolean
  /** A look was made a moment ago: it is made again only if there is too little to claim. */
  readonly checksLapsedIfShort: boolean
  /** Whether claims give back what has lapsed. */
  readonly healsLapsed: boolean
  /** Damaged items were met: lines are searched without them. */
  readonly avoidsDamaged: boolean
  /** Where lines are searched from; null: from their heads. */
  readonly lineStarts: LineStarts | null
  /** Others have been at work on what could be claimed for long enough: it counts as theirs. */
  readonly acceptsShort: boolean
  /** Leases are not judged by the clock now. */
  readonly isDoubtful: boolean
  /** When the server last gave no answer for long. */
  outage(): Outage | null
  /** How long leases that nobody renews are spared after their end. */
  readonly manualGraceMs: number
  /** What the server's clock shows. True when that is a reason to doubt it, and there was none before. */
  noteClock(clock: { now: number; wall: number }): boolean
  /** Transactions that wrote a row and seemed younger than an earlier one of this lane. */
  readonly seenYounger: Set<string>
  /** Behind a pooler nothing lasts longer than a transaction. */
  readonly isPooled: boolean
  /** The mark of the branch it is for. */
  readonly branch: string
  /** For tests that move time: the times that take the place of the server's own. */
  readonly times: { readonly now: number; readonly wall: number } | null
  /** Whether those times have changed since. */
  hasMoved(): boolean
  /** One round trip; answers the rows of each. */
  send(queries: readonly Query[]): Promise<readonly Row[][]>
  /** The last round trip. True when the transaction was committed, false when the server rolled it back. */
  commit(queries: readonly Query[]): Promise<boolean>
  reached(point: string): void
}

export type Answer = { readonly result: unknown } | { readonly error: unknown }

export interface Done {
  readonly answers: readonly (readonly [Waiting, Answer])[]
  /** Could not be decided beside the others; first in the next batch. */
  readonly left: readonly Waiting[]
  /** The bells to ring once it is committed. */
  readonly rung: ReadonlySet<number>
  /** Completions after which not all that waited could be freed at once. */
  readonly cascading: readonly Command[]
  /** Something was made ready. */
  readonly isReadier: boolean
}

interface Member {
  readonly waiting: Waiting
  readonly steps: Generator<Needs, Decision, Loaded<Needs>>
  readonly needs: readonly Need[]
}

/** What all claims of a line want together, and how many rows they got. */
interface Line {
  readonly want: LineWant
  readonly limit: number
  got: number
}

const onlyTime: AroundWanted = { writes: false, checksLapsed: false, ids: [] }
const nothing: Plan = { queries: [], read: () => null }
const mostlyRead = new Set<keyof Tables>(['queue', 'workflow', 'recipient'])
const lapsing = new Set(['lapsedItems', 'lapsedLocks', 'lapsedWaiters', 'lapsedDeliveries'])
const snapshot: Query = { text: beginSnapshot, values: [] }
const maxSeenYounger = 10_000
/** For the session: a transaction that is rolled back would take them back. */
const moveTimes = `select set_config('holdfast.now_ms', $1, false), set_config('holdfast.wall_ms', $2, false)`
const expectBranch = 'select holdfast.expect_branch($1)'
const enter = `insert into holdfast.lane as l (id, batch, at, namespace, instance)
values ($1, $2, holdfast.wall_ms(), $3, $4)
on conflict (id) do update set batch = excluded.batch, at = excluded.at,
  namespace = coalesce(excluded.namespace, l.namespace), instance = coalesce(excluded.instance, l.instance)`
const stale = () => new RetryBatch('leases have lapsed or delays ended', { heals: true })

export class Batch {
  readonly #scope: BatchScope
  readonly #batch: readonly Waiting[]
  readonly #set = new WorkingSet()
  readonly #answers: (readonly [Waiting, Answer])[] = []
  readonly #left = new Set<Waiting>()
  readonly #events: EventRow[] = []
  readonly #sealed: SealedEvents[] = []
  readonly #names = new HeldNames()
  /** Of the items named by id: those that others wait for. */
  #blocking: { readonly asked: ReadonlySet<string>; readonly found: ReadonlySet<unknown> } = {
    asked: new Set(),
    found: new Set(),
  }
  readonly #lines = new Map<string, Line>()
  #clock = { now: 0, wall: 0 }
  readonly #rung = new Set<number>()
  readonly #cascading: Command[] = []
  #alsoSearchesKeys = false
  /** Whether names that were asked for later were free. */
  #hasNames = true
  #isClosed = false
  #isReading = false

  constructor(scope: BatchScope, batch: readonly Waiting[]) {
    this.#scope = scope
    this.#batch = batch
  }

  /** Loads and decides. Throws what the server said, or `Again`: the transaction is then to be rolled back. */
  async decide(): Promise<Done> {
    const members = this.#batch.map((waiting) => this.#begin(waiting, true))
    await this.#load(members)
    const asking: [Member, readonly Need[]][] = []
    for (const member of inTurn(members)) {
      if (this.#isClosed || this.#isBehind(member) || this.#events.length > maxEvents / 2)
        this.#left.add(member.waiting)
      else this.#advance(member, member.needs, asking)
    }
    if (asking.length > 0) await this.#answerAsking(asking)
    if (this.#alsoSearchesKeys) throw new RetryBatch('what looked like an id is none')
    await this.#assertNotShort()
    return this.#done()
  }

  /**
   * A claim passes over rows that others have locked, and must not call a line empty for that: they may lock more than
   * they take, or be giving back what has lapsed.
   */
  async #assertNotShort(): Promise<void> {
    const { acceptsShort, avoidsDamaged, isDoubtful, checksLapsedIfShort } = this.#scope
    const short = [...this.#lines.values()].filter(({ limit, got }) => got < limit)
    if (short.length === 0 || acceptsShort) return
    const counts = short.map(({ want, limit }) => counting(want.query(limit, null, avoidsDamaged)))
    const look = checksLapsedIfShort ? staleQuery(this.#scope) : lapsedQuery(this.#scope)
    const [ahead = [], ...counted] = await this.#scope.send([look, ...counts])
    const isStale = ahead[0]?.[0] === true
    if (isStale && checksLapsedIfShort) throw stale()
    const isHealing = isStale && !isDoubtful && this.#scope.healsLapsed
    const isTaken = short.some(({ got }, index) => Number(counted[index]?.[0]?.[0]) > got)
    if (isHealing || isTaken) throw new RetryBatch('others are at work on the line', { isShort: true })
  }

  /**
   * Answers reads from one snapshot, in one round trip where no command asks for more. What a transaction that is still
   * open holds back is left, to be read again a moment later: so many times.
   */
  async read(maxReads: number): Promise<Done> {
    this.#isReading = true
    const members = this.#batch.map((waiting) => this.#begin(waiting, false))
    const first = members.flatMap(({ needs }) => needs)
    const items = this.#itemQueries(first)
    // One statement is a snapshot by itself; behind a pooler it needs a transaction all the same.
    const isSnapshot = this.#scope.isPooled || items.length + distinct(first).length > 1
    const opening = isSnapshot ? [snapshot, ...this.#expectingBranch()] : []
    await this.#sendAll([...this.#movedTimes(), ...opening, ...items], first)
    this.#scope.noteClock(this.#clock)
    const asking: [Member, readonly Need[]][] = []
    for (const member of members) {
      const isPartial = member.needs.some(({ plan, answers }) => plan.isPartial?.(answers))
      if (isPartial && member.waiting.reads < maxReads) this.#left.add(member.waiting)
      else this.#advance(member, member.needs, asking)
    }
    if (asking.length > 0) {
      const needs = asking.flatMap(([, more]) => more)
      await this.#sendAll(this.#itemQueries(needs), needs)
      for (const [member, more] of asking) this.#advance(member, more, [])
    }
    // Nothing depends on how a read ends.
    if (isSnapshot) this.#scope.commit([]).catch(() => {})
    return this.#done()
  }

  /** Whether there is anything to write: a refused command or an empty claim leaves nothing behind. */
  get isEmpty(): boolean {
    return this.#set.isUnchanged && this.#events.length === 0 && this.#sealed.length === 0
  }

  #done(): Done {
    const { isReadier } = this.#set
    // In the order in which they came, whatever the turn was here.
    const left = this.#batch.filter((waiting) => this.#left.has(waiting))
    return { answers: this.#answers, left, rung: this.#rung, cascading: this.#cascading, isReadier }
  }

  #begin(waiting: Waiting, locks: boolean): Member {
    const { isDoubtful, manualGraceMs, outage } = this.#scope
    const steps = decide(waiting.prepared, () => ({
      ...this.#clock,
      isDoubtful,
      manualGraceMs,
      outage: outage(),
    }))
    const first = steps.next()
    const needs = first.done ? [] : this.#planAll(first.value, locks, waiting)
    return { waiting, steps, needs }
  }

  #planAll(needs: Needs, locks: boolean, { alsoSearchesKeys }: Waiting): Need[] {
    const { namespace, isDoubtful, manualGraceMs } = this.#scope
    const scope: PlanScope = { namespace, locks, alsoSearchesKeys, isDoubtful, manualGraceMs }
    const planned: Need[] = []
    for (const field in needs) {
      const selector = needs[field] as Selector | null
      const isNothing = selector === null || this.#isUndecidable(selector)
      const plan = isNothing ? emptyPlan(selector) : planFor(selector, scope)
      planned.push({ field, selector, plan, answers: [] })
    }
    return planned
  }

  /** While the clocks disagree nothing counts as lapsed. */
  #isUndecidable({ select }: Selector): boolean {
    return this.#scope.isDoubtful && lapsing.has(select)
  }

  async #load(members: readonly Member[]): Promise<void> {
    const needs = members.flatMap((member) => member.needs)
    const { checksLapsed } = this.#scope
    const ids = [...new Set(needs.flatMap(({ plan }) => plan.items?.ids ?? []))]
    const opening = [
      ...this.#movedTimes(),
      { text: begin, values: [] },
      ...this.#expectingBranch(),
      ...this.#entering(members),
      ...this.#itemQueries(needs),
    ]
    const { isStale, blockers } = await this.#sendAll(opening, needs, { writes: true, checksLapsed, ids })
    // A wait for others took its time where only a test can say how much.
    if (this.#scope.hasMoved()) throw new RetryBatch('time was moved meanwhile')
    // Before anything is decided by it, and at once: a commit may take long, and the clock would seem to be behind.
    if (this.#scope.noteClock(this.#clock)) throw new RetryBatch('the clock of the server is in doubt')
    if (isStale) throw stale()
    this.#blocking = { asked: new Set(ids), found: new Set(blockers) }
  }

  /** Sends everything at once, and last of all what is read around it. */
  async #sendAll(
    opening: readonly Query[],
    needs: readonly Need[],
    wanted: AroundWanted = onlyTime,
  ): Promise<Around> {
    const queries: Query[] = []
    const takers: ((rows: Row[]) => void)[] = []
    const send = (query: Query, take: (rows: Row[]) => void) => {
      queries.push(query)
      takers.push(take)
    }
    for (const query of opening) send(query, (rows) => this.#takeOpening(query, rows))
    const asked = distinct(needs)
    // What may wait before what never does: nobody waits for a row while holding what others search.
    const isWaiting = ({ query }: AskedQuery) => waits(query)
    for (const each of [...asked.filter(isWaiting), ...asked.filter((each) => !isWaiting(each))]) {
      send(each.query, (rows) => {
        for (const take of each.takers) take(rows)
      })
    }
    for (const line of this.#linesOf(needs)) this.#search(line, send)
    // Last: a clock that was read before others were waited for is late by the wait.
    const found = await this.#scope.send([...queries, aroundQuery(this.#scope, wanted)])
    const around = readAround(found.at(-1)?.[0])
    if (!this.#isReading) this.#assertOlder(queries, found)
    for (const [index, take] of takers.entries()) take(found[index] as Row[])
    this.#clock = this.#scope.times ?? around.clock
    return around
  }

  /**
   * Events are numbered by transaction, so each must be younger than what it builds on. One that waited for an older
   * row's younger writer is run again, and is then the youngest. A writer that still seems younger then is none: its
   * row is so old that the numbers have come round. Reads write no events.
   */
  #assertOlder(queries: readonly Query[], found: readonly (readonly Row[])[]): void {
    const { seenYounger } = this.#scope
    const writers = queries.flatMap(({ youngerAt }, index) =>
      youngerAt === undefined ? [] : (found[index] ?? []).flatMap((row) => writersIn(row[youngerAt])),
    )
    const unseen = writers.filter((writer) => !seenYounger.has(writer))
    if (unseen.length === 0) return
    if (seenYounger.size > maxSeenYounger) seenYounger.clear()
    for (const writer of unseen) seenYounger.add(writer)
    throw new RetryBatch('a row was written by a younger transaction')
  }

  #takeOpening(query: Query, rows: readonly Row[]): void {
    if (query.text === tryNames) this.#hasNames = rows[0]?.[0] === true
    if (query.youngerAt === undefined) return
    for (const row of rows) {
      try {
        this.#set.load([decode<Item>(tables.item, row)])
      } catch (error) {
        this.#set.loadDamaged(rowWithoutDamage(tables.item, row), error)
      }
    }
  }

  #search(line: Line, send: (query: Query, take: (rows: Row[]) => void) => void): void {
    const { namespace, lineStarts, avoidsDamaged } = this.#scope
    const { want, limit } = line
    const name = `${namespace}\n${want.line}`
    const from = lineStarts?.of(name) ?? null
    const age = lineStarts?.age ?? 0
    send(want.query(limit, from, avoidsDamaged), (rows) => {
      const [first] = this.#takeLine(line, rows)
      if (first) lineStarts?.note(name, first, age)
    })
  }

  #takeLine(line: Line, rows: readonly Row[]): readonly Item[] {
    line.got = rows.length
    const items = decodeReadable<Item>(tables.item, rows)
    // Those behind the damaged one would not be seen.
    if (items.length < rows.length && !this.#scope.avoidsDamaged)
      throw new RetryBatch('a damaged item stands in line', { avoidsDamaged: true })
    this.#set.load(items)
    return items
  }

  #movedTimes(): Query[] {
    const moved = this.#scope.times
    return moved ? [{ text: moveTimes, values: [String(moved.now), String(moved.wall)] }] : []
  }

  /** A connection of our own leads to the server it was opened to. */
  #expectingBranch(): Query[] {
    const { isPooled, branch } = this.#scope
    return isPooled ? [{ text: expectBranch, values: [branch] }] : []
  }

  /** Takes the names, all in one order, then the lane: who waits for a name has no number as a transaction yet. */
  #entering(members: readonly Member[]): Query[] {
    const shared = new Set<string>()
    const alone = new Set<string>()
    for (const { waiting, needs } of members) {
      for (const { plan } of needs) {
        for (const name of plan.names ?? []) alone.add(name)
        for (const name of plan.sharedNames ?? []) shared.add(name)
      }
      for (const name of waiting.moreNames) alone.add(name)
    }
    const locks = this.#names.lacking({ alone, shared })
    this.#names.note(locks, alone)
    const { lane, batch, namespace } = this.#scope
    const instance =
      members.map(({ waiting }) => waiting.prepared.command.caller.instance).find(Boolean) ?? null
    const values = [lane, batch, instance === null ? null : namespace, instance]
    return [...taking(this.#numbered(locks)), { text: enter, values }]
  }

  /** In the order in which everybody takes them. */
  #numbered(locks: readonly NameLock[]): NameLock[] {
    const { schema, namespace } = this.#scope
    const numbers = new Map(
      [...locks]
        // Should two names have one number, whoever wants it alone counts.
        .sort(([, left], [, right]) => Number(right) - Number(left))
        .map(([name, isShared]) => [lockNumber(schema, namespace, name), isShared]),
    )
    return [...numbers].sort(([left], [right]) => (left < right ? -1 : 1))
  }

  #itemQueries(needs: readonly Need[], { nowait } = { nowait: false }): Query[] {
    const wanted = needs.flatMap(({ plan }) => plan.items ?? [])
    if (wanted.length === 0) return []
    const locks = this.#batch.some(({ prepared }) => prepared.operation.effect !== 'read')
    const query = namedItems(
      { namespace: this.#scope.namespace, locks },
      {
        ids: wanted.flatMap(({ ids = [] }) => ids),
        keys: wanted.flatMap(({ keys = [] }) => keys),
        dedupeKeys: wanted.flatMap(({ dedupeKeys = [] }) => dedupeKeys),
      },
    )
    return [nowait ? withoutWaiting(query) : query]
  }

  #linesOf(needs: readonly Need[]): Line[] {
    const asked = new Map<string, Line>()
    for (const { plan } of needs) {
      if (!plan.line) continue
      const limit = plan.line.limit + (asked.get(plan.line.line)?.limit ?? 0)
      asked.set(plan.line.line, { want: plan.line, limit, got: 0 })
    }
    for (const [name, line] of asked) this.#lines.set(name, line)
    return [...asked.values()]
  }

  #isBehind(member: Member, needs = member.needs): boolean {
    return needs.some(({ plan }) => this.#set.isBehind(plan, member))
  }

  /** Gives a command its rows; it decides, asks for more, or is refused, which touches nothing. */
  #advance(member: Member, needs: readonly Need[], asking: [Member, readonly Need[]][]): void {
    const { waiting, steps } = member
    const locks = waiting.prepared.operation.effect !== 'read'
    try {
      // Some are named by the caller's own words.
      const rows: Record<string, unknown> = Object.create(null)
      for (const { field, plan, answers } of needs) rows[field] = plan.read(answers, this.#itemsOf(plan))
      let step = steps.next(rows as Loaded<Needs>)
      if (!step.done && this.#isUnneeded(step.value)) step = steps.next(noneWait(step.value))
      if (step.done) {
        this.#decided(member, step.value)
        return
      }
      for (const { plan } of needs) this.#set.reserve(plan, this.#itemsOf(plan), member)
      // What it found by searching is in no list: nobody decides beside it.
      this.#isClosed ||= needs.some(({ plan }) => (plan.searched ?? []).length > 0)
      asking.push([member, this.#planAll(step.value, locks, waiting)])
    } catch (error) {
      if (error instanceof NoSuchId) {
        waiting.alsoSearchesKeys = true
        this.#alsoSearchesKeys = true
        return
      }
      if (!isHoldfastError(error)) throw error
      this.#answers.push([waiting, { error }])
    }
  }

  #itemsOf(plan: Plan): Item[] {
    if (plan.line) return this.#set.inLine(plan.line)
    return plan.items ? this.#set.named(plan.items) : []
  }

  /**
   * An item that closed asks for what waits for it, mostly nothing. Its row is locked, and whoever makes another
   * wait for it locks that row too: what was found with the items is all there can be.
   */
  #isUnneeded(needs: Needs): boolean {
    return Object.values(needs).every(
      (selector) =>
        selector?.select === 'dependents' &&
        selector.ids.every((id) => this.#blocking.asked.has(id) && !this.#blocking.found.has(id)) &&
        !this.#set.isWaitedFor(selector.ids),
    )
  }

  #decided({ waiting, needs }: Member, decision: Decision): void {
    this.#assertExclusive(waiting, decision)
    // A remark changes no row: those who come after know of it by the names it was made under.
    if (decision.remarks?.length) this.#set.noteNames(needs.flatMap(({ plan }) => plan.names ?? []))
    for (const change of decision.changes) {
      if (change.table === 'sealedEvents') this.#sealed.push(change.before as SealedEvents)
      this.#set.note(change)
    }
    tellEvents(decision, this.#events)
    noteRings(waiting.prepared.command.namespace, decision, this.#rung)
    if (leavesWaiting(decision)) this.#cascading.push(waiting.prepared.command)
    this.#answers.push([waiting, { result: decision.result }])
  }

  /** A command that changes what is mostly read has to take its name for itself; one that takes a suspect, its turn. */
  #assertExclusive(waiting: Waiting, decision: Decision): void {
    const changed = decision.changes.filter(({ table }) => mostlyRead.has(table))
    const names = [...changed.flatMap(namesOf), ...(decision.changes.some(takesSuspect) ? ['suspects'] : [])]
    const missing = names.filter((name) => !this.#names.isAlone(name))
    if (missing.length === 0) return
    for (const name of missing) waiting.moreNames.add(name)
    throw new RetryBatch('a name must be held alone')
  }

  /** The second load. Nothing may wait here: others may wait for what this batch holds. */
  async #answerAsking(asking: [Member, readonly Need[]][]): Promise<void> {
    const needs = asking.flatMap(([, more]) => more)
    const names = needs.flatMap(({ plan }) => plan.names ?? [])
    const missing = new Set(names.filter((name) => !this.#names.isAlone(name)))
    const locks = this.#names.lacking({ alone: missing })
    for (const need of needs) {
      const queries = need.plan.queries.map(withoutWaiting)
      Object.assign(need, { plan: { ...need.plan, queries } })
    }
    const opening = [...trying(this.#numbered(locks)), ...this.#itemQueries(needs, { nowait: true })]
    const clock = this.#clock
    await this.#sendAll(opening, needs).catch((error: unknown) => {
      throw isLockedOut(error) ? new RetryBatch('a row that was asked for later is held by another') : error
    })
    if (!this.#hasNames) {
      for (const [{ waiting }, more] of asking)
        for (const name of more.flatMap(({ plan }) => plan.names ?? [])) waiting.moreNames.add(name)
      throw new RetryBatch('a name that was asked for later is held by another')
    }
    this.#names.note(locks, missing)
    // Later than the first reading: nothing was decided on what lies between.
    this.#clock = clock
    for (const [member, more] of asking) {
      if (this.#isBehind(member, more))
        throw new RetryBatch('a command needs what another of the batch changed')
      this.#advance(member, more, [])
    }
  }

  /** Writes and commits. Throws when the transaction was rolled back; nothing is known when the connection was lost. */
  async apply(): Promise<void> {
    const { namespace, bucket, reached } = this.#scope
    reached('transaction.begun')
    const { wall } = this.#clock
    const queries = applying(namespace, this.#set.netChanges, this.#sealed, this.#events, { bucket, wall })
    reached('transaction.applied')
    if (!(await this.#scope.commit(queries))) throw new RetryBatch('the server rolled back')
  }
}

/** For a process, which may hold one: two of its handles that each see none held would take one each. */
function takesSuspect({ table, before, after }: Change): boolean {
  return table === 'item' && before?.phase === 'suspect' && after?.instance != null
}

/**
 * Claims after the rest: what others of the batch made ready is theirs to take. Not twice: where every batch is closed
 * by one of the rest, they would wait for ever.
 */
function inTurn(members: readonly Member[]): Member[] {
  const isClaim = ({ waiting, needs }: Member) =>
    !waiting.wasLeft && needs.some(({ plan }) => plan.line !== undefined)
  return [...members.filter((member) => !isClaim(member)), ...members.filter(isClaim)]
}

function writersIn(column: unknown): string[] {
  return typeof column === 'string' && column !== '' ? column.split(' ') : []
}

function emptyPlan(selector: Selector | null): Plan {
  return selector === null ? nothing : { queries: [], read: () => [] }
}

function noneWait(needs: Needs): Loaded<Needs> {
  return Object.fromEntries(Object.keys(needs).map((field) => [field, []])) as unknown as Loaded<Needs>
}
