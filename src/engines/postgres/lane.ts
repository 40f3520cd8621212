/**
 * A lane is one connection that runs batches one after the other, and the commands that wait for the next batch. After
 * the connection is lost and found again, the lane settles the commit in doubt: its row in the store says which batch
 * was the last.
 *
 * More than 300 lines, because each step of a batch must know what to do when the connection is lost right there.
 */
import { isCommitted, isLost, type SentBatch } from '../../domain/commit-loss.ts'
import type { Outage } from '../../domain/outage.ts'
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { claimsIn, prepare } from '../../operations/decide.ts'
import type { HealingBeforeClaims } from '../../port/healing.ts'
import { recoveryBefore } from '../healing.ts'
import type { Address } from './address.ts'
import type { ServerNews } from './around.ts'
import { Batch, type BatchScope, type Done } from './batch.ts'
import { classify, inDoubt, isContention, isDisconnect, isLockedOut, unavailable } from './classify.ts'
import type { Connection } from './connection.ts'
import { type FindOptions, FoundConnection } from './found-connection.ts'
import { jittered } from './jitter.ts'
import type { LineStarts } from './line-starts.ts'
import type { Query, Row } from './plan.ts'
import { RetryBatch } from './retry-batch.ts'
import { commit, type SessionOptions } from './settings.ts'
import { closeOrKeep } from './spare-connection.ts'
import { askUnconfirmed, Unconfirmed } from './standbys.ts'
import { isRead, type Waiting, WaitingLine, waitingFor } from './waiting-line.ts'
import { ChangedTwice } from './working-set.ts'

const contentionMs = { first: 1, max: 40 }
/** How often a read of a feed is retried while an open transaction holds it back, after a short pause each time. */
const maxReads = 20
/** How often a claim goes back to rows that others have locked, after a short pause each time. */
const maxShorts = 8
/** Where a test moves time, attempts are counted instead. */
const maxAttempts = 200
/** A batch that conflicts with others this often is split up. */
const attemptsTogether = 3
const buckets = 64
/** How long a check for what has lapsed or is due serves later claims, which come by the thousand. */
const checkEveryMs = 50

/**
 * Runs before the first batch, so that a missing row always means that somebody removed it. Losing this insert does no
 * harm, so it need not be on disk before we go on.
 */
const registerLane = `insert into holdfast.lane (id, batch, at)
select $1, 0, holdfast.wall_ms()
where set_config('synchronous_commit', 'off', true) is not null
on conflict (id) do nothing`
const readLane = 'select batch from holdfast.lane where id = $1'
/** Waits for a transaction that may still be writing the row. */
const askLane = 'select batch from holdfast.lane where id = $1 for update'
/**
 * Also deletes the lanes of instances that have ended. Age decides only where no instance is known, because the clock
 * may have jumped. A lane whose row is deleted too early gets it back with its next batch.
 */
const leaveLane = `delete from holdfast.lane l
where l.id = $1
or (l.instance is null and l.at < (select holdfast.wall_ms()) - $2)
or exists (select 1 from holdfast.instance i where i.namespace = l.namespace and i.id = l.instance and i.ended_at is not null)`
const lanesKeptMs = 24 * 3_600_000

export interface LaneOptions extends FindOptions {
  readonly address: Address
  readonly checksLapsed: boolean
  /** Commands that keep leases alive; whichever lane is free takes them. */
  readonly renewals: Waiting[]
  /** Called when renewals are left waiting behind a batch, which may take any length of time. */
  onRenewalsLeft(): void
  readonly lineStarts: LineStarts
  readonly session: SessionOptions
  readonly healing: HealingBeforeClaims | null
  readonly manualGraceMs: number
  times(): { now: number; wall: number } | null
  /** The branch in use, and the marks of its history. */
  branch(): { readonly mark: string; readonly marks: readonly string[] }
  isDoubtful(): boolean
  /** The last time the server failed to answer for long. */
  outage(): Outage | null
  /** Whether this batch has to read what can change on a server. */
  isServerDue(): boolean
  onServer(news: ServerNews): void
  /** The server could not be reached. */
  onLost(): void
  /** What the server's clock showed in answer to a request sent at `askedAt`. */
  onClock(clock: { now: number; wall: number }, askedAt: number): void
  onCommitted(done: Pick<Done, 'rung' | 'cascading'>): void
}

