/** Adding work: add, addMany. */
import * as z from 'zod'
import { maxBlockers } from '../../domain/dependency.ts'
import type { Item } from '../../domain/item.ts'
import { createItem, dueAt, type NewItem, priorityDefault } from '../../domain/item-creation.ts'
import { maxLine, positionOf } from '../../domain/queue-position.ts'
import { DuplicateError, NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Selector } from '../../port/selector.ts'
import * as fields from '../fields.ts'
import { change, need, type OutputOf, operation } from '../operation.ts'
import { itemView, viewItem } from '../view.ts'
import { ensureQueue } from './define.ts'

/** Ten years: anything longer is a mistake. */
const maxDelayMs = 10 * 365 * 24 * 60 * 60 * 1000

export const newItem = lazily(() => ({
  payload: fields.payload,
  priority: fields.priority,
  key: fields.name
    .nullable()
    .optional()
    .describe('Name of the thing worked on; unique while the item is open.'),
  dedupeKey: fields.name.nullable().optional().describe('A second add under the same open key is refused.'),
  parent: fields.ref.nullable().optional().describe('Id or key of the item this one is stacked on.'),
  blockers: z
    .array(fields.ref)
    .max(maxBlockers)
    .optional()
    .describe('Items that must succeed first: ids, or keys in this queue.'),
  runAt: fields.wallTime.nullable().optional().describe('Not before this time, ms since 1970.'),
  delayMs: fields
    .whole(0, maxDelayMs)
    .optional()
    .describe('How long to wait before it can be claimed, ms; instead of `runAt`.'),
  maxAttempts: fields.maxAttempts
    .optional()
    .describe(
      "Attempts in all, the first included: once this many have failed, it fails for good. Default is the queue's.",
    ),
  data: fields.data.optional(),
}))
const newItemSchema = lazily(() => z.strictObject(newItem()))
type NewItemInput = OutputOf<typeof newItemSchema>

type Declared = Pick<NewItemInput, 'parent' | 'blockers'>

/** Rows of the parent and blockers: an id may be in any queue, a key only in this one. */
export function dependencyNeeds(queue: string, { parent, blockers }: Declared) {
  const needs = need({
    parent: parent == null ? null : { select: 'item', queue, ref: parent, stacks: true },
    blockersById: blockers?.length ? { select: 'itemsById', ids: blockers } : null,
  })
  // A shortcut: most items wait for nothing, and this runs for every item.
  if (!blockers?.length) return needs
  const byKey = blockers.map((ref) => [`blocker ${ref}`, { select: 'item', queue, ref } as const] as const)
  return { ...Object.fromEntries(byKey), ...needs }
}

interface DependencyRows {
  readonly parent: Item | null
  readonly blockersById: readonly Item[] | null
}

/** The declared parent and blockers; undefined if the caller did not mention them. */
export function dependenciesIn(rows: DependencyRows, queue: string, declared: Declared) {
  if (declared.parent != null && !rows.parent) {
    throw new NotFoundError({
      what: `the parent "${declared.parent}" does not exist in queue ${queue}`,
      next: 'add the parent first',
      facts: { parent: declared.parent },
    })
  }
  const byKey = rows as unknown as Record<string, Item | null>
  const blockers = declared.blockers?.map((ref) => {
    const found = rows.blockersById?.find(({ id }) => id === ref) ?? byKey[`blocker ${ref}`]
    if (found) return found
    throw new NotFoundError({
      what: `the blocker "${ref}" does not exist`,
      next: 'add what it depends on first; in another queue it is known by its id only',
      facts: { blocker: ref },
    })
  })
  return { parent: declared.parent === undefined ? undefined : rows.parent, blockers }
}

export function toNewItem(
  input: Omit<NewItemInput, 'parent' | 'blockers'>,
  options: {
    id: string
    queue: string
    maxAttempts: number
    dependencies: Pick<NewItem, 'parent' | 'blockers'>
    tokenFloor?: number
    context: Context
  },
): NewItem {
  // Written out: a field added to a spread costs a hidden class per object, and this runs for every item.
  return {
    id: options.id,
    queue: options.queue,
    priority: input.priority,
    key: input.key,
    dedupeKey: input.dedupeKey,
    parent: options.dependencies.parent,
    blockers: options.dependencies.blockers,
    runAt: dueAt(input, options.context.wall),
    maxAttempts: input.maxAttempts ?? options.maxAttempts,
    submittedBy: options.context.agent,
    payload: input.payload ?? 'null',
    data: (input.data ?? {}) as Item['data'],
    tokenFloor: options.tokenFloor,
  }
}

