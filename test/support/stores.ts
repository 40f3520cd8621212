/**
 * Stores for the conformance suite. A test body asks an engine for a store and never learns which engine it is;
 * what only one engine can do (damage a row, hold up writers) is behind `Damage`, with the same meaning in each.
 */
import { type Holdfast, type OpenOptions, open } from 'holdfast'
import { MovableEnvironment, systemEnvironment } from 'holdfast/testing'
import { describe, onTestFinished } from 'vitest'
import { createSqliteSite, unfitSqliteFiles } from './sqlite-site.ts'

/** Where a store lies, and what can be done to it behind Holdfast's back. */
export interface Site {
  readonly url: string
  readonly damage: Damage
  /** The rows that events rebuild, by subject and id, with the names the rules use. */
  readTables(): Map<string, Record<string, unknown>>
  remove(): void
}

export interface Damage {
  /** The item is held, but the row says neither since when, by whom nor until when. */
  forgetHolder(item: string): void
  /** The item is held by an agent no instance knows. */
  giveToStranger(item: string): void
  /** The item's row can be found but not understood. */
  garble(item: string): void
  /** The processing lock names nobody and points to an item that is not there. */
  garbleLock(queue: string): void
  /** The lock reserves paths, but nobody can read which. */
  garblePatterns(lock: string): void
  /** The message's row can be found, but this part of it not be understood. */
  garbleMessage(message: string, part: 'policy' | 'escalation' | 'content'): Promise<void>
  /** The row of the message is gone, those of its deliveries are not. */
  loseMessage(message: string): Promise<void>
  /** What a limit has let through cannot be understood. */
  garbleAllowance(name: string): Promise<void>
  /** Writing down a recovery fails, until the returned function is called. */
  failRecovery(): () => void
  /** Every change of an item fails, until the returned function is called. */
  failItems(): () => void
  /** Every change of a delivery fails, until the returned function is called. */
  failDeliveries(): () => void
  /** The tables are there, but the store says that no migration has run. */
  forgetMigration(): void
  /** A table of the schema is gone. */
  loseTable(): void
  /** Nobody else can write, until the returned function is called. */
  holdUpWriters(): () => void
  /** The definitions of all tables and indexes, as text. */
  describeSchema(): string
}

/** Something at a store's address that no store can be made of. */
export interface UnfitPlace {
  readonly url: string
  /** Everything that lies there, to see that it was left as it was. */
  contents(): string
  remove(): void
}

export interface Store {
  readonly url: string
  /** The time of every handle on this store; it stands still until a test moves it. */
  readonly env: MovableEnvironment
  readonly damage: Damage
  /** The rows that events rebuild, by subject and id, with the names the rules use. */
  readTables(): Map<string, Record<string, unknown>>
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
  /** A fresh store whose handles live in the real time: for tests in which time does not matter. */
  openInRealTime(options?: OpenOptions): Promise<Opened>
  /** What may lie at an address instead of a store, by description; removed after the test. */
  readonly unfit: Readonly<Record<string, () => UnfitPlace>>
}

const engines = { sqlite: { createSite: createSqliteSite, unfit: unfitSqliteFiles } }

/** Runs the same body once for every engine. */
export function forEachEngine(body: (engine: Engine) => void): void {
  for (const [name, { createSite, unfit }] of Object.entries(engines)) {
    const openStore = async (options: OpenOptions, isReal: boolean): Promise<Opened> => {
      const store = createStore(createSite(), isReal)
      return { hf: await store.open(options), env: store.env, store }
    }
    const engine: Engine = {
      name,
      open: (options = {}) => openStore(options, false),
      openInRealTime: (options = {}) => openStore(options, true),
      unfit: Object.fromEntries(
        Object.entries(unfit).map(([what, place]) => [what, () => removedAfterwards(place())]),
      ),
    }
    describe(name, () => body(engine))
  }
}

function removedAfterwards(place: UnfitPlace): UnfitPlace {
  onTestFinished(() => place.remove())
  return place
}

function createStore(site: Site, isReal: boolean): Store {
  const env = new MovableEnvironment()
  const handles: Holdfast[] = []
  onTestFinished(async () => {
    await closeAll(handles, env)
    site.remove()
  })
  return {
    url: site.url,
    env,
    damage: site.damage,
    readTables: () => site.readTables(),
    async open(options = {}) {
      const environment = isReal ? systemEnvironment : env
      const handle = await open(site.url, { environment, logger: false, ...options })
      handles.push(handle)
      return handle
    },
  }
}

/** A worker that is stopped waits for its handlers in the store's time, so that time must go on meanwhile. */
async function closeAll(handles: readonly Holdfast[], env: MovableEnvironment): Promise<void> {
  let isClosed = false
  // A test may have broken its store on purpose; then closing fails too, and says nothing new.
  const closing = Promise.allSettled(handles.map((handle) => handle.close())).then(() => {
    isClosed = true
  })
  for (let round = 0; round < 100 && !isClosed; round++) await env.advance(1000)
  await closing
}
