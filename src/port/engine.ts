/**
 * The port between rules and storage. A command names the rows it needs with selectors from a closed union. The engine
 * loads them, the rules decide, and the engine applies the changes with their events, guarded by version and token, in
 * one transaction. An engine decides nothing about a row it changes.
 */
import type { Environment } from '../environment.ts'
import type { Log } from '../logger.ts'
import type { Command } from './command.ts'
import type { HealingBeforeClaims } from './healing.ts'

export interface Executor {
  /** How often there was reason to doubt the lease clock, or what the store has kept; absent if there can be none. */
  readonly doubts?: number
  execute(command: Command): Promise<unknown>
  /**
   * Calls back when a commit of any process rings this bell (`bellNumber`). A hint, never the truth. Listening has
   * started when this returns, so a caller that checks the store afterwards misses nothing.
   */
  onRing(bell: number, listener: () => void): () => void
  /** Rings arrive here: one was heard recently. If not, waiters poll more often. Reading this triggers a test. */
  readonly hearsRings: boolean
  /**
   * Answers every waiting command, then closes. Commands that an unreachable store has not answered after `withinMs`
   * are abandoned.
   */
  close(withinMs?: number): Promise<void>
}

export interface EngineOptions {
  readonly environment: Environment
  /** Refuses to create the store. */
  readonly mustExist?: boolean | undefined
  readonly durability: 'full' | 'normal'
  readonly busyTimeoutMs: number
  /** The opener heals at once, so opening waits for a clock that nobody vouches for. */
  readonly recoverOnOpen: boolean
  /** How long a command waits for an unreachable store. */
  readonly patienceMs: number
  /** What runs before a batch with claims if something has lapsed or is due; null: nobody claims through this engine. */
  readonly healing: HealingBeforeClaims | null
  /** Saved in the store from now on; undefined: keep the store's value. */
  readonly manualGraceMs?: number | undefined
  /** Someone other than the engine calls `checkpoint`; otherwise the engine does so itself, between transactions. */
  readonly hasCaretaker: boolean
  /** How much may be read from a store file that may be a stranger's; lists end early. Undefined: whatever is asked. */
  readonly maxReadBytes?: number | undefined
  /** The store's file as another thread of this process found it; any other file is refused. */
  readonly file?: string | undefined
  /** What waited for a completed item could not be freed; recovery will do it. */
  readonly onCascadeFailed: (error: unknown) => void
  readonly log: Log
  /** Called when `status` has changed. */
  readonly onStatus?: () => void
}

/** Something that is wrong although the store can be used. */
export interface StoreWarning {
  /** The `doctor` check that shows it. */
  readonly check: string
  /** What is wrong. */
  readonly what: string
  /** What to do about it. */
  readonly remedy: string
  /** Someone may have wanted it this way: `doctor` shows it, but it is not logged at every start. */
  readonly isLasting?: true
}

/** The store behind a handle. */
export interface StoreStatus {
  /** What keeps the data. */
  readonly engine: 'sqlite' | 'postgres'
  /** The path, or the URL without its password. */
  readonly location: string
  /** Whether every acknowledged change is on disk. */
  readonly durability: 'full' | 'normal'
  /** Version of the tables. */
  readonly schemaVersion: number
  /** Version of SQLite or of the server. */
  readonly engineVersion: string
  /** This process may read the store but not write to it. */
  readonly isReadOnly?: true
  /** What is wrong although the store can be used; logged at open and shown by `doctor`. */
  readonly warnings?: readonly StoreWarning[]
  /** What a PostgreSQL server reported about itself. */
  readonly server?: {
    readonly timeline: number
    readonly fsync: boolean
    readonly synchronousCommit: string
    /** The standbys that commits wait for, as currently set on the server; empty: none. */
    readonly synchronousStandbys: string
    /** The last list that was set, if none is set now: acknowledged changes then rest on one server. */
    readonly formerStandbys: string | null
  }
}

export interface Engine extends Executor {
  readonly status: StoreStatus
}
