/**
 * The SQLite engine: group commit. All commands waiting at a turn of the event loop go into one
 * `begin immediate … commit`; each loads, decides and applies before the next, so later ones see earlier ones and
 * a refused one leaves no trace. Nothing is awaited inside a transaction.
 */
import { resolve } from 'node:path'
import type { Environment } from '../../environment.ts'
import { closedError, isHoldfastError } from '../../errors.ts'
import { decide, type Prepared, prepare } from '../../operations/decide.ts'
import type { RecoveryReport } from '../../operations/recovery.ts'
import { chanceFor } from '../../operations/table.ts'
import type { Command, Decision, Engine, EngineOptions, StoreStatus } from '../engine.ts'
import { apply } from './apply.ts'
import { classify, isBusy } from './classify.ts'
import { bootOffset } from './clock.ts'
import { Connection } from './connection.ts'
import { driver } from './driver.ts'
import { Known, Memory } from './known.ts'
import { load } from './load.ts'
import { lookAhead } from './loaders/recovery.ts'
import { assertUsableStore } from './marks.ts'
import { isCurrent, migrate, schemaVersion } from './migrate.ts'
import { assertLocal } from './place.ts'
import type { Source } from './rows.ts'
import { Turn } from './turn.ts'
import { Wake } from './wake.ts'

const batchMax = 500
const batchMs = 10
/** 4 MiB of the log: less often costs memory and reading time, more often the disk's time. */
const checkpointPages = 1000

interface Waiting {
  readonly prepared: Prepared
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

type Outcome = { readonly result: unknown } | { readonly error: unknown }

/** Opens a store file, making and migrating it as needed. */
export async function openSqlite(path: string, options: EngineOptions): Promise<SqliteEngine> {
  const isMemory = path === ':memory:'
  const location = isMemory ? ':memory:' : resolve(path)
  if (!isMemory) assertLocal(location, options.environment)
  const turn = new Turn(options.environment, options.busyTimeoutMs, location)
  let connection: Connection | undefined
  try {
    const opened = await turn.take(() => new Connection(location))
    connection = opened
    // Before any setting is made: a file of another program is left as it is.
    await turn.take(() => inSnapshot(opened, () => isCurrent(opened, location)))
    await turn.take(() => opened.configure(location, options.durability))
    const offset = await prepareStore(opened, turn, options.environment, location)
    if (!isMemory) turn.share(`${location}-turn`)
    return new SqliteEngine(opened, turn, offset, location, options)
  } catch (error) {
    connection?.close()
    throw classify(error, location)
  }
}

/** All reads see the same state, also while another process makes the store. */
function inSnapshot<Result>(connection: Connection, read: () => Result): Result {
  connection.run('begin')
  try {
    return read()
  } finally {
    connection.run('commit')
  }
}

async function prepareStore(
  connection: Connection,
  turn: Turn,
  environment: Environment,
  location: string,
): Promise<number> {
  return turn.take(() => {
    connection.run('begin immediate')
    try {
      if (!isCurrent(connection, location)) migrate(connection)
      assertUsableStore(connection, location)
      const offset = bootOffset(connection, environment)
      connection.run('commit')
      return offset
    } catch (error) {
      if (connection.isTransaction) connection.run('rollback')
      throw error
    }
  })
}

export class SqliteEngine implements Engine {
  readonly status: StoreStatus
  readonly #connection: Connection
  readonly #turn: Turn
  readonly #options: EngineOptions
  readonly #environment: Environment
  readonly #offset: number
  readonly #location: string
  readonly #wake: Wake
  readonly #memory = new Memory()
  readonly #rehearsed = new Set<string>()
  #waiting: Waiting[] = []
  #flushing: Promise<void> | null = null
  #closed = false