/** The open items that have these names. */
export function sameNames(queue: string, { key, dedupeKey }: Pick<NewItemInput, 'key' | 'dedupeKey'>) {
  return need({
    sameKey: key == null ? null : { select: 'openItemByKey', queue, key },
    sameDedupeKey: dedupeKey == null ? null : { select: 'openItemByDedupeKey', queue, dedupeKey },
  })
}

/** Refuses a name that another open item has. `own`: the id of the item that is to have it. */
export function assertFree(
  existing: Item | null,
  field: 'key' | 'dedupeKey',
  value: string | null | undefined,
  own?: string,
): void {
  if (!existing || existing.id === own) return
  // Only a change in the merge workflow has a head that can move on.
  const next = existing.workflow === 'merge' ? 'use that item, or submit() its new head' : undefined
  throw new DuplicateError({ field, value: value as string, existing: existing.id }, next)
}

/** Position of a new item: behind everything ready with its priority or a lower number. */
export const lastPosition = (queue: string, priority: number | undefined): Selector & { select: 'line' } => ({
  select: 'line',
  queue,
  priority: priority ?? priorityDefault,
  addedAt: null,
  id: null,
  limit: maxLine,
})

export const position = lazily(() => ({
  position: z
    .number()
    .nullable()
    .describe('1-based position among items that can be claimed; null: see `reason`.'),
  totalPending: z.number().describe('Items ready to be claimed, counted up to 1,000.'),
  reason: z
    .string()
    .nullable()
    .describe('Why there is no position: held, delayed, waiting, or 1,000 ahead of it.'),
}))

export function declaredItems({
  parent,
  blockers = [],
}: Pick<NewItem, 'parent' | 'blockers'>): readonly Item[] {
  return parent ? [parent, ...blockers] : blockers
}

export const add = operation({
  name: 'queue.add',
  summary: 'Add an item to a queue.',
  effect: 'write',
  freshIds: () => 1,
  addsWork: true,
  input: () => ({ queue: fields.queue, ...newItem() }),
  output: () => z.object({ item: itemView(), ...position() }),
  needs: (input) => ({
    defined: { select: 'queue', name: input.queue },
    ...sameNames(input.queue, input),
    line: lastPosition(input.queue, input.priority),
    tokenFloor: input.key == null ? null : { select: 'tokenFloor' },
    ...dependencyNeeds(input.queue, input),
  }),
  decide(rows, { queue: name, ...input }, context) {
    const { queue, workflow, changes } = ensureQueue(rows.defined, name, context)
    assertFree(rows.sameKey, 'key', input.key)
    assertFree(rows.sameDedupeKey, 'dedupeKey', input.dedupeKey)
    const dependencies = dependenciesIn(rows, name, input)
    const draft = toNewItem(input, {
      id: context.ids[0] as string,
      queue: name,
      maxAttempts: queue.maxAttempts,
      dependencies,
      tokenFloor: rows.tokenFloor ?? 0,
      context,
    })
    const item = createItem(draft, workflow, context.wall)
    const blockers = declaredItems(dependencies)
    return {
      changes: [...changes, change('item', null, item, 'item.created', context)],
      result: {
        item: viewItem(item, context.now),
        ...positionOf(item, { line: rows.line, before: null, blockers, wall: context.wall }),
      },
    }
  },
})

export const addMany = operation({
  name: 'queue.addMany',
  summary: 'Add up to 1,000 items in one transaction, all or nothing.',
  effect: 'write',
  // Runs before the input is checked.
  freshIds: ({ items }) => (Array.isArray(items) ? items.length : 0),
  addsWork: true,
  input: () => ({
    queue: fields.queue,
    items: z
      .array(newItemSchema().omit({ parent: true, blockers: true, key: true, dedupeKey: true }))
      .min(1)
      .max(fields.maxBatch)
      .describe('The items, each with its payload.'),
  }),
  output: () => z.object({ ids: z.array(z.string()) }),
  needs: (input) => ({ defined: { select: 'queue', name: input.queue } }),
  decide({ defined }, input, context) {
    const { queue, workflow, changes } = ensureQueue(defined, input.queue, context)
    const items = input.items.map((each, index) => {
      const draft = toNewItem(each, {
        id: context.ids[index] as string,
        queue: queue.name,
        maxAttempts: queue.maxAttempts,
        dependencies: {},
        context,
      })
      return createItem(draft, workflow, context.wall)
    })
    return {
      changes: [...changes, ...items.map((item) => change('item', null, item, 'item.created', context))],
      result: { ids: items.map((item) => item.id) },
    }
  },
})
