/**
 * A task: an item that people and agents read. Its text lives in the item's data and payload; lease, dependencies,
 * versions and recovery are the item's. The durable owner is the agent the task belongs to; the holder is the agent
 * working on it.
 */
import { type Clocks, heldError, type Item, illegalMove, setItemPriority } from './item.ts'
import { claimItemByName } from './item-claim.ts'
import { assertHolds } from './item-end.ts'
import { recordProgress } from './item-loss.ts'
import { offerItem, promoteItem } from './item-waiting.ts'
import type { Json } from './json.ts'
import { type Claimant, type Holder, hasLapsed, isSameHolder, type Judging, renew } from './lease.ts'
import { type ItemRules, type ReclaimedItem, recoverItem } from './recovery.ts'
import { stateOf, type Workflow } from './workflow.ts'

export { stateOfStatus, statusOf, type TaskStatus, taskQueue, taskStatuses } from './task-status.ts'

export const taskLeaseMs = 30 * 60 * 1000
/** Older notes remain in the events. */
const maxNotes = 50

export type Note = { readonly at: number; readonly by: string; readonly text: string }

/** The fields of a task beyond those of every item. */
export interface TaskWords {
  readonly title: string
  readonly body: string
  readonly labels: readonly string[]
  /** Files and folders it touches; used for the hints. */
  readonly paths: readonly string[]
  /** The agent it belongs to; kept when the lease ends. */
  readonly owner: string | null
  /** The machine it should run on, if any. */
  readonly host: string | null
  readonly metadata: Json
}

export interface TaskEdit
  extends Partial<{ readonly [Name in keyof TaskWords]: TaskWords[Name] | undefined }> {
  readonly priority?: number | undefined
  readonly progress?: Json | undefined
  readonly note?: string | undefined
}

/** Splits a task's fields for storage: what lists and filters read goes into `data`, long text into the payload. */
export function storeWords({ body, metadata, ...data }: TaskWords): { data: Item['data']; payload: string } {
  return { data: { ...data, notes: [] }, payload: JSON.stringify({ body, metadata }) }
}

/** An item that got into the queue some other way is shown as far as possible; its data may contain anything. */
export function readWords(item: {
  readonly id: string
  readonly data: Readonly<Record<string, unknown>>
  readonly payload: unknown
}): TaskWords & { readonly notes: readonly Note[] } {
  const { title, labels, paths, owner, host, notes } = item.data
  const content = item.payload as { body?: unknown; metadata?: Json } | null
  return {
    title: wordIn(title) ?? item.id,
    body: wordIn(content?.body) ?? '',
    labels: wordsIn(labels),
    paths: wordsIn(paths),
    owner: wordIn(owner),
    host: wordIn(host),
    notes: Array.isArray(notes) ? notes.filter(isNote) : [],
    metadata: content?.metadata ?? null,
  }
}

/** Anything but a string counts as absent. Filters follow the same rule, including those written in SQL. */
export function wordIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/** The same for a list: anything but an array counts as empty. */
export function wordsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}

function isNote(value: unknown): value is Note {
  const { at, by, text } = Object(value) as Partial<Record<keyof Note, unknown>>
  return typeof at === 'number' && typeof by === 'string' && typeof text === 'string'
}

function wordsOf(item: Item) {
  return readWords({ ...item, payload: JSON.parse(item.payload) })
}

/** Anyone may change a free task. Only the holder may change a held one, unless the caller uses force. */
export function assertMayEdit(
  item: Item,
  { agent, token, force }: Claimant & { force?: boolean | undefined },
  at: Judging,
): { late: boolean } {
  // The command line adds the token of a lease that may be lost by now, which must not stop an operator.
  if (token !== undefined && !force) return assertHolds(item, { agent, token }, at.now)
  if (item.phase !== 'held' || force || hasLapsed(item, at)) return { late: false }
  throw heldError(
    item,
    'give the token of your grant, wait until the lease ends, or use `force` with a `reason`',
  )
}

/** A task that someone is working on can be removed only by force. A lapsed task is held by nobody. */
export function assertMayRemove(item: Item, { force }: { force?: boolean | undefined }, at: Judging): void {
  if (item.phase !== 'held' || force || hasLapsed(item, at)) return
  throw heldError(item, 'let its holder release it, wait until the lease ends, or remove it with `force`')
}

/** The task with its fields changed, one version higher. Only a holder can report progress. */
export function editTask(item: Item, edit: TaskEdit, by: string, wall: number): Item {
  const { priority, progress, note, ...words } = edit
  if (progress !== undefined && !(item.phase === 'held' && item.agent === by)) {
    throw illegalMove(item, 'progress', 'claim it first: only a holder can record progress')
  }
  const before = wordsOf(item)
  const given = Object.fromEntries(Object.entries(words).filter(([, value]) => value !== undefined))
  const stored = storeWords({ ...before, ...given })
  const edited: Item = {
    ...item,
    data: {
      ...item.data,
      ...stored.data,
      notes: withNote(before.notes, note, by, wall),
    },
    payload: stored.payload,
    version: item.version + 1,
  }
  const ranked = priority === undefined ? edited : rank(edited, priority)
  return progress === undefined ? ranked : { ...recordProgress(ranked, progress), version: edited.version }
}

