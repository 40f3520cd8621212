/**
 * The SQLite engine: group commit. All commands waiting in one event-loop iteration share one `begin immediate …
 * commit`. Each one loads, decides and applies before the next starts, so later commands see earlier ones and a refused
 * one leaves no trace. Nothing is awaited inside a transaction.
 *
 * More than 300 lines, because queueing, the transaction and what follows a commit share one state, and nothing may be
 * awaited in between.
 */
import { isUnknownBoot } from '../../domain/boot.ts'
import type { Environment } from '../../environment.ts'
import { closedError, isHoldfastError } from '../../errors.ts'
import { realPath } from '../../host/store-path.ts'
import { claimsIn, decide, type Prepared, prepare } from '../../operations/decide.ts'
import { noteRings } from '../../operations/rings.ts'
import type { Command } from '../../port/command.ts'
import type { Decision } from '../../port/decision.ts'
import type { Engine, EngineOptions, StoreStatus, StoreWarning } from '../../port/engine.ts'
import { Cascades, leavesWaiting } from '../cascade.ts'
import { recoveryBefore } from '../healing.ts'
import { noStoreAt } from '../migration.ts'
import { apply } from './apply.ts'
import { Bells } from './bells.ts'
import { atCommit, classify, isBusy, isUnwritable, unsettled } from './classify.ts'
import { bootOffset } from './clock.ts'
import { Connection } from './connection.ts'
import { driver } from './driver.ts'
import { load } from './load.ts'
import { lookAhead } from './loaders/recovery.ts'
import { assertUsableAtOpen, assertUsableStore, readManualGrace, writeManualGrace } from './marks.ts'
import { isCurrent, isMade, migrate, schemaVersion } from './migrate.ts'
import { changingError, isReadOnly, openReadable, type ReadableStore, readOnlyError } from './readable.ts'
import { RowCache, RowCaches } from './row-cache.ts'
import type { Source } from './rows.ts'
import { findStoreFile, gone, lostError, type StoreFile } from './store-file.ts'
import { removeStrayIndex } from './store-log.ts'
import { keepName } from './store-name.ts'
import { Turn } from './turn.ts'

const privatePath = ':memory:'
const maxBatch = 500
const batchMs = 10
/**
 * How long, and how often, a lone caller's commands run without yielding to the event loop: long enough to gain, too
 * short to notice.
 */
const unturnedMs = 1
const maxUnturned = 16
/** 4 MiB of log. A larger log costs memory and read time, a smaller one disk time. */
const checkpointPages = 1000
/** Batches between two looks at the log, so that a one-off command never pays for one. */
const maxUnmoved = 16
/** Notified more often than this, the caretaker would do nothing else. */
const tellEveryMs = 100
/** A reopened store sees what others write, so even a second reread is rare. */
const maxRereads = 5