/** Batch numbers. */
export interface LaneLoss {
  readonly acknowledged: number | null
  readonly found: number | null
}

export class Lane {
  readonly #options: LaneOptions
  readonly #environment: Environment
  readonly #id: string
  readonly #bucket: number
  readonly #line: WaitingLine
  readonly #found: FoundConnection
  #batch = 0
  /** The branch that the batch was sent on. */
  #sentOn = ''
  #acknowledged: SentBatch | null = null
  #pumping: Promise<void> | null = null
  #isSettling = false
  #leaving: (() => void) | null = null
  /** The search for a connection, which lasts until the first command waiting for it runs out of time. */
  #search: { readonly until: number; readonly over: AbortController } | null = null
  /** When the lane last had no connection. */
  #lostAt = Number.NEGATIVE_INFINITY
  /** The lane is closing and has run out of time. */
  #isGivenUp = false
  /** The lane has closed, and its connection may belong to another by now. */
  #isLeft = false
  /** Queries to send when the current batch ends. The same hint is sent once, however long that takes. */
  readonly #betweenBatches = new Map<Query, (rows: readonly Row[]) => void>()
  #avoidsDamaged = false
  readonly #seenYounger = new Set<string>()
  /** When each namespace was last checked for what has lapsed or is due. */
  readonly #checkedAt = new Map<string, number>()

  constructor(connection: Connection, options: LaneOptions) {
    this.#options = options
    this.#environment = options.environment
    this.#line = new WaitingLine(options.renewals)
    this.#id = options.environment.id()
    this.#bucket = Math.floor(options.environment.random() * buckets)
    this.#found = new FoundConnection(connection, options)
  }

  get connection(): Connection {
    return this.#found.current
  }

  get #sent(): SentBatch {
    return { batch: this.#batch, mark: this.#sentOn }
  }

