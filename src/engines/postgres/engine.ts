/**
 * The PostgreSQL engine: group commit over two connections. One lane runs the batches of writes; the other answers
 * reads and listens for the bells that others ring. Leases are renewed on the second, or on whichever is free first
 * while it is busy.
 *
 * More than 300 lines, because it ties together what a store on a server has: two lanes, the clock, the branch and the
 * bells.
 */
import { type Environment, settlesWithin } from '../../environment.ts'
import { closedError, isHoldfastError } from '../../errors.ts'
import { type Prepared, prepare } from '../../operations/decide.ts'
import { entropyFor } from '../../operations/table.ts'
import type { Command } from '../../port/command.ts'
import type { Engine, EngineOptions, StoreStatus } from '../../port/engine.ts'
import { Cascades } from '../cascade.ts'
import { type Address, parseAddress } from './address.ts'
import { readServer, type ServerNews, serverQuery } from './around.ts'
import { Bells } from './bells.ts'
import { Branches } from './branches.ts'
import { classify, openAgain, unavailable } from './classify.ts'
import { movedOffset, ServerClock } from './clock.ts'
import { ClockMark } from './clock-mark.ts'
import type { Connection } from './connection.ts'
import { Lane, type LaneLoss, type LaneOptions } from './lane.ts'
import { LineStarts } from './line-starts.ts'
import { Listener } from './listener.ts'
import { assertUsableStore, settleManualGrace } from './marks.ts'
import { migrate, type Run, schemaVersion } from './migrate.ts'
import { type Query, queryOf, type Row } from './plan.ts'
import {
  findPrimary,
  type Met,
  type Search,
  type ServerFacts,
  searchPrimary,
  Undecided,
  type Wanted,
} from './servers.ts'
import { begin, commit, rollback, type SessionOptions } from './settings.ts'
import { notingStandbys, type Standbys, standbysAfter, standbysFrom } from './standbys.ts'
import { enterBranch, lookAtBranch, type MarkedBranch } from './timeline.ts'
import { isRead, type Waiting, waitingFor } from './waiting-line.ts'

/** How old our knowledge of the server may get while the store is in use. */
const readServerEveryMs = 1_000

/** How often all hosts are checked while the connection to one of them holds. */
const lookAroundEveryMs = 60_000

export async function openPostgres(url: string, options: EngineOptions): Promise<PostgresEngine> {
  const address = parseAddress(url)
  const connections: Connection[] = []
  try {
    const wanted = wantedFrom(null, options)
    const [first, second] = await bothOf([findPrimary(address, wanted), findPrimary(address, wanted)])
    connections.push(first.connection, second.connection)
    const { connection, facts } = first
    const { manualGraceMs, branch } = await prepareStore(first, address, options)
    if ([second.facts, branch].some(({ server }) => server !== facts.server))
      throw unavailable(address.shown, new Error('its hosts are switching roles right now'), openAgain)
    const offset = options.environment.isLocal
      ? await movedOffset(options.environment, (query) => connection.send(query))
      : null
    const engine = new PostgresEngine(
      address,
      facts,
      { offset, manualGraceMs, branch },
      connections as [Connection, Connection],
      options,
    )
    await engine.begin()
    return engine
  } catch (error) {
    for (const connection of connections) connection.destroy(new Error('the store was not opened'))
    throw typedAtOpen(error, address)
  }
}

/** Returns both or neither: if one fails, the other's connection is closed again. */
async function bothOf(meetings: [Promise<Met>, Promise<Met>]): Promise<[Met, Met]> {
  const settled = await Promise.allSettled(meetings)
  const failed = settled.find((each) => each.status === 'rejected')
  if (!failed) return Promise.all(meetings)
  for (const each of settled) if (each.status === 'fulfilled') each.value.connection.destroy(failed.reason)
  throw failed.reason
}

/**
 * Two openers may race; the second finds the store already made. Whatever can be sent together is, because the server
 * may be in another region and a command waits for all of this before it begins.
 */
