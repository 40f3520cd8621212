/**
 * The words by which a ready task is found: one row per label, one for its owner, one for its host. An engine stores
 * them with the item, in the same transaction, so that a filtered claim reads an index instead of every ready task.
 * Only tasks have them, because nothing else is claimed with a filter; other queues write nothing extra.
 */
import type { Item } from './item.ts'
import { taskQueue, wordIn, wordsIn } from './task.ts'

export type WordField = 'label' | 'owner' | 'host'

export interface ReadyWord {
  readonly field: WordField
  readonly value: string
  readonly priority: number
  readonly addedAt: number
  readonly item: string
}

/** The ready tasks under one word, or under any of several mutually exclusive words. */
export interface WordList {
  readonly field: WordField
  readonly values: readonly string[]
}

/** What a filter says about words; null asks for tasks that have none. */
export interface WordFilter {
  /** Tasks that have all of these labels. */
  readonly labels?: readonly string[] | undefined
  readonly owner?: string | null | undefined
  /** Tasks of this owner, or of nobody. */
  readonly ownerOrNone?: string | undefined
  readonly host?: string | null | undefined
  /** Tasks for this machine, or for none; null: only those for none. */
  readonly hostOrNone?: string | null | undefined
}

/**
 * Names are shorter than this. A longer word is truncated and may match others with the same prefix; the filter itself
 * tells them apart.
 */
const maxWordLength = 300

/**
 * A word as it is stored: as JSON, so that no word (`null`) differs from every word, and so that PostgreSQL can store a
 * word that contains NUL. Truncated, because index entries have a maximum size and an item that got here some other way
 * may contain anything.
 */
export function wordValue(word: string | null): string {
  return JSON.stringify(word === null ? null : word.slice(0, maxWordLength))
}

/** Empty for anything but a ready task. */
export function readyWords(item: Item | null): readonly ReadyWord[] {
  if (item === null || item.queue !== taskQueue || item.phase !== 'ready') return none
  const { priority, addedAt, id, data } = item
  const values = new Set(wordsIn(data.labels).map(wordValue))
  const word = (field: WordField, value: string) => ({ field, value, priority, addedAt, item: id })
  return [
    ...[...values].map((value) => word('label', value)),
    word('owner', wordValue(wordIn(data.owner))),
    word('host', wordValue(wordIn(data.host))),
  ]
}

const none: readonly never[] = []

/** Which words to remove and which to add when an item changes. */
export function changedWords(
  before: Item | null,
  after: Item | null,
): { readonly gone: readonly ReadyWord[]; readonly fresh: readonly ReadyWord[] } {
  const [old, now] = [readyWords(before), readyWords(after)]
  return { gone: without(old, now), fresh: without(now, old) }
}

function without(words: readonly ReadyWord[], others: readonly ReadyWord[]): readonly ReadyWord[] {
  if (words.length === 0 || others.length === 0) return words
  const known = new Set(others.map(keyOf))
  return words.filter((word) => !known.has(keyOf(word)))
}

function keyOf({ field, value, priority, addedAt }: ReadyWord): string {
  return `${field} ${priority} ${addedAt} ${value}`
}

/**
 * Every list that a matching task is in. Lists that are usually short come first: few tasks have a given label, but
 * most have no host.
 */
export function listsOf({
  labels = [],
  owner,
  ownerOrNone,
  host,
  hostOrNone,
}: WordFilter): readonly WordList[] {
  const lists: WordList[] = [...new Set(labels)].map((label) => ({
    field: 'label',
    values: [wordValue(label)],
  }))
  if (owner !== undefined) lists.push({ field: 'owner', values: [wordValue(owner)] })
  if (host !== undefined) lists.push({ field: 'host', values: [wordValue(host)] })
  if (ownerOrNone !== undefined) lists.push({ field: 'owner', values: orNone(ownerOrNone) })
  if (hostOrNone !== undefined) lists.push({ field: 'host', values: orNone(hostOrNone) })
  return lists
}

/**
 * One list with two values instead of a scan of the line. Nearly every claim asks for tasks of its own machine or of
 * none, and two ordered reads of one row each, merged, cost about as much as reading the head of the line. Walking the
 * line would be as cheap only until many tasks that belong elsewhere are at its front.
 */
function orNone(word: string | null): readonly string[] {
  return [...new Set([wordValue(null), wordValue(word)])]
}