interface Waiting {
  readonly prepared: Prepared
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

interface Outcome {
  readonly isRefused: boolean
  /** The result, or the error. */
  readonly answer: unknown
  readonly leavesWaiting: boolean
}

/** Opens a store file, creating and migrating it as needed. */
export async function openSqlite(path: string, options: EngineOptions): Promise<SqliteEngine> {
  const isMemory = path === privatePath
  const location = isMemory ? path : realPath(path)
  const { environment, busyTimeoutMs: timeoutMs, patienceMs } = options
  const turn = new Turn(environment, { timeoutMs, patienceMs }, location)
  if (isMemory) return openWritable({ location, turn, file: null, warnings: [] }, options)
  try {
    const at = { location, turn, ...(await findStoreFile(location, turn, options)) }
    return (isReadOnly(location) && openReading(at, options)) || (await openWritable(at, options))
  } catch (error) {
    throw classify(error, location)
  }
}

/** What is known about a store before it is opened. */
interface StoreLocation {
  readonly location: string
  readonly turn: Turn
  /** Null for a private store. */
  readonly file: StoreFile | null
  readonly warnings: readonly StoreWarning[]
}

async function openWritable(at: StoreLocation, options: EngineOptions): Promise<SqliteEngine> {
  const { location, turn, file } = at
  let connection: Connection | undefined
  try {
    const opened = await turn.take(() => new Connection(location, { maxReadBytes: options.maxReadBytes }))
    connection = opened
    turn.watch(() => opened.pragma('data_version'))
    // Checked before changing any setting, so that another program's file is left untouched.
    const isThere = await turn.take(() => isMade(opened, location))
    if (options.mustExist && !isThere) throw noStoreAt(location)
    if (file) await turn.take(() => removeStrayIndex(opened, location))
    await turn.take(() => opened.configure(location, options.durability))
    const prepared = await prepareStore(opened, at, options)
    file?.assertThere(options.environment.monotonic())
    if (file) turn.share()
    return new SqliteEngine(at, { ...prepared, connection: opened, readable: null }, options)
  } catch (error) {
    connection?.close()
    const looking = isUnwritable(error) && file ? openReading(at, options) : null
    if (looking) return looking
    throw classify(error, location)
  }
}

/** A process that may not write may still read. Null if the first refusal says more than a second one would. */
function openReading(at: StoreLocation, options: EngineOptions): SqliteEngine | null {
  const { location, file } = at
  try {
    const readable = openReadable(location, options)
    if (readable === null) return null
    const engine = new SqliteEngine(at, { ...readable, readable }, options)
    file?.assertThere(options.environment.monotonic())
    return engine
  } catch (error) {
    if (isUnwritable(error)) return null
    throw classify(error, location)
  }
}

/** Resolves once every pending promise callback has run. */
function untilQuiet(): Promise<void> {
  // nextTick runs after all queued microtasks, but only if one of them schedules it.
  return new Promise((done) => queueMicrotask(() => process.nextTick(done)))
}

/** All reads see the same state, even while another process is creating the store. */
function inSnapshot<Result>(connection: Connection, read: () => Result): Result {
  connection.run('begin')
  try {
    return read()
  } finally {
    // Some errors have already ended the transaction; a second rollback would hide them.
    if (connection.isTransaction) connection.run('rollback')
  }
}

/** Omits the field when there are no warnings. */
function warned(warnings: readonly StoreWarning[]): Pick<StoreStatus, 'warnings'> {
  return warnings.length === 0 ? {} : { warnings }
}

function bootWarnings({ host }: Environment): StoreWarning[] {
  if (!isUnknownBoot(host.identity.bootId)) return []
  const what =
    'this process cannot read the boot id, so it cannot prove that a holder is dead: work is reclaimed only when its lease lapses'
  return [{ check: 'boot', what, remedy: 'make /proc/sys/kernel/random/boot_id readable inside the sandbox' }]
}

interface PreparedStore {
  readonly offset: number
  readonly manualGraceMs: number
}

interface OpenedStore extends PreparedStore {
  readonly connection: Connection
  /** Set if this process may not write. */
  readonly readable: ReadableStore | null
}

async function prepareStore(
  connection: Connection,
  { location, turn, file }: StoreLocation,
  { environment, manualGraceMs }: EngineOptions,
): Promise<PreparedStore> {
  const { isRenamed, ...prepared } = await turn.take(() => {
    // exec, not a prepared statement: that would keep the file open after a refusal.
    connection.exec('begin immediate')
    try {
      if (!isCurrent(connection, location)) migrate(connection)
      assertUsableAtOpen(connection, location)
      const isRenamed = file !== null && keepName(connection, location)
      const offset = bootOffset(connection, environment)
      if (manualGraceMs !== undefined) writeManualGrace(connection, manualGraceMs)
      const grace = readManualGrace(connection)
      connection.exec('commit')
      return { isRenamed, offset, manualGraceMs: grace }
    } catch (error) {
      if (connection.isTransaction) connection.exec('rollback')
      throw error
    }
  })
  // The name must be in the main file: a process that opens another link does not see this log.
  if (isRenamed) connection.moveLog()
  return prepared
}

export class SqliteEngine implements Engine {
  readonly status: StoreStatus
  #connection: Connection
  readonly #turn: Turn
  readonly #options: EngineOptions
  readonly #environment: Environment
  #offset: number
  #manualGraceMs: number
  /** Set if this process may not write. */
  #readable: ReadableStore | null
  readonly #location: string
  /** Null for a private store. */
  readonly #file: StoreFile | null
  readonly #bells: Bells
  readonly #memory = new RowCaches()
  readonly #cascades: Cascades
  readonly #rehearsed = new Set<string>()
  #waiting: Waiting[] = []
  #flushing: Promise<void> | null = null
  /** Reads waiting for another process. */
  readonly #reads = new Set<Promise<unknown>>()
  /** When the event loop last ran between two batches, and the batches since. */
  #turnedAt = Number.NEGATIVE_INFINITY
  #unturned = 0
  /** Batches since the log was last looked at. */
  #unmoved = 0
  /** Called when the log has grown, at most every `tellEveryMs`; null: nobody listens. */
  #onLogGrown: (() => void) | null = null
  #toldAt = Number.NEGATIVE_INFINITY
  /** A commit failed in a way that may have left its change in the log. */
  #isInDoubt = false
  #closed = false