async function prepareStore(
  { connection, facts }: Met,
  address: Address,
  { mustExist, manualGraceMs, environment }: EngineOptions,
): Promise<{ manualGraceMs: number; branch: MarkedBranch }> {
  const run = runOn(connection)
  try {
    await Promise.all([run(begin), migrate(run, address, { wasThere: facts.mark !== null, mustExist })])
    const [grace, look] = await Promise.all([
      settleManualGrace(run, manualGraceMs),
      lookAtBranch(run, null),
      assertUsableStore(run, address.shown),
    ])
    const branch = await enterBranch(run, look, markFrom(environment))
    await run(commit)
    return { manualGraceMs: grace, branch }
  } catch (error) {
    await run(rollback)
    throw error
  }
}

function runOn(connection: Connection): Run {
  return (query, values) => connection.send(queryOf(query, values))
}

function markFrom({ id, host }: Environment): { mark: string; by: string } {
  return { mark: id(), by: host.identity.hostName }
}

function sessionOf({ busyTimeoutMs, durability }: EngineOptions): SessionOptions {
  return { lockTimeoutMs: busyTimeoutMs, durability }
}

function wantedFrom(branches: Wanted['branches'], options: EngineOptions): Wanted {
  return { branches, environment: options.environment, ...sessionOf(options) }
}

function typedAtOpen(error: unknown, { shown }: Address): unknown {
  const typed = classify(error, shown, openAgain)
  return isHoldfastError(typed) ? typed : unavailable(shown, error, openAgain)
}

function kindOf(prepared: Prepared): Waiting['kind'] {
  if (prepared.operation.isUrgent) return 'renewal'
  return isRead(prepared) ? 'read' : 'write'
}

/** The mark of a branch was acknowledged too, to the process that wrote it. */
function lossOfBranch({ mark }: MarkedBranch, { marks }: MarkedBranch): LaneLoss | null {
  return marks.includes(mark) ? null : { acknowledged: null, found: null }
}

export class PostgresEngine implements Engine {
  readonly #address: Address
  readonly #options: EngineOptions
  readonly #environment: Environment
  readonly #clock: ServerClock
  /** Null where tests move time: they control that clock. */
  readonly #clockMark: ClockMark | null
  readonly #branches: Branches
  readonly #bells: Bells
  readonly #batches: Lane
  readonly #side: Lane
  readonly #renewals: Waiting[] = []
  readonly #cascades: Cascades
  readonly #movedOffset: number | null
  #listener: Listener | null = null
  #facts: ServerFacts
  #standbys: Standbys
  #serverReadAt: number
  #lastAsked: Pick<Command, 'namespace' | 'caller'> | null = null
  /** The server on which a loss was last found. */
  #lossToldOn: string | null = null
  /** How far readers in this process may have read the events: the transaction number plus the base. */
  #newestSeq = 0
  #status: StoreStatus | null = null
  #cancelLook: () => void = () => {}
  #closed = false