  constructor(connection: Connection, turn: Turn, offset: number, location: string, options: EngineOptions) {
    this.#connection = connection
    this.#turn = turn
    this.#offset = offset
    this.#location = location
    this.#options = options
    this.#environment = options.environment
    this.#wake = new Wake(location === ':memory:' ? null : `${location}-wake`, options.environment)
    this.status = {
      engine: 'sqlite',
      location,
      durability: options.durability,
      schemaVersion: schemaVersion(),
      engineVersion: driver().sqliteVersion,
    }
  }

  #leaseNow(): number {
    return Math.floor(this.#environment.monotonic()) + this.#offset
  }

  onWake(listener: () => void): () => void {
    return this.#wake.listen(listener)
  }

  onCommit(listener: () => void): () => void {
    return this.#wake.listenToCommits(listener)
  }

  async execute(command: Command): Promise<unknown> {
    if (this.#closed) throw closedError(this.#location)
    const prepared = prepare(command)
    if (prepared.operation.effect === 'read') return this.#read(prepared)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ prepared, resolve, reject })
      // One turn later: everything else that asks in this turn joins the same transaction.
      this.#flushing ??= new Promise<void>((done) => setImmediate(() => this.#flushAll().finally(done)))
    })
  }

  #read(prepared: Prepared): unknown {
    const connection = this.#connection
    try {
      connection.run('begin')
      try {
        return this.#decide(prepared, this.#source(prepared.command.namespace, new Known())).result
      } finally {
        connection.run('commit')
      }
    } catch (error) {
      throw classify(error, this.#location)
    }
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, batchMax)
      try {
        await this.#flush(batch)
      } catch (error) {
        for (const { reject } of batch) reject(classify(error, this.#location))
      }
      // Answers are read, and the next commands asked, before the next batch is closed.
      if (this.#waiting.length === 0) await new Promise((done) => setImmediate(done))
    }
    this.#turn.rest()
    this.#flushing = null
  }

  async #flush(batch: Waiting[]): Promise<void> {
    for (const { prepared } of batch) this.#rehearse(prepared)
    if (await this.#turn.take(() => this.#transact(batch))) return
    // Some SQL failed and the batch was rolled back: one by one, so that only the guilty command fails.
    for (const each of batch) {
      try {
        await this.#turn.take(() => this.#transact([each], { alone: true }))
      } catch (error) {
        each.reject(classify(error, this.#location))
      }
    }
  }

  /** False: rolled back without any answer given. Throws only what concerns the store as a whole (busy). */
  #transact(batch: Waiting[], { alone } = { alone: false }): boolean {
    const outcomes: Outcome[] = []
    let wakes = false
    try {
      this.#begin()
      if (!alone) this.#healBeforeClaims(batch)
      const started = this.#environment.monotonic()
      this.#environment.reached?.('transaction.begun')
      for (const { prepared } of batch) {
        const outcome = this.#runOne(prepared)
        outcomes.push(outcome)
        if ('decision' in outcome) wakes ||= outcome.decision.wakes === true
        if (this.#environment.monotonic() - started > batchMs) break
      }
      this.#environment.reached?.('transaction.applied')
      this.#connection.run('commit')
    } catch (error) {
      this.#rollBack()
      if (alone || isBusy(error)) throw error
      return false
    }
    this.#environment.reached?.('transaction.committed')
    this.#waiting.unshift(...batch.slice(outcomes.length))
    outcomes.forEach((outcome, index) => {
      const { resolve, reject } = batch[index] as Waiting
      if ('error' in outcome) reject(outcome.error)
      else resolve(outcome.result)
    })
    this.#wake.committed()
    if (wakes) this.#wake.ring()
    return true
  }

  /**
   * The first time a command takes ten times as long as later: its code is compiled, its statements are prepared.
   * As much of that as can be done without the right to write is done before others are kept waiting.
   */
  #rehearse(prepared: Prepared): void {
    const { operation, command } = prepared
    if (this.#rehearsed.has(operation.name)) return
    this.#rehearsed.add(operation.name)
    try {
      inSnapshot(this.#connection, () => {
        const source = this.#source(command.namespace, new Known())
        if (operation.claims) lookAhead(source)
        this.#decide(prepared, source)
      })
    } catch {
      // Whatever it is, the command itself will meet it and say so.
    }
  }

  /** A refusal by the rules touches nothing; an error of the store spoils the transaction. */
  #runOne(prepared: Prepared): Outcome & { decision?: Decision } {
    const { namespace } = prepared.command
    const source = this.#source(namespace, this.#memory.of(namespace))
    let decision: Decision
    try {
      decision = this.#decide(prepared, source)
    } catch (error) {
      if (isHoldfastError(error)) return { error }
      throw error
    }
    apply(source, decision)
    return { result: decision.result, decision }
  }

  #decide(prepared: Prepared, source: Source): Decision {
    const steps = decide(prepared, () => source)
    let step = steps.next()
    while (!step.done) step = steps.next(load(source, step.value))
    return step.value
  }