  /** Finds, over any connection just re-established, what this lane had acknowledged and is gone. Reports it once. */
  async findLoss(connection: Connection): Promise<LaneLoss | null> {
    // Read before the query, because batches of this lane may go on in the meantime.
    const acknowledged = this.#acknowledged
    const [row] = await connection.send({ text: readLane, values: [this.#id] })
    const found = row === undefined ? null : Number(row[0])
    if (!isLost(acknowledged, { last: found, marks: this.#options.branch().marks })) return null
    if (this.#acknowledged === acknowledged) this.#acknowledged = null
    return { acknowledged: acknowledged?.batch ?? null, found }
  }

  /** Must run before anything is added. */
  async register(): Promise<void> {
    await this.#outside(this.connection.send({ text: registerLane, values: [this.#id] }))
  }

  /** Whether a batch is under way. */
  get isBusy(): boolean {
    return this.#isSettling
  }

  add(waiting: Waiting): void {
    this.#line.add(waiting)
    if (this.#search && waiting.deadline < this.#search.until) this.#search.over.abort()
    this.wake()
  }

  /** Call this when there may be something to do. */
  wake(): void {
    if (this.#isLeft) return
    // One event-loop turn later, so that everything else asked for in this turn joins the same transaction.
    this.#pumping ??= new Promise<void>((done) => setImmediate(() => this.#pump().finally(done)))
  }

  /** Sends between two batches: inside one, the query would join that transaction and change how it is committed. */
  sendBetweenBatches(query: Query, read: (rows: readonly Row[]) => void = () => {}): void {
    if (this.#isSettling) this.#betweenBatches.set(query, read)
    else this.#send(query, read)
  }

  /** Looks for the primary again, but never in the middle of a batch, whose commit could then be in doubt. */
  leaveServer(why: Error): void {
    const { connection } = this
    if (this.#isSettling) this.#leaving = () => connection.destroy(why)
    else connection.destroy(why)
  }

  /** Nobody waits for the answer or minds if there is none. */
  #send(query: Query, read: (rows: readonly Row[]) => void): void {
    if (this.connection.isOpen && !this.#isLeft)
      void this.#outside(this.connection.send(query).then(read, () => {}))
  }

  async #pump(): Promise<void> {
    while (!this.#line.isEmpty) {
      const batch = this.#line.take()
      if (this.#line.hasRenewals) this.#options.onRenewalsLeft()
      this.#isSettling = true
      try {
        await this.#settle(batch)
      } catch (error) {
        for (const { reject } of batch) reject(this.#typed(error))
      }
      this.#isSettling = false
      this.#leaving?.()
      this.#leaving = null
      for (const [query, read] of this.#betweenBatches) this.#send(query, read)
      this.#betweenBatches.clear()
      // Callers get to read their answers and ask for more before the next batch is closed.
      if (this.#line.isEmpty) await new Promise((done) => setImmediate(done))
    }
    this.#line.rest()
    this.#pumping = null
  }

  /** Runs commands together while that works, else one by one, so that only the command at fault fails. */
  async #settle(batch: readonly Waiting[]): Promise<void> {
    // An attempt that had to look for the server may have given some of them up.
    const left = () => batch.filter(({ isGivenUp }) => !isGivenUp)
    for (let attempt = 1; attempt <= attemptsTogether; attempt++) {
      const failure = await this.#try(left())
      if (failure === null) return
      if (!mayTryAgain(failure)) break
    }
    let lockedOut = 0
    for (const waiting of left()) {
      // Each has waited as long as it may. When two in a row were locked out, the fault is not with one of them.
      if (lockedOut >= 2)
        waiting.reject(this.#typed((await this.#unconfirmed()) ?? new RetryBatch('kept out')))
      else lockedOut = (await this.#settleOne(waiting)) ? lockedOut + 1 : 0
    }
  }

  /** Returns true if the command was locked out for as long as it may wait. */
  async #settleOne(waiting: Waiting): Promise<boolean> {
    const started = this.#environment.monotonic()
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#try([waiting])
      if (failure === null) return false
      const waitedMs = this.#environment.monotonic() - started
      const isOver = waitedMs > this.#options.session.lockTimeoutMs || attempt > maxAttempts
      if (isOver || !mayTryAgain(failure)) {
        const unconfirmed = isLockedOut(failure) ? await this.#unconfirmed() : null
        waiting.reject(this.#typed(unconfirmed ?? failure))
        return isLockedOut(failure)
      }
      await this.#rest(jittered(contentionMs, attempt, this.#environment))
    }
  }

  /** Returns null if the batch was answered, else what stopped it, with nothing changed. */
  async #try(asked: readonly Waiting[], { heals = true, shorts = 1 } = {}): Promise<unknown> {
    const giveUp = (waiting: Waiting, cause: unknown) =>
      waiting.reject(unavailable(this.#options.address.shown, cause))
    const connected = await this.#connected(asked, giveUp)
    if (connected === null) return null
    const { connection, batch } = connected
    const unwatch = this.#watch(connection, batch)
    const transaction = new Batch(this.#scope(batch, connection, { heals, shorts }), batch)
    let decided: Done | null = null
    try {
      const [{ prepared, reads }] = batch as [Waiting]
      if (isRead(prepared)) {
        if (reads > 0) await this.#rest(reads)
        this.#answerReads(await transaction.read(maxReads))
        return null
      }
      this.#batch++
      this.#sentOn = this.#options.branch().mark
      const done = await transaction.decide()
      if (transaction.isEmpty) {
        await this.#rollBack(connection)
      } else {
        decided = done
        await transaction.apply()
      }
      this.#answer(done, { wrote: !transaction.isEmpty })
      return null
    } catch (error) {
      // A server that ends a connection may report it in any words; one that rolls back is still there.
      if (!isDisconnect(error)) await this.#rollBack(connection)
      if (isDisconnect(error) || !connection.isOpen) {
        connection.destroy(error as Error)
        this.#noteLoss()
        if (decided) return this.#settleDoubt(batch, decided, error)
        this.#line.takeApart(this.#inTime(batch, (waiting) => giveUp(waiting, error)))
        return null
      }
      if (error instanceof RetryBatch && error.avoidsDamaged) this.#avoidsDamaged = true
      if (error instanceof RetryBatch && error.isShort) {
        this.#options.lineStarts.forget()
        await this.#rest(shorts)
        return this.#try(batch, { heals, shorts: shorts + 1 })
      }
      if (!(error instanceof RetryBatch && error.heals)) return error
      await this.#heal(batch, this.#options.healing as HealingBeforeClaims)
      return this.#try(batch, { heals: false })
    } finally {
      unwatch()
    }
  }

  /**
   * A server may be found again and go silent at once. Nobody should then have to wait all over again: the connection
   * is dropped when the first of these commands has waited long enough. Commands that merely waited in line are not
   * affected.
   */
  #watch(connection: Connection, batch: readonly Waiting[]): () => void {
    const now = this.#environment.monotonic()
    const kept = batch.filter(({ askedAt, deadline }) => deadline > now && askedAt <= this.#lostAt)
    if (kept.length === 0) return () => {}
    const leftMs = firstDeadline(kept) - now
    return this.#environment.timer(leftMs, () =>
      connection.destroy(new Error('the server was found again and did not answer in time')),
    )
  }

  /** Returns the commands that have time left and gives up the others. */
  #inTime(batch: readonly Waiting[], giveUp: (waiting: Waiting) => void): Waiting[] {
    const now = this.#isGivenUp ? Number.POSITIVE_INFINITY : this.#environment.monotonic()
    for (const waiting of batch) {
      if (waiting.deadline > now) continue
      waiting.isGivenUp = true
      giveUp(waiting)
    }
    return batch.filter(({ isGivenUp }) => !isGivenUp)
  }

  /** Heals in a separate transaction. Its failure is reported and keeps nobody from claiming. */
  async #heal(batch: readonly Waiting[], healing: HealingBeforeClaims): Promise<void> {
    const claims = claimsIn(batch)
    const started = this.#environment.monotonic()
    this.#environment.reached?.('recovery.begun')
    const recovery = waitingFor({
      prepared: prepare(recoveryBefore(claims, healing.reclaims, this.#environment)),
      kind: 'write',
      resolve: (report) => healing.done(report, this.#environment.monotonic() - started),
      reject: (error) => healing.failed(error, claims.queues[0] ?? null),
      askedAt: started,
      deadline: started,
    })
    await this.#settleOne(recovery)
  }

  /** Pauses without holding anything, measured by the server's time. */
  async #rest(ms: number): Promise<void> {
    const query = { text: 'select pg_sleep($1)', values: [ms / 1000] }
    await this.#outside(this.connection.send(query)).catch(() => {})
  }

  #scope(
    batch: readonly Waiting[],
    connection: Connection,
    { heals, shorts }: { heals: boolean; shorts: number },
  ): BatchScope {
    const { address, environment, checksLapsed, healing, manualGraceMs, lineStarts } = this.#options
    const times = this.#options.times()
    const isDoubtful = this.#options.isDoubtful()
    const askedAt = environment.monotonic()
    const { namespace } = (batch[0] as Waiting).prepared.command
    const mayCheck =
      heals && healing !== null && checksLapsed && batch.some(({ prepared }) => prepared.operation.claims)
    const checks = mayCheck && (this.#isCheckDue(namespace) || times !== null)
    return {
      namespace,
      schema: address.schema,
      lane: this.#id,
      batch: this.#batch + 1,
      bucket: this.#bucket,
      checksLapsed: checks,
      checksLapsedIfShort: mayCheck && !checks,
      healsLapsed: healing?.reclaims ?? false,
      lineStarts: times === null ? lineStarts : null,
      acceptsShort: shorts > maxShorts,
      isPooled: address.isPooled,
      branch: this.#options.branch().mark,
      avoidsDamaged: this.#avoidsDamaged,
      seenYounger: this.#seenYounger,
      isDoubtful,
      outage: this.#options.outage,
      manualGraceMs,
      noteClock: (clock) => {
        this.#options.onClock(clock, askedAt)
        return !isDoubtful && this.#options.isDoubtful()
      },
      readsServer: this.#options.isServerDue(),
      noteServer: (news) => this.#options.onServer(news),
      times,
      hasMoved: () => this.#options.times()?.now !== times?.now,
      send: async (queries) => (await this.#outside(connection.exchange(queries))).map(({ rows }) => rows),
      sendAsOne: async (queries) =>
        (await this.#outside(connection.exchangeAsOne(queries))).map(({ rows }) => rows),
      commit: async (queries) => {
        const answered = await this.#outside(connection.exchange([...queries, commit]))
        return answered.at(-1)?.command === 'COMMIT'
      },
      reached: (point) => environment.reached?.(point),
    }
  }

  /** Records the check as made, so a caller that gets true has to make it. */
  #isCheckDue(namespace: string): boolean {
    const now = this.#environment.monotonic()
    const isDue = now - (this.#checkedAt.get(namespace) ?? Number.NEGATIVE_INFINITY) >= checkEveryMs
    if (isDue) this.#checkedAt.set(namespace, now)
    return isDue
  }

  #outside<Result>(work: Promise<Result>): Promise<Result> {
    return this.#environment.outside?.(work) ?? work
  }

  async #rollBack(connection: Connection): Promise<void> {
    try {
      await this.#outside(connection.rollBack())
    } catch (error) {
      connection.destroy(error as Error)
    }
  }

  #answer({ answers, left, isReadier, isClosed, ...done }: Done, { wrote }: { wrote: boolean }): void {
    if (wrote) {
      this.#environment.reached?.('transaction.committed')
      this.#acknowledged = this.#sent
    }
    this.#line.putOff(left, { answered: answers.length, isClosed })
    for (const [waiting, answer] of answers) {
      if ('error' in answer) waiting.reject(answer.error)
      else waiting.resolve(answer.result)
    }
    if (isReadier) this.#options.lineStarts.forget()
    if (wrote) this.#options.onCommitted(done)
  }

  /** Reads that were left go behind commands that arrived in the meantime. */
  #answerReads(done: Done): void {
    this.#answer({ ...done, left: [] }, { wrote: false })
    for (const waiting of done.left) waiting.reads++
    this.#line.add(...done.left)
  }

  /**
   * The connection was lost between COMMIT and its answer. Locking the lane's row waits for that transaction; the row
   * then says whether it committed.
   */
  async #settleDoubt(batch: readonly Waiting[], done: Done, cause: unknown): Promise<unknown> {
    const sent = this.#sent
    const leave = (waiting: Waiting, why = cause) => waiting.reject(inDoubt(this.#options.address.shown, why))
    const connected = await this.#connected(batch, (waiting) => leave(waiting)).catch((unfit: unknown) => {
      for (const waiting of batch) leave(waiting, unfit)
      return null
    })
    if (connected === null) return null
    const { connection, batch: rest } = connected
    const unwatch = this.#watch(connection, rest)
    let last: number | null
    try {
      const [row] = await this.#outside(connection.send({ text: askLane, values: [this.#id] }))
      last = row === undefined ? null : Number(row[0])
    } catch (error) {
      const unconfirmed = isLockedOut(error) ? await this.#unconfirmed() : null
      if (isLockedOut(error)) await this.#rest(contentionMs.max)
      else connection.destroy(error as Error)
      // The old transaction may be waiting for a standby that never comes.
      const why = unconfirmed ?? cause
      const left = this.#inTime(rest, (waiting) => leave(waiting, why))
      return left.length === 0 ? null : this.#settleDoubt(left, done, why)
    } finally {
      unwatch()
    }
    const wasCommitted = isCommitted(sent, { last, marks: this.#options.branch().marks })
    if (wasCommitted === null) {
      for (const waiting of rest) leave(waiting, new Error('the row that records it was removed'))
      return null
    }
    if (wasCommitted) this.#answer(done, { wrote: true })
    else this.#line.takeApart(rest)
    return null
  }

  /**
   * Finds what keeps its rows locked because no standby has confirmed it; null: nothing, as far as this role can see.
   */
  async #unconfirmed(): Promise<Unconfirmed | null> {
    const asked = this.#outside(this.connection.send(askUnconfirmed)).catch(() => [])
    const [row] = await asked
    return row === undefined ? null : new Unconfirmed(row[0] as string)
  }

  /**
   * Returns the connection, found again if it was lost, and the commands still waiting for it. Each command is given up
   * at its own deadline, including those in line for the next batch and those that join it later with less time.
   */
  async #connected(
    asked: readonly Waiting[],
    giveUp: (waiting: Waiting, cause: unknown) => void,
  ): Promise<{ connection: Connection; batch: readonly Waiting[] } | null> {
    for (let batch = asked; ; ) {
      if (this.connection.isOpen) return { connection: this.connection, batch }
      this.#noteLoss()
      const { own: behind } = this.#line
      const until = firstDeadline([...batch, ...behind])
      this.#search = { until, over: new AbortController() }
      const connection = await this.#found
        .within(until - this.#environment.monotonic(), this.#search.over)
        .finally(() => {
          this.#search = null
        })
      if (connection !== null) return { connection, batch }
      const why = this.#found.lastFailure
      const late = new Set<Waiting>()
      this.#inTime(behind, (waiting) => late.add(waiting))
      this.#line.drop(late)
      for (const { reject } of late) reject(unavailable(this.#options.address.shown, why))
      batch = this.#inTime(batch, (waiting) => giveUp(waiting, why))
      if (batch.length === 0) return null
    }
  }

  #noteLoss(): void {
    this.#lostAt = this.#environment.monotonic()
    this.#options.onLost()
  }

  #typed(error: unknown): unknown {
    const { shown } = this.#options.address
    return classify(
      error instanceof RetryBatch || error instanceof ChangedTwice ? busy(shown, error) : error,
      shown,
    )
  }

  /** Answers what is waiting, then closes; after `withinMs` it no longer waits for answers. */
  async close(withinMs?: number): Promise<void> {
    const inTime = withinMs === undefined ? () => {} : this.#environment.timer(withinMs, () => this.#giveUp())
    try {
      await this.#leave()
    } finally {
      inTime()
    }
  }

  #giveUp(): void {
    this.#isGivenUp = true
    this.#found.searchNoMore()
    this.connection.destroy(new Error('the store was closed before the server answered'))
  }

  async #leave(): Promise<void> {
    while (this.#pumping !== null) await this.#pumping
    this.#isLeft = true
    this.#found.searchNoMore()
    const { connection } = this
    if (!connection.isOpen) return
    try {
      await this.#outside(connection.send({ text: leaveLane, values: [this.#id, lanesKeptMs] }))
    } catch {
      // A row left behind is deleted along with the old ones.
    }
    const closing = closeOrKeep(connection, this.#options.address, this.#options)
    await this.#outside(closing).catch((error: Error) => connection.destroy(error))
  }
}

function firstDeadline(waiting: readonly Waiting[]): number {
  return waiting.reduce((first, { deadline }) => Math.min(first, deadline), Number.POSITIVE_INFINITY)
}

function mayTryAgain(failure: unknown): boolean {
  return failure instanceof RetryBatch || failure instanceof ChangedTwice || isContention(failure)
}

function busy(location: string, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `others kept changing the same rows of ${location}; nothing was changed`,
    next: 'try again',
    facts: { location },
    cause,
  })
}
