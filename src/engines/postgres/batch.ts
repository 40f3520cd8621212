/**
 * One batch is one transaction in two round trips. The first locks and loads everything that its commands name, with
 * queries sent together. The commands then decide in order on one working set. The second sends all changes, events and
 * COMMIT together. A batch waits for rows while it holds others only in one fixed order: names, items by id, then
 * whatever is searched and claimed, which skips rows that others hold. So two batches never wait for each other in a
 * circle.
 *
 * More than 300 lines, because the steps of a transaction share what was locked, loaded and decided before.
 */
import type { Item } from '../../domain/item.ts'
import type { Outage } from '../../domain/outage.ts'
import { isHoldfastError } from '../../errors.ts'
import { decide } from '../../operations/decide.ts'
import { noteRings } from '../../operations/rings.ts'
import type { Command } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import type { SealedEvents } from '../../port/event.ts'
import type { Loaded, Needs, Selector } from '../../port/selector.ts'
import { leavesWaiting } from '../cascade.ts'
import { rowWithoutDamage } from '../row.ts'
import { applying, type EventRow, maxEvents, tellEvents } from './apply.ts'
import {
  type Around,
  type AroundWanted,
  aroundQuery,
  lapsedQuery,
  readAround,
  type ServerNews,
  staleQuery,
} from './around.ts'
import { isLockedOut } from './classify.ts'
import type { LineStarts } from './line-starts.ts'
import { planFor } from './load.ts'
import { namedItems } from './named-items.ts'
import { HeldNames, lockNumber, type NameLock, namesOf, taking, trying } from './names.ts'
import { type AskedQuery, distinct, type Need } from './need.ts'
import { type LineWant, NoSuchId, type Plan, type PlanScope, type Query, type Row } from './plan.ts'
import { counting, withoutWaiting } from './query.ts'
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
  /** A check ran a moment ago, so another runs only if there is too little to claim. */
  readonly checksLapsedIfShort: boolean
  /** Whether claims reclaim what has lapsed. */
  readonly healsLapsed: boolean
  /** Damaged items turned up, so searches of a line leave them out. */
  readonly avoidsDamaged: boolean
  /** Where the search of a line starts; null: at its head. */
  readonly lineStarts: LineStarts | null
  /** Others have been working on the claimable rows for long enough: those rows count as theirs. */
  readonly acceptsShort: boolean
  /** The clock is in doubt, so leases are not judged by it. */
  readonly isDoubtful: boolean
  /** The last time the server failed to answer for long. */
  outage(): Outage | null
  /** How long a lease that nobody renews is spared after it ends. */
  readonly manualGraceMs: number
  /** Takes a reading of the server's clock. Returns true if the clock is in doubt now and was not before. */
  noteClock(clock: { now: number; wall: number }): boolean
  /** Transactions that wrote a row and seemed younger than an earlier transaction of this lane. */
  readonly seenYounger: Set<string>
  /** Behind a pooler, nothing outlives a transaction. */
  readonly isPooled: boolean
  /** The mark of the branch that the batch is meant for. */
  readonly branch: string
  /** For tests that move time: the times to use instead of the server's own. */
  readonly times: { readonly now: number; readonly wall: number } | null
  /** Whether a test has moved those times since. */
  hasMoved(): boolean
  /** Read what can change on a server. */
  readonly readsServer: boolean
  noteServer(news: ServerNews): void
  /** One round trip; returns the rows of each query. */
  send(queries: readonly Query[]): Promise<readonly Row[][]>
  /** The same in one transaction that needs no `begin`. */
  sendAsOne(queries: readonly Query[]): Promise<readonly Row[][]>
  /** The last round trip. Returns true if the transaction committed, false if the server rolled it back. */
  commit(queries: readonly Query[]): Promise<boolean>
  reached(point: string): void
}

export type Answer = { readonly result: unknown } | { readonly error: unknown }