  constructor(
    address: Address,
    facts: ServerFacts,
    { offset, manualGraceMs, branch }: { offset: number | null; manualGraceMs: number; branch: MarkedBranch },
    [first, second]: [Connection, Connection],
    options: EngineOptions,
  ) {
    this.#address = address
    this.#facts = facts
    this.#standbys = { synchronousStandbys: facts.synchronousStandbys, formerStandbys: null }
    this.#serverReadAt = options.environment.monotonic()
    this.#movedOffset = offset
    this.#options = options
    this.#environment = options.environment
    this.#clock = new ServerClock(options.environment, (doubt) =>
      options.log('warn', 'clock.doubtful', doubt),
    )
    this.#clockMark = offset === null ? this.#makeClockMark(options) : null
    this.#branches = new Branches(branch, options)
    if (branch.isRecent) this.#clock.doubt(`the server has only just moved to timeline ${branch.timeline}`)
    const lineStarts = new LineStarts(options.environment)
    const shared: Omit<LaneOptions, 'connect' | 'staysConnected' | 'checksLapsed'> = {
      address,
      environment: options.environment,
      session: sessionOf(options),
      healing: options.healing,
      manualGraceMs,
      lineStarts,
      renewals: this.#renewals,
      onRenewalsLeft: () => this.#wakeLanes(),
      times: () => this.#times(),
      isDoubtful: () => this.#clock.isDoubtful,
      outage: () => this.#clock.outage,
      branch: () => this.#branches.used,
      onClock: ({ now }, askedAt) => {
        this.#branches.answered()
        this.#clock.note(now, askedAt)
      },
      isServerDue: () => this.#isServerDue(),
      onServer: (news) => {
        this.#noteServer(news)
        this.#sendInBackground(this.#clockMark?.marking(news.now, news.checked) ?? null)
      },
      onLost: () => this.#clock.missed(),
      onCommitted: (done) => this.#committed(done),
    }
    this.#batches = new Lane(first, {
      ...shared,
      checksLapsed: true,
      staysConnected: false,
      connect: (search) => this.#connect(search),
    })
    this.#side = new Lane(second, {
      ...shared,
      checksLapsed: false,
      staysConnected: true,
      connect: async (search) => {
        const connection = await this.#connect(search)
        this.#clockMark?.enter(connection)
        await this.#outside(this.#listenOn(connection))
        return connection
      },
    })
    this.#cascades = new Cascades({
      environment: options.environment,
      execute: (command) => this.#add(prepare(command)),
      onFailed: (error) => options.onCascadeFailed(error),
    })
    this.#bells = new Bells(options.environment, address, {
      // The last rings go out on the lane of the last commits.
      send: (query) => (this.#closed ? this.#batches : this.#side).sendBetweenBatches(query),
      // What others made ready may lie before the starts remembered here.
      onOthers: () => lineStarts.forget(),
    })
  }

  #wakeLanes(): void {
    for (const lane of [this.#batches, this.#side]) lane.wake()
  }

  #makeClockMark({ environment, hasCaretaker: beats }: EngineOptions): ClockMark {
    const { schema, isPooled } = this.#address
    return new ClockMark({ environment, clock: this.#clock, schema, isPooled, beats })
  }

  async begin(): Promise<void> {
    const { wakeUrl } = this.#address
    if (wakeUrl !== null) this.#listener = new Listener(this.#environment, () => this.#listenAt(wakeUrl))
    const { connection } = this.#side
    try {
      await Promise.all([
        this.#listenOn(connection),
        this.#batches.register(),
        this.#side.register(),
        connection.send(serverQuery).then(([row]) => this.#noteServer(readServer(row as Row))),
        this.#clockMark?.look(connection),
      ])
      this.#clockMark?.enter(connection)
      if (this.#options.recoverOnOpen) await this.#clockMark?.wait(connection)
      this.#lookAround()
    } catch (error) {
      // Otherwise the lanes would go on replacing lost connections forever.
      await this.close()
      throw error
    }
  }

  /** The same object until the server or its standbys change. */
  get status(): StoreStatus {
    this.#status ??= this.#statusOf(this.#facts)
    return this.#status
  }

  #statusOf(facts: ServerFacts): StoreStatus {
    const { version, timeline, fsync, synchronousCommit } = facts
    return {
      engine: 'postgres',
      location: this.#address.shown,
      // A lower setting of the connection was raised.
      durability: fsync ? this.#options.durability : 'normal',
      schemaVersion: schemaVersion(),
      engineVersion: version,
      server: { timeline, fsync, synchronousCommit, ...this.#standbys },
    }
  }

  /** The mark is random and in the store. A copy of the whole server has it too, but was started at another time. */
  get storeId(): string {
    return `${this.#branches.used.mark} on ${this.#facts.server}`
  }

  get doubts(): number {
    return this.#clock.doubts
  }

  onRing(bell: number, listener: () => void): () => void {
    return this.#bells.listen(bell, listener)
  }

  get hearsRings(): boolean {
    return this.#bells.areHeard
  }

  async execute(command: Command): Promise<unknown> {
    if (this.#closed) throw closedError(this.#address.shown)
    const prepared = prepare(command)
    const { namespace, caller } = command
    this.#lastAsked = { namespace, caller }
    if (this.#clockMark?.isLookDue)
      this.#clockMark.lookAgain((query, read) => this.#side.sendBetweenBatches(query, read))
    return this.#add(prepared)
  }

  #add(prepared: Prepared): Promise<unknown> {
    const { command } = prepared
    return new Promise((resolve, reject) => {
      const askedAt = this.#environment.monotonic()
      const deadline = askedAt + (command.patienceMs ?? this.#options.patienceMs)
      const kind = kindOf(prepared)
      const waiting = waitingFor({ prepared, kind, resolve, reject, askedAt, deadline })
      const lane = kind === 'write' ? this.#batches : this.#side
      lane.add(waiting)
      // A read may keep the lane busy for any length of time.
      if (kind === 'renewal' && lane.isBusy) this.#batches.wake()
    })
  }

  /** Records the reading as made, so a caller that gets true has to make it. Any batch can: it costs no round trip. */
  #isServerDue(): boolean {
    const now = this.#environment.monotonic()
    if (now - this.#serverReadAt < readServerEveryMs) return false
    this.#serverReadAt = now
    return true
  }

  #noteServer({ newestSeq, standbys }: ServerNews): void {
    this.#newestSeq = Math.max(this.#newestSeq, newestSeq)
    this.#noteStandbys(standbysFrom(standbys))
    this.#sendInBackground(notingStandbys(standbys))
  }

  #sendInBackground(query: Query | null): void {
    if (query !== null) this.#side.sendBetweenBatches(query)
  }

  #noteStandbys({ synchronousStandbys, formerStandbys }: Standbys): void {
    const known = this.#standbys
    if (known.synchronousStandbys === synchronousStandbys && known.formerStandbys === formerStandbys) return
    this.#standbys = { synchronousStandbys, formerStandbys }
    this.#renewStatus()
  }

  #renewStatus(): void {
    this.#status = null
    this.#options.onStatus?.()
  }

  #times(): { now: number; wall: number } | null {
    if (this.#movedOffset === null) return null
    const now = Math.floor(this.#environment.monotonic()) + this.#movedOffset
    return { now, wall: this.#environment.now() }
  }

  #committed({ rung, cascading }: Parameters<LaneOptions['onCommitted']>[0]): void {
    this.#bells.ring(rung)
    for (const command of cascading) this.#cascades.begin(command)
  }

  /**
   * Finds the primary again. On a new branch another server decides from now on, so its clock is not trusted at once.
   */
  async #connect(search: Search): Promise<Connection> {
    const branches = this.#branches
    const judged = { used: branches.used, judge: branches.meet.bind(branches) }
    const wanted = wantedFrom(judged, this.#options)
    const { connection, facts } = await searchPrimary(this.#address, wanted, search).catch((error) => {
      if (error instanceof Undecided) branches.refuseBoth()
      throw error
    })
    try {
      const { used } = branches
      await this.#outside(this.#follow(facts, connection))
      await this.#outside(this.#findLoss(connection, used))
      return connection
    } catch (error) {
      connection.destroy(error as Error)
      throw error
    }
  }

  #outside<Result>(work: Promise<Result>): Promise<Result> {
    return this.#environment.outside?.(work) ?? work
  }

  /**
   * A connection that holds says nothing about the other hosts. One of them may have been promoted while ours lives on,
   * and others may already use it: our changes would be thrown away.
   */
  #lookAround(): void {
    if (this.#address.hosts.length === 1) return
    const ms = lookAroundEveryMs * (0.75 + 0.5 * this.#environment.random())
    this.#cancelLook = this.#environment.timer(ms, () => {
      void this.#outside(this.#assertBest()).finally(() => {
        if (!this.#closed) this.#lookAround()
      })
    })
  }

  async #assertBest(): Promise<void> {
    try {
      const { connection, facts } = await findPrimary(
        this.#address,
        wantedFrom(this.#branches, this.#options),
      )
      connection.destroy(new Error('it was only looked at'))
      if (facts.server !== this.#facts.server) this.#leaveServer(`timeline ${facts.timeline} was found`)
    } catch (error) {
      // Any other failure means there is nothing better than what we have.
      if (error instanceof Undecided) this.#leaveServer(error.what)
    }
  }

  #leaveServer(why: string): void {
    if (this.#closed) return
    for (const lane of [this.#batches, this.#side]) lane.leaveServer(new Error(why))
  }

  /** The branch is marked before it counts: one whose mark could not be written will be found again. */
  async #follow(facts: ServerFacts, connection: Connection): Promise<void> {
    const { used } = this.#branches
    const branch = await this.#enter(facts, connection)
    // The other lane may have moved on to another branch meanwhile.
    if (this.#branches.judge(branch) === 'refused')
      throw new Error(`a branch of timeline ${this.#branches.used.timeline} was found meanwhile`)
    this.#facts = facts
    this.#standbys = standbysAfter(this.#standbys, facts.synchronousStandbys)
    this.#serverReadAt = Number.NEGATIVE_INFINITY
    this.#renewStatus()
    if (!this.#branches.use(branch)) return
    this.#clock.doubt(`the server is on timeline ${branch.timeline} after ${used.timeline}`)
    const moved = new Error(`another server is the primary now, on timeline ${branch.timeline}`)
    for (const lane of [this.#batches, this.#side]) lane.connection.destroy(moved)
  }

  /**
   * Reports what a server acknowledged and no longer has, once per server found. The doubt also makes leases
   * renew at once: one that the server no longer knows is lost.
   */
  async #findLoss(connection: Connection, before: MarkedBranch): Promise<void> {
    const { used } = this.#branches
    const losses = await Promise.all([this.#batches, this.#side].map((lane) => lane.findLoss(connection)))
    const loss = losses.find((each) => each !== null) ?? lossOfBranch(before, used)
    if (loss === null || this.#lossToldOn === used.server) return
    this.#lossToldOn = used.server
    const { durability, log } = this.#options
    const facts = { timeline: used.timeline, known: before.timeline, ...loss, durability }
    log(durability === 'full' ? 'error' : 'info', 'store.commits_lost', facts)
    // If the branch is another one, that is reason enough for doubt and has been reported.
    if (used.mark === before.mark) this.#clock.doubt('the server no longer has what it acknowledged')
    this.#record('store.noteCommitLoss', facts)
  }

  /** Recorded in the name of the last caller: a process that has asked for nothing had nothing acknowledged. */
  #record(operation: string, input: object): void {
    if (this.#lastAsked === null || this.#closed) return
    const { namespace, caller } = this.#lastAsked
    const entropy = entropyFor(operation, input, this.#environment)
    this.execute({ operation, input, namespace, caller, entropy }).catch((error: unknown) =>
      this.#options.log('warn', 'store.warning', { what: `${operation} failed: ${error}` }),
    )
  }

  async #enter(facts: ServerFacts, connection: Connection): Promise<MarkedBranch> {
    const { used } = this.#branches
    if (facts.mark === used.mark) return { ...facts, mark: used.mark, isRecent: false }
    const run = runOn(connection)
    const [, look] = await Promise.all([run(begin), lookAtBranch(run, this.#newestSeq)])
    const branch = await enterBranch(run, look, markFrom(this.#environment))
    if (branch.server !== facts.server) throw new Error('another server answered in its place')
    await run(commit)
    return branch
  }

  /** Nobody can listen behind a pooler: the URL names a direct one in `wake` for that, or polling alone has to do. */
  async #listenOn(connection: Connection): Promise<void> {
    if (!this.#address.isPooled) await this.#bells.listenOn(connection)
  }

  async #listenAt(url: string): Promise<Connection> {
    const { connection } = await findPrimary(parseAddress(url), wantedFrom(this.#branches, this.#options))
    await this.#bells.listenOn(connection)
    return connection
  }

  /** Answers what is waiting, then closes; a second call does nothing. */
  async close(withinMs?: number): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#listener?.close()
    this.#cancelLook()
    this.#bells.close()
    await Promise.all([this.#closeBatches(withinMs), this.#side.close(withinMs)])
  }

  /** Frees what waits for completed items first; what is not done in time is left to others. */
  async #closeBatches(withinMs: number | undefined): Promise<void> {
    const startedAt = this.#environment.monotonic()
    const { ended } = this.#cascades
    if (ended !== null && withinMs === undefined) await ended
    else if (ended !== null) await settlesWithin(this.#environment, withinMs as number, ended)
    this.#cascades.giveUp()
    const spentMs = this.#environment.monotonic() - startedAt
    await this.#batches.close(withinMs === undefined ? undefined : Math.max(0, withinMs - spentMs))
  }
}