function rank(item: Item, priority: number): Item {
  return { ...(setItemPriority(item, priority) ?? item), version: item.version }
}

export function noteTask(item: Item, note: string | undefined, by: string, wall: number): Item {
  if (note === undefined) return item
  const notes = withNote(wordsOf(item).notes, note, by, wall)
  return { ...item, data: { ...item.data, notes } }
}

/** How long a handed-over task is reserved for the agent it was given to. */
export const offerMsDefault = 10 * 60 * 1000

/** Gives a task that was just released to a new owner; for a while, nobody else can claim it. */
export function handTo(
  item: Item,
  workflow: Workflow,
  { to, offerMs, wall }: { to: string | null; offerMs: number; wall: number },
): Item {
  const owned = setOwner(item, to)
  return to === null || offerMs === 0 ? owned : offerItem(owned, workflow, { to, untilWall: wall + offerMs })
}

export function setOwner(item: Item, owner: string | null): Item {
  return { ...item, data: { ...item.data, owner } }
}

function withNote(notes: readonly Note[], text: string | undefined, by: string, at: number): readonly Note[] {
  return text === undefined ? notes : [...notes, { at, by, text }].slice(-maxNotes)
}

export interface TaskRequest extends Holder {
  readonly leaseMs: number
  readonly token?: number | undefined
  /** Also allows taking a task out of review. */
  readonly fromReview: boolean
  /** Also allows taking a task that is offered to another agent; for operators. */
  readonly force?: boolean | undefined
}

export type TaskClaim =
  | {
      readonly outcome: 'claimed'
      /** Set if a lapsed holder had to be removed first. */
      readonly reclaimed: ReclaimedItem | null
      readonly before: Item
      readonly after: Item
      readonly renewed: boolean
    }
  | { readonly outcome: 'held'; readonly item: Item }
  /** Reserved for another agent for a while. */
  | { readonly outcome: 'offered'; readonly item: Item }
  | { readonly outcome: 'blocked'; readonly item: Item; readonly reclaimed: ReclaimedItem | null }
  | { readonly outcome: 'quarantined'; readonly item: Item; readonly reclaimed: ReclaimedItem | null }

/**
 * A claim by name. A free or lapsed task is granted, the caller's own is renewed under its token, and another agent's
 * is reported as held. A task that is blocked, offered or quarantined is also a normal outcome; claiming one in a state
 * that cannot be worked on is misuse and throws.
 */
export function claimTask(
  item: Item,
  rules: ItemRules & { workflow: Workflow },
  request: TaskRequest,
  at: Clocks & Pick<Judging, 'manualGraceMs' | 'isDoubtful'>,
): TaskClaim {
  if (item.phase === 'held' && isSameHolder(item, request)) {
    const after = renew(item, at.now, request.leaseMs)
    return { outcome: 'claimed', reclaimed: null, before: item, after, renewed: true }
  }
  const reclaimed = recoverItem(item, rules, new Map(), at)
  const free = reclaimed?.after ?? item
  if (free.phase === 'held') return { outcome: 'held', item: free }
  if (free.quarantinedAt !== null) return { outcome: 'quarantined', item: free, reclaimed }
  if (free.waitingFor.length > 0) return { outcome: 'blocked', item: free, reclaimed }
  const mayTake = isOfferFor(free, request, at.wall)
  if (free.runAt !== null && !mayTake) {
    if (free.offeredTo !== null) return { outcome: 'offered', item: free }
    return { outcome: 'blocked', item: free, reclaimed }
  }
  if (stateOf(rules.workflow, free.state).claimByNameTo !== undefined && !request.fromReview) {
    throw illegalMove(
      free,
      'in_progress',
      'it waits for a reviewer; claim it with `fromReview` to take it back',
    )
  }
  const open = mayTake ? { ...promoteItem(free, rules.workflow), version: free.version } : free
  const after = claimItemByName(open, rules.workflow, request, at)
  return { outcome: 'claimed', reclaimed, before: free, after, renewed: false }
}

/**
 * Whether the task has an offer that lets this caller take it: the offer is theirs, has run out, or is overridden by
 * force.
 */
function isOfferFor({ offeredTo, runAt }: Item, { agent, force }: TaskRequest, wall: number): boolean {
  if (offeredTo === null || runAt === null) return false
  return offeredTo === agent || force === true || runAt <= wall
}