export interface Done {
  readonly answers: readonly (readonly [Waiting, Answer])[]
  /** Could not be decided alongside the others; goes first in the next batch. */
  readonly left: readonly Waiting[]
  /** The bells to ring after the commit. */
  readonly rung: ReadonlySet<number>
  /** Completions that could not free everything waiting for them at once. */
  readonly cascading: readonly Command[]
  /** Something was made ready. */
  readonly isReadier: boolean
  /** One command kept all others from being decided alongside it. */
  readonly isClosed: boolean
}

interface Member {
  readonly waiting: Waiting
  readonly steps: Generator<Needs, Decision, Loaded<Needs>>
  readonly needs: readonly Need[]
}

/** What all claims on a line want in total, and how many rows the search found. */
interface Line {
  readonly want: LineWant
  readonly limit: number
  got: number
}

const onlyTime = { writes: false, checksLapsed: false, ids: [] }
const nothing: Plan = { queries: [], read: () => null }
const maxSeenYounger = 10_000
/** Set for the session, because a rollback would undo settings of the transaction. */
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
  /** Which of the items named by id have others waiting for them. */
  #blocking: { readonly asked: ReadonlySet<string>; readonly found: ReadonlySet<unknown> } = {
    asked: new Set(),
    found: new Set(),
  }
  readonly #lines = new Map<string, Line>()
  #clock = { now: 0, wall: 0 }
  readonly #rung = new Set<number>()
  readonly #cascading: Command[] = []
  #alsoSearchesKeys = false
  /** Something was decided under a name that others may hold too. */
  #isLacking = false
  #isClosed = false
  #isReading = false
  /** The reads share one snapshot, which takes a transaction. */
  #isSnapshot = false

  constructor(scope: BatchScope, batch: readonly Waiting[]) {
    this.#scope = scope
    this.#batch = batch
  }

  /** Loads and decides. Throws the server's error or `RetryBatch`; the caller must then roll back. */
  async decide(): Promise<Done> {
    const members = this.#beginAll({ locks: true })
    await this.#load(members)
    const asking: [Member, readonly Need[]][] = []
    for (const member of inTurn(members)) {
      if (this.#isClosed || this.#isBehind(member) || this.#events.length > maxEvents / 2)
        this.#left.add(member.waiting)
      else this.#advance(member, member.needs, asking)
    }
    this.#assertNotLacking()
    if (asking.length > 0) {
      await this.#answerAsking(asking)
      this.#assertNotLacking()
    }
    if (this.#alsoSearchesKeys) throw new RetryBatch('what looked like an id is not one')
    await this.#assertNotShort()
    return this.#done()
  }

  /**
   * A claim skips rows that others have locked, and must not report a line as empty because of that: they may lock more
   * than they take, or be reclaiming what has lapsed.
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
    if (isHealing || isTaken) throw new RetryBatch('other batches hold items of the line', { isShort: true })
  }

  /**
   * Answers reads from one snapshot, in one round trip unless a command asks for more. A read that an open transaction
   * holds back is left for another try a moment later, up to `maxReads` times.
   */
  async read(maxReads: number): Promise<Done> {
    this.#isReading = true
    const members = this.#beginAll({ locks: false })
    const first = members.flatMap(({ needs }) => needs)
    const items = this.#itemQueries(first)
    // A single statement is its own snapshot, but behind a pooler it still needs a transaction.
    this.#isSnapshot = this.#scope.isPooled || items.length + distinct(first).length > 1
    const opening = this.#isSnapshot ? [beginSnapshot, ...this.#expectingBranch()] : []
    await this.#sendAll([...[...this.#movedTimes(), ...opening].map(unread), ...items], first)
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
    // Nothing depends on how the transaction of a read ends.
    if (this.#isSnapshot) this.#scope.commit([]).catch(() => {})
    return this.#done()
  }

  /** True if there is nothing to write: a refused command or an empty claim leaves nothing behind. */
  get isEmpty(): boolean {
    return this.#set.isUnchanged && this.#events.length === 0 && this.#sealed.length === 0
  }

  #done(): Done {
    // In order of arrival, whatever order they ran in.
    const left = this.#batch.filter((waiting) => this.#left.has(waiting))
    return {
      answers: this.#answers,
      left,
      rung: this.#rung,
      cascading: this.#cascading,
      isReadier: this.#set.isReadier,
      isClosed: this.#isClosed,
    }
  }

  /** What is refused before anything is loaded, such as a bad cursor, does not concern the others. */
  #beginAll({ locks }: { locks: boolean }): Member[] {
    return this.#batch.flatMap((waiting) => {
      try {
        return [this.#begin(waiting, locks)]
      } catch (error) {
        this.#refuse(waiting, error)
        return []
      }
    })
  }

  #refuse(waiting: Waiting, error: unknown): void {
    if (!isHoldfastError(error)) throw error
    this.#answers.push([waiting, { error }])
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
      const plan = selector === null ? nothing : planFor(selector, scope)
      planned.push({ field, selector, plan, answers: [] })
    }
    return planned
  }

  async #load(members: readonly Member[]): Promise<void> {
    const needs = members.flatMap((member) => member.needs)
    const { checksLapsed } = this.#scope
    const ids = [...new Set(needs.flatMap(({ plan }) => plan.items?.ids ?? []))]
    const entering = [...this.#movedTimes(), begin, ...this.#expectingBranch(), ...this.#entering(members)]
    const opening = [...entering.map(unread), ...this.#itemQueries(needs)]
    const { isStale, blockers } = await this.#sendAll(opening, needs, { writes: true, checksLapsed, ids })
    // The batch may have waited for others, and where a test moves time, only the test knows how long that took.
    if (this.#scope.hasMoved()) throw new RetryBatch('time was moved meanwhile')
    // Noted before any decision uses it, and at once: a commit may take long, and the clock would then seem to be
    // behind.
    if (this.#scope.noteClock(this.#clock)) throw new RetryBatch('the clock of the server is in doubt')
    if (isStale) throw stale()
    this.#blocking = { asked: new Set(ids), found: new Set(blockers) }
  }

  /** Sends everything in one round trip, with the `around` query last. */
  async #sendAll(
    opening: readonly AskedQuery[],
    needs: readonly Need[],
    wanted: Omit<AroundWanted, 'readsServer'> = onlyTime,
  ): Promise<Around> {
    const queries: Query[] = []
    const takers: ((rows: Row[]) => void)[] = []
    const send = (query: Query, take: (rows: Row[]) => void) => {
      queries.push(query)
      takers.push(take)
    }
    const asked = distinct(needs)
    // Queries that may block go before those that never do, so nobody waits for a row while holding rows others search.
    const locksAll = ({ query }: AskedQuery) => query.hold === 'wait' || query.hold === 'fail'
    const first = asked.filter(locksAll)
    const others = asked.filter((each) => !locksAll(each))
    for (const each of [...opening, ...first, ...others]) {
      send(each.query, (rows) => {
        for (const take of each.takers) take(rows)
      })
    }
    for (const line of this.#linesOf(needs)) this.#search(line, send)
    // Last, because a clock read before waiting for others would be late by the length of the wait.
    const { readsServer } = this.#scope
    const found = await this.#send([...queries, aroundQuery(this.#scope, { ...wanted, readsServer })])
    const around = readAround(found.at(-1)?.[0])
    if (around.server !== null) this.#scope.noteServer(around.server)
    if (!this.#isReading) this.#assertOlder(queries, found)
    for (const [index, take] of takers.entries()) take(found[index] as Row[])
    this.#clock = this.#scope.times ?? around.clock
    return around
  }

  /** Outside a transaction each statement would be one of its own. */
  #send(queries: readonly Query[]): Promise<readonly Row[][]> {
    const { send, sendAsOne } = this.#scope
    return this.#isReading && !this.#isSnapshot ? sendAsOne(queries) : send(queries)
  }

  /**
   * Events are numbered by transaction, so each transaction must be younger than what it builds on. A batch that waited
   * for a row and finds that a younger transaction wrote it runs again, and is then the youngest. A writer that still
   * seems younger in the rerun is not: its row is so old that transaction numbers have wrapped around. Reads write no
   * events.
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

  #takeItems(rows: readonly Row[]): void {
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
    // The items behind the damaged one would not be seen.
    if (items.length < rows.length && !this.#scope.avoidsDamaged)
      throw new RetryBatch('a damaged item is in line', { avoidsDamaged: true })
    this.#set.load(items)
    return items
  }

  #movedTimes(): Query[] {
    const moved = this.#scope.times
    return moved ? [{ text: moveTimes, values: [String(moved.now), String(moved.wall)] }] : []
  }

  /** Only behind a pooler: a connection of our own leads to the server it was opened to. */
  #expectingBranch(): Query[] {
    const { isPooled, branch } = this.#scope
    return isPooled ? [{ text: expectBranch, values: [branch] }] : []
  }

  /** Takes the names, all in one order, then the lane, so a batch waiting for a name has no transaction number yet. */
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

  /** Sorted in the order in which everybody takes them. */
  #numbered(locks: readonly NameLock[]): NameLock[] {
    const { schema, namespace } = this.#scope
    const numbers = new Map(
      [...locks]
        // If two names share a number, the exclusive lock wins.
        .sort(([, left], [, right]) => Number(right) - Number(left))
        .map(([name, isShared]) => [lockNumber(schema, namespace, name), isShared]),
    )
    return [...numbers].sort(([left], [right]) => (left < right ? -1 : 1))
  }

  #itemQueries(needs: readonly Need[], { nowait } = { nowait: false }): AskedQuery[] {
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
    return [{ query: nowait ? withoutWaiting(query) : query, takers: [(rows) => this.#takeItems(rows)] }]
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

  /** Gives a command its rows. It then decides, asks for more, or is refused, which changes nothing. */
  #advance(member: Member, needs: readonly Need[], asking: [Member, readonly Need[]][]): void {
    const { waiting, steps } = member
    const locks = waiting.prepared.operation.effect !== 'read'
    try {
      let step = steps.next(this.#rowsFor(needs))
      if (!step.done && this.#isUnneeded(step.value)) step = steps.next(noneWait(step.value))
      const more = step.done ? [] : this.#planAll(step.value, locks, waiting)
      if (!step.done && more.every(({ plan }) => loadsNothing(plan))) step = steps.next(this.#rowsFor(more))
      if (step.done) {
        this.#decided(member, step.value)
        return
      }
      for (const { plan } of needs) this.#set.reserve(plan, this.#itemsOf(plan), member)
      // Rows found by searching are in no list of reserved rows, so no other command may decide alongside this one.
      this.#isClosed ||= needs.some(({ plan }) => (plan.searched ?? []).length > 0)
      asking.push([member, more])
    } catch (error) {
      if (error instanceof NoSuchId) {
        waiting.alsoSearchesKeys = true
        this.#alsoSearchesKeys = true
        return
      }
      this.#refuse(waiting, error)
    }
  }

  #rowsFor(needs: readonly Need[]): Loaded<Needs> {
    // No prototype: some fields are named by text from the caller.
    const rows: Record<string, unknown> = Object.create(null)
    for (const { field, plan, answers } of needs) rows[field] = this.#read(plan, answers)
    return rows as Loaded<Needs>
  }

  #read(plan: Plan, answers: readonly (readonly Row[])[]): unknown {
    const found = plan.read(answers, this.#itemsOf(plan))
    const { joined } = this.#set
    return joined.length === 0 || !plan.afterJoining ? found : plan.afterJoining(found, joined)
  }

  #itemsOf(plan: Plan): Item[] {
    if (plan.line) return this.#set.inLine(plan.line)
    return plan.items ? this.#set.named(plan.items) : []
  }

  /**
   * An item that closed asks for the items waiting for it, and usually there are none. Its row is locked, and making
   * another item wait for it takes that lock too, so the blockers found together with the items are complete.
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
    this.#noteLacking(waiting, decision)
    // A remark changes no row. Later commands learn of it through the names it was made under.
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

  /** A command that changes mostly-read rows must hold their names alone; one that takes a suspect, `suspects`. */
  #noteLacking({ moreNames }: Waiting, decision: Decision): void {
    const changed = decision.changes.filter(
      ({ table }) => table !== 'sealedEvents' && tables[table].isMostlyRead,
    )
    const names = [...changed.flatMap(namesOf), ...(decision.changes.some(takesSuspect) ? ['suspects'] : [])]
    const missing = names.filter((name) => !this.#names.isAlone(name))
    for (const name of missing) moreNames.add(name)
    this.#isLacking ||= missing.length > 0
  }

  /** Only when all have decided: a batch that adds to a hundred new queues would otherwise run a hundred times. */
  #assertNotLacking(): void {
    if (this.#isLacking) throw new RetryBatch('a name needs an exclusive lock')
  }

  /** The second load. Nothing may block here, because others may be waiting for what this batch holds. */
  async #answerAsking(asking: [Member, readonly Need[]][]): Promise<void> {
    const needs = asking.flatMap(([, more]) => more)
    const names = needs.flatMap(({ plan }) => plan.names ?? [])
    const missing = new Set(names.filter((name) => !this.#names.isAlone(name)))
    const locks = this.#names.lacking({ alone: missing })
    for (const need of needs) {
      const queries = need.plan.queries.map(withoutWaiting)
      Object.assign(need, { plan: { ...need.plan, queries } })
    }
    let areFree = true
    const noteFree = ([row]: readonly Row[]) => {
      areFree = row?.[0] === true
    }
    const tries = trying(this.#numbered(locks)).map((query) => ({ query, takers: [noteFree] }))
    const opening = [...tries, ...this.#itemQueries(needs, { nowait: true })]
    const clock = this.#clock
    await this.#sendAll(opening, needs).catch((error: unknown) => {
      throw isLockedOut(error) ? new RetryBatch('a row that was asked for later is held by another') : error
    })
    if (!areFree) {
      for (const [{ waiting }, more] of asking)
        for (const name of more.flatMap(({ plan }) => plan.names ?? [])) waiting.moreNames.add(name)
      throw new RetryBatch('a name that was asked for later is held by another')
    }
    this.#names.note(locks, missing)
    // Keep the first reading. The second is later, and nothing was decided on the time in between.
    this.#clock = clock
    for (const [member, more] of asking) {
      if (this.#isBehind(member, more))
        throw new RetryBatch('a command needs what another of the batch changed')
      this.#advance(member, more, [])
    }
  }

  /** Writes and commits. Throws if the transaction was rolled back; a lost connection leaves the commit in doubt. */
  async apply(): Promise<void> {
    const { namespace, bucket, reached } = this.#scope
    reached('transaction.begun')
    const { wall } = this.#clock
    const queries = applying(namespace, this.#set.netChanges, this.#sealed, this.#events, { bucket, wall })
    reached('transaction.applied')
    if (!(await this.#scope.commit(queries))) throw new RetryBatch('the server rolled back')
  }
}

/** A process may hold one suspect. Two of its handles that each see none held would otherwise take one each. */
function takesSuspect({ table, before, after }: Change): boolean {
  return table === 'item' && before?.phase === 'suspect' && after?.instance != null
}

/**
 * Claims run last, so that they can take what other commands of the batch made ready. A claim is put off only once: if
 * another command closed every batch, it would wait forever.
 */
function inTurn(members: readonly Member[]): Member[] {
  const isClaim = ({ waiting, needs }: Member) =>
    !waiting.wasDeferred && needs.some(({ plan }) => plan.line !== undefined)
  return [...members.filter((member) => !isClaim(member)), ...members.filter(isClaim)]
}

function writersIn(column: unknown): string[] {
  return typeof column === 'string' && column !== '' ? column.split(' ') : []
}

/** A query whose answer nobody reads. */
function unread(query: Query): AskedQuery {
  return { query, takers: [] }
}

/** A command often asks for the queues or runs of what it found, and found nothing. That takes no round trip. */
function loadsNothing({ queries, items, line }: Plan): boolean {
  return queries.length === 0 && items === undefined && line === undefined
}

function noneWait(needs: Needs): Loaded<Needs> {
  return Object.fromEntries(Object.keys(needs).map((field) => [field, []])) as unknown as Loaded<Needs>
}