  constructor(at: StoreLocation, store: OpenedStore, options: EngineOptions) {
    const { location, turn, file, warnings } = at
    this.#readable = store.readable
    this.#connection = store.connection
    this.#turn = turn
    this.#file = file
    this.#offset = store.offset
    this.#manualGraceMs = store.manualGraceMs
    this.#location = location
    this.#options = options
    this.#environment = options.environment
    this.#bells = new Bells(file && location, options)
    if (store.readable === null) this.#bells.makeAll()
    this.#cascades = new Cascades({
      environment: options.environment,
      execute: (command) => this.#write(prepare(command)),
      onFailed: (error) => options.onCascadeFailed(error),
    })
    this.status = {
      engine: 'sqlite',
      location,
      durability: options.durability,
      schemaVersion: schemaVersion(),
      engineVersion: driver().sqliteVersion,
      ...(store.readable === null ? {} : { isReadOnly: true }),
      ...warned([...warnings, ...bootWarnings(options.environment)]),
    }
  }

  /** Identifies the file to other threads of this process; null for a private store. */
  get file(): string | null {
    return this.#file?.id ?? null
  }

  get storeId(): string | null {
    return this.file
  }

  get isLost(): boolean {
    return this.#file?.isLost ?? false
  }

  onLost(listener: (how: string) => void): void {
    this.#file?.onLost(listener)
  }

  lose(how: string): void {
    this.#file?.lose(how)
  }

  isThere(): boolean {
    return this.#file?.isThere(this.#environment.monotonic()) ?? true
  }

  #assertThere(): void {
    this.#file?.assertThere(this.#environment.monotonic())
  }

  #leaseNow(): number {
    return Math.floor(this.#environment.monotonic()) + this.#offset
  }

  onRing(bell: number, listener: () => void): () => void {
    return this.#bells.listen(bell, listener)
  }

  isCrowded(): boolean {
    return this.#turn.isCrowded()
  }

  get hearsRings(): boolean {
    return this.#bells.areHeard
  }

  /** Not an async function: its caller would get the answer three microtasks later. */
  execute(command: Command): Promise<unknown> {
    try {
      if (this.#closed) throw closedError(this.#location)
      const prepared = prepare(command)
      if (prepared.operation.effect === 'read') return this.#read(prepared)
      if (this.status.isReadOnly) throw readOnlyError(this.#location)
      return this.#write(prepared)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #write(prepared: Prepared): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ prepared, resolve, reject })
      // Flushed in the next event-loop iteration, so that everything else asked in this one joins the same transaction.
      this.#flushing ??= new Promise<void>((done) => setImmediate(() => this.#flushAll().finally(done)))
    })
  }

  #read(prepared: Prepared): Promise<unknown> {
    try {
      return Promise.resolve(this.#readNow(prepared))
    } catch (error) {
      return isBusy(error) ? this.#readLater(prepared) : Promise.reject(classify(error, this.#location))
    }
  }

  #readNow(prepared: Prepared): unknown {
    this.#assertThere()
    const read = () =>
      inSnapshot(
        this.#connection,
        () => this.#decide(prepared, this.#source(prepared.command.namespace, new RowCache())).result,
      )
    return this.#readable === null ? read() : this.#readUnchanged(read)
  }

  /** Another process may start writing to a file that nobody had open. Anything read in the meantime is read again. */
  #readUnchanged<Result>(read: () => Result): Result {
    for (let attempt = 1; ; attempt++) {
      if (!this.#readable?.isCurrent()) this.#openAnew()
      try {
        const result = read()
        if (this.#readable?.isCurrent()) return result
      } catch (error) {
        if (this.#readable?.isCurrent() || attempt === maxRereads) throw error
      }
      if (attempt === maxRereads) throw changingError(this.#location)
    }
  }

  #openAnew(): void {
    const store = openReadable(this.#location, this.#options)
    if (store === null) throw lostError(this.#location, gone)
    this.#connection.close()
    this.#readable = store
    this.#connection = store.connection
    this.#offset = store.offset
    this.#manualGraceMs = store.manualGraceMs
  }

  /** Another process is recovering the log; nobody can read until it finishes. */
  async #readLater(prepared: Prepared): Promise<unknown> {
    const reading = this.#turn.waitToRead(() => this.#readNow(prepared))
    this.#reads.add(reading)
    try {
      return await reading
    } catch (error) {
      throw classify(error, this.#location)
    } finally {
      this.#reads.delete(reading)
    }
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#takeBatch()
      try {
        for (const { prepared } of batch) this.#rehearse(prepared)
        if (!(await this.#turn.take(() => this.#transact(batch)))) await this.#flushOneByOne(batch)
      } catch (error) {
        this.#trySettling()
        for (const { reject } of batch) reject(classify(error, this.#location))
      }
      this.#lookAtLog()
      await this.#gather(batch.length)
    }
    this.#turn.rest()
    this.#flushing = null
  }

  /**
   * Lets callers read their answers and ask for more before the next batch is closed. That takes one event-loop
   * iteration, in which anything else that runs may ask too. Where commits are quick, a lone caller that asks again as
   * soon as it is answered need not wait for one; but a caller that keeps asking must still let others run.
   */
  async #gather(answered: number): Promise<void> {
    const now = this.#environment.monotonic()
    const isLone = answered === 1 && this.#options.durability === 'normal'
    if (isLone && this.#unturned < maxUnturned && now - this.#turnedAt < unturnedMs) {
      this.#unturned++
      await untilQuiet()
      return
    }
    await new Promise((done) => setImmediate(done))
    this.#unturned = 0
    this.#turnedAt = this.#environment.monotonic()
  }

  #takeBatch(): Waiting[] {
    if (this.#waiting.length > maxBatch) return this.#waiting.splice(0, maxBatch)
    const batch = this.#waiting
    this.#waiting = []
    return batch
  }

  /**
   * Some SQL failed and the batch was rolled back. Rerun its commands one by one, so that only the failing one fails.
   */
  async #flushOneByOne(batch: Waiting[]): Promise<void> {
    for (const each of batch) {
      try {
        await this.#turn.take(() => this.#transact([each], { alone: true }))
      } catch (error) {
        this.#trySettling()
        each.reject(classify(error, this.#location))
      }
    }
  }

  /**
   * False: rolled back, and no command was answered. Throws only what concerns the store as a whole (busy, or a commit
   * in doubt).
   */
  #transact(batch: Waiting[], { alone } = { alone: false }): boolean {
    const outcomes: Outcome[] = []
    const rung = new Set<number>()
    try {
      this.#begin()
      if (!alone) this.#healBeforeClaims(batch)
      const started = this.#environment.monotonic()
      this.#environment.reached?.('transaction.begun')
      for (const { prepared } of batch) {
        if (outcomes.length > 0 && this.#environment.monotonic() - started > batchMs) break
        outcomes.push(this.#runOne(prepared, rung))
      }
      this.#commit('transaction.applied')
    } catch (error) {
      this.#rollBack()
      // A commit in doubt is never retried unless the caller asks.
      if (alone || isBusy(error) || this.#isInDoubt) throw error
      return false
    }
    this.#environment.reached?.('transaction.committed')
    const refusal = this.#file?.refusalAfterCommit(this.#environment.monotonic()) ?? null
    if (outcomes.length < batch.length) this.#waiting.unshift(...batch.slice(outcomes.length))
    outcomes.forEach(({ isRefused, answer, leavesWaiting }, index) => {
      const { prepared, resolve, reject } = batch[index] as Waiting
      if (leavesWaiting && !refusal) this.#cascades.begin(prepared.command)
      if (isRefused) reject(answer)
      else if (refusal) reject(refusal)
      else resolve(answer)
    })
    this.#bells.ring(rung)
    return true
  }

  /**
   * A command's first run takes ten times as long as later ones, because its code is compiled and its statements are
   * prepared. Does as much of that as possible before taking the write lock, so that others are not kept waiting.
   */
  #rehearse(prepared: Prepared): void {
    const { operation, command } = prepared
    if (this.#rehearsed.has(operation.name)) return
    this.#rehearsed.add(operation.name)
    try {
      inSnapshot(this.#connection, () => {
        const source = this.#source(command.namespace, new RowCache())
        if (operation.claims) lookAhead(source)
        this.#decide(prepared, source)
      })
    } catch {
      // The command itself will hit the same error and report it.
    }
  }

  /**
   * A refusal by the rules changes nothing; a store error spoils the whole transaction. `rung` collects the bells to
   * ring after the commit.
   */
  #runOne(prepared: Prepared, rung: Set<number>): Outcome {
    const { namespace } = prepared.command
    const source = this.#source(namespace, this.#memory.of(namespace))
    let decision: Decision
    try {
      decision = this.#decide(prepared, source)
    } catch (error) {
      if (isHoldfastError(error)) return { isRefused: true, answer: error, leavesWaiting: false }
      throw error
    }
    apply(source, decision)
    noteRings(namespace, decision, rung)
    return { isRefused: false, answer: decision.result, leavesWaiting: leavesWaiting(decision) }
  }

  #decide(prepared: Prepared, source: Source): Decision {
    const steps = decide(prepared, () => source)
    let step = steps.next()
    while (!step.done) step = steps.next(load(source, step.value))
    return step.value
  }

  #source(namespace: string, known: RowCache): Source {
    return {
      connection: this.#connection,
      namespace,
      now: this.#leaseNow(),
      wall: this.#environment.now(),
      outage: this.#turn.outage(this.#offset),
      manualGraceMs: this.#manualGraceMs,
      known,
    }
  }

  /** `point`: the test point reached right before the commit. */
  #commit(point: string): void {
    try {
      this.#environment.reached?.(point)
      this.#connection.run('commit')
    } catch (error) {
      const answer = atCommit(error, this.#location)
      this.#isInDoubt ||= answer !== error
      throw answer
    }
  }

  /**
   * Overwrites what a commit in doubt may have left in the log, before anything else is written. From then on the
   * change was not made, no matter who recovers the log. Without this, a command that writes nothing would leave it
   * there.
   */
  #settle(): void {
    const connection = this.#connection
    connection.run('begin immediate')
    try {
      // Rewrites the page even though the number does not change.
      connection.exec(`pragma user_version = ${connection.pragma('user_version')}`)
      this.#commit('doubt.settling')
      this.#isInDoubt = false
      this.#environment.reached?.('doubt.settled')
    } catch (error) {
      this.#rollBack()
      throw isHoldfastError(error) ? unsettled(this.#location, error) : error
    }
  }

  /**
   * So that a caller that was told of the doubt sees the final state when it looks. If this fails, the next write
   * settles it.
   */
  #trySettling(): void {
    if (!this.#isInDoubt || !this.isThere()) return
    try {
      this.#settle()
    } catch {
      // The disk is still failing, or another process is writing.
    }
  }

  /** Takes the write lock, then checks whether others have written since or moved the store away. */
  #begin(): void {
    this.#assertThere()
    if (this.#isInDoubt) this.#settle()
    this.#connection.run('begin immediate')
    if (this.#memory.refresh(this.#connection)) assertUsableStore(this.#connection, this.#location)
  }

  /**
   * Called with a transaction begun and nothing done in it. Healing runs in a separate transaction: if it fails, that
   * is reported, and the claim goes ahead.
   */
  #healBeforeClaims(batch: Waiting[]): void {
    const { healing } = this.#options
    const claim = batch.find(({ prepared }) => prepared.operation.claims)
    if (!claim || healing === null) return
    const { namespace } = claim.prepared.command
    const started = this.#environment.monotonic()
    try {
      const { stale, due } = lookAhead(this.#source(namespace, this.#memory.of(namespace)))
      if (!due && !(stale && healing.reclaims)) return
      this.#rollBack()
      this.#environment.reached?.('recovery.begun')
      const command = recoveryBefore(claimsIn(batch), healing.reclaims, this.#environment)
      const report = this.#transactNow(prepare(command))
      healing.done(report, this.#environment.monotonic() - started)
    } catch (error) {
      if (isBusy(error)) throw error
      healing.failed(classify(error, this.#location), claimsIn(batch).queues[0] ?? null)
    }
    if (!this.#connection.isTransaction) this.#begin()
  }

  #transactNow(prepared: Prepared): unknown {
    const rung = new Set<number>()
    this.#begin()
    try {
      const { isRefused, answer } = this.#runOne(prepared, rung)
      if (isRefused) throw answer
      this.#commit('recovery.applied')
      this.#bells.ring(rung)
      return answer
    } catch (error) {
      this.#rollBack()
      throw error
    }
  }

  #rollBack(): void {
    this.#memory.forget()
    if (this.#connection.isTransaction) this.#connection.run('rollback')
  }

  /** Checkpoints a little at a time while nobody waits, instead of everything at the end of one unlucky commit. */
  #lookAtLog(): void {
    this.#unmoved++
    if (this.#unmoved < maxUnmoved) return
    if (this.#options.hasCaretaker) this.#tellOfLog()
    else this.#moveLog()
  }

  #moveLog(): void {
    this.#unmoved = 0
    try {
      this.checkpoint()
    } catch {
      // Committed changes are safe in the log. A later commit moves them and reports what is wrong.
    }
  }

  #tellOfLog(): void {
    const now = this.#environment.monotonic()
    if (this.#onLogGrown === null || now - this.#toldAt < tellEveryMs) return
    this.#unmoved = 0
    this.#toldAt = now
    this.#onLogGrown()
  }

  onLogGrown(listener: () => void): void {
    this.#onLogGrown = listener
  }

  /**
   * Moves committed changes from the log to the main file once enough have accumulated. The caretaker calls it off the
   * main thread.
   */
  checkpoint(): void {
    // If the file was replaced, the log belongs to its replacement.
    if (!this.isThere()) return
    try {
      const [, logged, moved] = this.#connection.get('pragma wal_checkpoint(noop)') as number[]
      if (Number(logged) - Number(moved) >= checkpointPages)
        this.#connection.get('pragma wal_checkpoint(passive)')
    } catch (error) {
      if (!isBusy(error)) throw classify(error, this.#location)
    }
  }

  /** Answers every waiting command, then closes. A second call does nothing. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    while (this.#flushing !== null || this.#reads.size > 0 || this.#cascades.ended !== null)
      await Promise.allSettled([this.#flushing, this.#cascades.ended, ...this.#reads])
    this.#trySettling()
    this.#turn.close()
    this.#bells.close()
    if (!this.status.isReadOnly && this.isThere()) this.#connection.emptyLog()
    this.#connection.close()
  }
}
