/**
 * What it takes to load one selector on PostgreSQL. A batch makes the plans of all its commands first, sends their
 * queries in one pipelined round trip, and gives each plan its answers to read. No query depends on another's answer.
 */
import type { Item, LinePosition } from '../../domain/item.ts'
import type { Tables } from '../engine.ts'

export type Row = readonly unknown[]

/** Tables are written `holdfast.item`; the connection puts the store's own schema in their place. */
export interface Query {
  readonly text: string
  readonly values: readonly unknown[]
  /** The column that names the writers of the row that are younger than its reader, with spaces between. */
  readonly youngerAt?: number | undefined
}

/** Items named by id or by key: those of a whole batch are locked by one statement, in order of their ids. */
export interface ItemNames {
  readonly ids?: readonly string[]
  /** The open item of a key, and the newest closed one. */
  readonly keys?: readonly { readonly queue: string; readonly key: string }[]
  readonly dedupeKeys?: readonly { readonly queue: string; readonly dedupeKey: string }[]
}

/** Claims of one queue and filter: one statement takes enough for all of them, or two would get the same rows. */
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
  /** What is decided by name, a row or none: locked before anything is read. */
  readonly names?: readonly string[] | undefined
  /** What many read and few change: locked together with other readers. */
  readonly sharedNames?: readonly string[] | undefined
  readonly items?: ItemNames | undefined
  readonly line?: LineWant | undefined
  readonly queries: readonly Query[]
  /** Tables searched by a condition: what an earlier command of the batch changed there would be missed. */
  readonly searched?: readonly (keyof Tables)[] | undefined
  /** It looks for suspects, and at who holds one: what an earlier command of the batch did with one would be missed. */
  readonly seeksSuspects?: boolean | undefined
  /** Whether a moment later more could be told. */
  isPartial?(answers: readonly (readonly Row[])[]): boolean
  /** `items` are those the plan named that exist, or those of its line. */
  read(answers: readonly (readonly Row[])[], items: readonly Item[]): Result
}

export interface PlanScope {
  readonly namespace: string
  /** Rows are locked for a decision; false for reads, which lock nothing. */
  readonly locks: boolean
  /** Names that look like ids are looked for among the keys too. */
  readonly alsoSearchesKeys: boolean
  /** Nothing counts as lapsed. */
  readonly isDoubtful: boolean
  /** How long leases that nobody renews are spared after their end. */
  readonly manualGraceMs: number
}

/** No item has this id; it may be the key of one after all. */
export class NoSuchId extends Error {}
