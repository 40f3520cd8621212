/**
 * How to load one selector on PostgreSQL. A batch first makes the plans of all its commands, sends their queries in one
 * pipelined round trip, and gives each plan its answers to read. No query depends on another's answer.
 */
import type { Item, LinePosition } from '../../domain/item.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import type { Tables } from '../../port/tables.ts'

export type Row = readonly unknown[]

/** Tables are written `holdfast.item`; the connection substitutes the store's own schema. */
export interface Query {
  readonly text: string
  readonly values: readonly unknown[]
  /** The column that lists those writers of the row that are younger than its reader, separated by spaces. */
  readonly youngerAt?: number | undefined
  /** It locks the rows it finds, and this is what it does about those that others hold. */
  readonly hold?: 'wait' | 'skip' | 'fail' | undefined
  /** It begins or ends a transaction. */
  readonly bounds?: 'begin' | 'end'
  /** Several statements in one text, which only the simple protocol takes. Takes no values and returns no rows. */
  readonly isScript?: true
}

/** A text may be given alone where there are no values. */
export function queryOf(given: Query | string, values: readonly unknown[] = []): Query {
  return typeof given === 'string' ? { text: given, values } : given
}

export function scriptOf(text: string): Query {
  return { text, values: [], isScript: true }
}

/** Items named by id or by key. One statement locks those of a whole batch, in order of id. */
export interface ItemNames {
  readonly ids?: readonly string[]
  /** The open item of a key, and the newest closed one. */
  readonly keys?: readonly { readonly queue: string; readonly key: string }[]
  readonly dedupeKeys?: readonly { readonly queue: string; readonly dedupeKey: string }[]
}

/** Claims on one queue and filter. One statement takes enough for all of them; two would get the same rows. */
export interface LineWant {
  readonly queue: string
  /** Equal for wants that may share a statement. */
  readonly line: string
  readonly limit: number
  query(limit: number, from: LinePosition | null, avoidsDamaged: boolean): Query
  /** Whether an item that a command of the same batch made ready belongs to this line. */
  fits(item: Item): boolean
}

export interface Plan<Result = unknown> {
  /** What is decided by name, whether its row exists or not: locked before anything is read. */
  readonly names?: readonly string[] | undefined
  /** What many read and few change: locked shared with other readers. */
  readonly sharedNames?: readonly string[] | undefined
  readonly items?: ItemNames | undefined
  readonly line?: LineWant | undefined
  readonly queries: readonly Query[]
  /** Tables searched by a condition, which would miss what an earlier command of the batch changed there. */
  readonly searched?: readonly (keyof Tables)[] | undefined
  /** It looks for what waits for these, and would miss what an earlier command of the batch did with such an item. */
  readonly awaited?: readonly string[] | undefined
  /** It looks for suspects and their holders, and would miss what an earlier command of the batch did with one. */
  readonly seeksSuspects?: boolean | undefined
  /** Whether a read a moment later could return more. */
  isPartial?(answers: readonly (readonly Row[])[]): boolean
  /** `items` are the existing items that the plan named, or those of its line. */
  read(answers: readonly (readonly Row[])[], items: readonly Item[]): Result
  /**
   * What it would have read after these waiters joined their lines. Without it, the command waits for the next batch: a
   * thousand callers of one lock would take a thousand batches.
   */
  afterJoining?(result: Result, joined: readonly Waiter[]): Result
}

/** Finds nothing: while the clock is in doubt, nothing counts as lapsed. */
export const noneLapsed: Plan<never[]> = { queries: [], read: () => [] }

export interface PlanScope {
  readonly namespace: string
  /** Rows are locked for a decision; false for reads, which lock nothing. */
  readonly locks: boolean
  /** Names that look like ids are searched among the keys too. */
  readonly alsoSearchesKeys: boolean
  /** Nothing counts as lapsed. */
  readonly isDoubtful: boolean
  /** How long leases that nobody renews are spared after they end. */
  readonly manualGraceMs: number
}

/** No item has this id; it may be a key after all. */
export class NoSuchId extends Error {}
