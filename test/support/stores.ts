/**
 * Stores for the conformance suite. A test body asks an engine for a store and never learns which engine it is;
 * what only one engine can do (damage a row, hold up writers) is behind `Damage`, with the same meaning in each.
 */
import { type Holdfast, type OpenOptions, open } from 'holdfast'
import { MovableEnvironment, SpareConnections, systemEnvironment } from 'holdfast/testing'
import { afterAll, describe, expect, inject, onTestFinished } from 'vitest'
import { checkAnswers } from './answers.ts'
import { postgresServer } from './postgres-site.ts'
import { createSqliteSite, unfitSqliteFiles } from './sqlite-site.ts'

/** Where a store is, and what can be done to it behind Holdfast's back. */
export interface Site {
  readonly url: string
  readonly damage: Damage
  /** The rows that events rebuild, by subject and id, with the names the rules use. */
  readTables(): Promise<Map<string, Record<string, unknown>>>
  /** The rows of a table as they lie there. */
  readRows(table: string): Promise<readonly Record<string, unknown>[]>
  /** How many rows each table has. */
  countRows(): Promise<Record<string, number>>
  /** Resolves when every event recorded so far can be read; some engines show them a moment later. */
  whenReadable(): Promise<void>
  remove(): Promise<void>
}

/** Undoes the damage. */
export type Undo = () => Promise<void>

export interface Damage {
  /** The item is held, but the row says neither since when, by whom nor until when. */
  forgetHolder(item: string): Promise<void>
  /** The item is held by an agent no instance knows. */
  giveToStranger(item: string): Promise<void>
  /** The item is in a state that its workflow does not have: "a state of old". */
  misplace(item: string): Promise<void>
  /** The item's row can be found but not understood. */
  garble(item: string): Promise<void>
  /** The processing lock names nobody and points to an item that is not there. */
  garbleLock(queue: string): Promise<void>
  /** The lock reserves paths, but which ones cannot be read. */
  garblePatterns(lock: string): Promise<void>
  /** The locks' rows are gone, those of the runs they were held for are not. */
  loseLocks(): Promise<void>
  /** The rows of all locks with this prefix can be found but not understood. */
  garbleLocks(prefix: string): Promise<void>
  /** The rows of all runs with this prefix can be found, but not where they are to continue. */
  garbleRuns(prefix: string): Promise<void>
  /** The message's row can be found, but this part of it not be understood. */
  garbleMessage(message: string, part: 'policy' | 'escalation' | 'content'): Promise<void>
  /** The row of the message is gone, those of its deliveries are not. */
  loseMessage(message: string): Promise<void>
  /** What a limit has let through cannot be understood. */
  garbleAllowance(name: string): Promise<void>
  /** Recording a recovery fails, everywhere or in one namespace, until the returned function is called. */
  failRecovery(namespace?: string): Promise<Undo>
  /** Every change of an item fails, until the returned function is called. */
  failItems(): Promise<Undo>
  /** Every change that writes an event fails, until the returned function is called; renewals write none. */
  failEvents(): Promise<Undo>
  /** Every change of a delivery fails, until the returned function is called. */
  failDeliveries(): Promise<Undo>
  /** The tables are there, but the store says that no migration has run. */
  forgetMigration(): Promise<void>
  /** A table of the schema is gone. */
  loseTable(): Promise<void>
  /** Nobody else can write, until the returned function is called. */
  holdUpWriters(): Promise<Undo>
  /** The definitions of all tables and indexes, as text. */
  describeSchema(): Promise<string>
}

/** Something at a store's address that cannot become a store. */
export interface UnfitPlace {
  readonly url: string
  /** The code it is refused with. */
  readonly code: string
  /** What the error must mention, so that a reader knows what to change. */
  readonly named: string
  /** Everything that lies there, to see that it was left as it was. */
  contents(): Promise<string>
  remove(): Promise<void>
}

export interface Store {
  readonly url: string
  /** The clock of every handle on this store; it stands still until a test moves it. */
  readonly env: MovableEnvironment
  readonly damage: Damage
  /** The rows that events rebuild, by subject and id, with the names the rules use. */
  readTables(): Promise<Map<string, Record<string, unknown>>>
  /** The rows of a table as they lie there. */
  readRows(table: string): Promise<readonly Record<string, unknown>[]>
  /** How many rows each table has. */
  countRows(): Promise<Record<string, number>>
  /** One more handle on the same store. Silent unless it is given a logger. */
  open(options?: OpenOptions): Promise<Holdfast>
}

export interface Opened {
  readonly hf: Holdfast
  readonly env: MovableEnvironment
  readonly store: Store
}

export interface Engine {
  readonly name: string
  /** A fresh store with one handle on it; everything is closed and deleted after the test. */
  open(options?: OpenOptions): Promise<Opened>
  /** A fresh store whose handles use real time: for tests in which time does not matter. */
  openInRealTime(options?: OpenOptions): Promise<Opened>
  /** As `open` and `openInRealTime`, for several tests of a file: closed and deleted after its last. */
  openForAll(options?: OpenOptions): Promise<Opened>
  openInRealTimeForAll(options?: OpenOptions): Promise<Opened>
  /** An address at which no store exists yet. */
  prepare(): Promise<Store>
  /** What may be at an address instead of a store, by description; removed after the test. */
  readonly unfit: Readonly<Record<string, () => Promise<UnfitPlace>>>
}

interface Kind {
  createSite(): Promise<Site>
  createEmptySite(): Promise<Site>
  readonly unfit: Readonly<Record<string, () => Promise<UnfitPlace>>>
}