  #source(namespace: string, known: Known): Source {
    return {
      connection: this.#connection,
      namespace,
      now: this.#leaseNow(),
      wall: this.#environment.now(),
      known,
    }
  }

  /** Takes the right to write, and finds out whether others have written since, or carried the store away. */
  #begin(): void {
    this.#connection.run('begin immediate')
    if (this.#memory.refresh(this.#connection)) assertUsableStore(this.#connection, this.#location)
  }

  /**
   * Called with a transaction begun and nothing done in it. Healing has a transaction of its own: its failure is
   * reported and never keeps a claim from going on.
   */
  #healBeforeClaims(batch: Waiting[]): void {
    const claim = batch.find(({ prepared }) => prepared.operation.claims)
    if (!claim) return
    const { namespace, caller } = claim.prepared.command
    const started = this.#environment.monotonic()
    try {
      const { stale, due } = lookAhead(this.#source(namespace, this.#memory.of(namespace)))
      // With healing before claims turned off, delays still end on time.
      const promoteOnly = !this.#options.recoverOnClaim
      if (!due && (promoteOnly || !stale)) return
      this.#rollBack()
      this.#environment.reached?.('recovery.begun')
      const input = { trigger: 'claim', promoteOnly }
      const chance = chanceFor('recovery.run', input, this.#environment)
      const command: Command = { operation: 'recovery.run', input, namespace, caller, chance }
      const report = this.#transactNow(prepare(command)) as RecoveryReport
      this.#options.onRecovered(report, 'claim', this.#environment.monotonic() - started)
    } catch (error) {
      if (isBusy(error)) throw error
      this.#options.onRecoveryFailed(classify(error, this.#location), 'claim')
    }
    if (!this.#connection.isTransaction) this.#begin()
  }

  #transactNow(prepared: Prepared): unknown {
    this.#begin()
    try {
      const outcome = this.#runOne(prepared)
      if ('error' in outcome) throw outcome.error
      this.#connection.run('commit')
      this.#wake.committed()
      if (outcome.decision?.wakes) this.#wake.ring()
      return outcome.result
    } catch (error) {
      this.#rollBack()
      throw error
    }
  }

  #rollBack(): void {
    this.#memory.forget()
    if (this.#connection.isTransaction) this.#connection.run('rollback')
  }

  /** Moves what is committed from the log to the main file once enough has gathered; called off the main thread. */
  checkpoint(): void {
    try {
      const [, logged, moved] = this.#connection.get('pragma wal_checkpoint(noop)') as number[]
      if (Number(logged) - Number(moved) >= checkpointPages)
        this.#connection.get('pragma wal_checkpoint(passive)')
    } catch (error) {
      if (!isBusy(error)) throw classify(error, this.#location)
    }
  }

  /** Answers what is waiting, then closes; a second call does nothing. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    while (this.#flushing !== null) await this.#flushing
    this.#turn.close()
    this.#wake.close()
    this.#connection.emptyLog()
    this.#connection.close()
  }
}