/** Runs the body on the engine of this project; there is a project for each (see scripts/engines.mjs). */
export function forEachEngine(body: (engine: Engine) => void): void {
  const name = process.env.HOLDFAST_TEST_ENGINES ?? 'sqlite'
  const kind = kindOf(name)
  describe(name, () => body(engineOf(name, kind)))
}

function kindOf(name: string): Kind {
  if (name === 'sqlite')
    return {
      createSite: createSqliteSite,
      createEmptySite: createSqliteSite,
      unfit: unfitSqliteFiles,
    }
  const urls = inject('postgresUrls')
  const worker = Number(process.env.VITEST_POOL_ID ?? 1)
  const url = urls[worker % urls.length]
  if (url === undefined) throw new Error(`no server was started for the engine ${name}`)
  const server = servers.get(url) ?? postgresServer(url, inject('schemaPrefix'))
  servers.set(url, server)
  return server
}

/** For all files that a worker runs: their stores lie in the same few schemas, and so their connections serve again. */
const servers = new Map<string, Kind>()
const spares = new SpareConnections()

function engineOf(name: string, { createSite, createEmptySite, unfit }: Kind): Engine {
  const openStore = async (
    options: OpenOptions,
    isReal: boolean,
    whenOver: (remove: () => Promise<void>) => void = onTestFinished,
  ): Promise<Opened> => {
    const { store, remove } = createStore(await createSite(), isReal)
    whenOver(remove)
    return { hf: await store.open(options), env: store.env, store }
  }
  const shared: (() => Promise<void>)[] = []
  const afterTheLast = (remove: () => Promise<void>) => void shared.push(remove)
  afterAll(async () => {
    for (const remove of shared.splice(0)) await remove()
  })
  return {
    name,
    open: (options = {}) => openStore(options, false),
    openInRealTime: (options = {}) => openStore(options, true),
    openForAll: (options = {}) => openStore(options, false, afterTheLast),
    openInRealTimeForAll: (options = {}) => openStore(options, true, afterTheLast),
    async prepare() {
      const { store, remove } = createStore(await createEmptySite(), false)
      onTestFinished(remove)
      return store
    },
    unfit: Object.fromEntries(
      Object.entries(unfit).map(([what, place]) => [what, async () => removedAfterwards(await place())]),
    ),
  }
}

/**
 * For tests in which minutes pass and nobody is killed: looks for dead processes every 10 s, and not four times a second.
 * In such a test these looks would be most of what the store has to do.
 */
export const rareProbes = { recovery: { probeEveryMs: 10_000 } } as const satisfies OpenOptions

/** Each engine has its own default, and a test does not learn on which it runs. */
const leaseMs = 30_000

const siteOf = new WeakMap<Holdfast, Site>()

/** Resolves when every event recorded so far can be read through this handle. */
export async function whenReadable(hf: Holdfast): Promise<void> {
  await siteOf.get(hf)?.whenReadable()
}

function removedAfterwards(place: UnfitPlace): UnfitPlace {
  onTestFinished(() => place.remove())
  return place
}

function createStore(site: Site, isReal: boolean): { store: Store; remove: () => Promise<void> } {
  const { answered, faults } = checkAnswers()
  const env = new MovableEnvironment({ spares, answered })
  const handles: Holdfast[] = []
  const store: Store = {
    url: site.url,
    env,
    get damage() {
      return damageInMovedTime(site.damage, env)
    },
    readTables: () => site.readTables(),
    readRows: (table) => site.readRows(table),
    countRows: () => site.countRows(),
    async open(options = {}) {
      const environment = isReal ? { ...systemEnvironment, answered } : env
      const handle = await open(site.url, { environment, logger: false, leaseMs, ...options })
      handles.push(handle)
      siteOf.set(handle, site)
      return handle
    },
  }
  const remove = async () => {
    await closeAll(handles, env)
    await site.remove()
    expect([...faults], 'answers that are not what their operations declare').toEqual([])
  }
  return { store, remove }
}

/**
 * Time does not pass while a damage is being done, also where a test does it in a handler. And while writers are held
 * up, nobody waits long for them: they wait for the test.
 */
function damageInMovedTime(damage: Damage, env: MovableEnvironment): Damage {
  const moved = Object.fromEntries(
    Object.entries(damage).map(([name, act]) => [
      name,
      (...subject: string[]) => env.outside((act as (...subject: string[]) => Promise<unknown>)(...subject)),
    ]),
  ) as unknown as Damage
  return {
    ...moved,
    async holdUpWriters() {
      const letGo = await damage.holdUpWriters()
      const { patienceMs } = env
      env.patienceMs = heldUpPatienceMs
      return async () => {
        await letGo()
        env.patienceMs = patienceMs
      }
    },
  }
}

/** Long enough to reach the server and have to wait there. */
const heldUpPatienceMs = 100

/** A worker that is stopped waits for its handlers in the store's time, so that time must go on meanwhile. */
async function closeAll(handles: readonly Holdfast[], env: MovableEnvironment): Promise<void> {
  let isClosed = false
  // A test may have broken its store on purpose; then closing fails too, and says nothing new.
  const closing = Promise.allSettled(handles.map((handle) => handle.close())).then(() => {
    isClosed = true
  })
  // Most close as soon as their store has answered; a second more would be a second's work of all that runs beside it.
  await env.advance(0)
  for (let round = 0; round < 100 && !isClosed; round++) await env.advance(1000)
  await closing
}
