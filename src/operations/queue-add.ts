/** Putting work in: add, addMany, submit. */
import * as z from 'zod'
import { blockersMax, dependentsMax } from '../domain/dependency.ts'
import { createItem, describeItem, type Item, type NewItem, priorityDefault } from '../domain/item.ts'
import { assertHeadSha, isPastCancelling, withHead } from '../domain/merge.ts'
import type { Change, Context, Selector } from '../engines/engine.ts'
import { DuplicateError, HeldError, InvalidError, NotFoundError } from '../errors.ts'
import { lazily } from '../lazily.ts'
import * as fields from './fields.ts'
import { ask, type OutputOf, operation, type Step } from './operation.ts'
import { ensureQueue } from './queue-define.ts'
import { concernsClaimers, itemChange } from './subject.ts'
import { itemView, viewItem } from './view.ts'

/** Positions are counted up to here; further back, "more than 1,000 ahead" is all anybody needs. */
const lineMax = 1000

const newItem = lazily(() => ({
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
    .max(blockersMax)
    .optional()
    .describe('Ids of items that must close well first.'),
  runAt: fields.wallTime.nullable().optional().describe('Not before this time, ms since 1970.'),
  attemptsMax: z
    .int()
    .min(1)
    .max(1000)
    .optional()
    .describe("Handled failures before it fails for good; default is the queue's."),
  data: fields.data.optional(),
}))
const newItemSchema = lazily(() => z.strictObject(newItem()))
type NewItemInput = OutputOf<typeof newItemSchema>

/** What the parent and blockers are found by. */
function dependencyNeeds(queue: string, input: Pick<NewItemInput, 'parent' | 'blockers'>) {
  return {
    parent: input.parent == null ? null : ({ select: 'item', queue, ref: input.parent } as const),
    blockers: input.blockers?.length ? ({ select: 'itemsById', ids: input.blockers } as const) : null,
  }
}

function toNewItem(
  input: NewItemInput,
  options: {
    id: string
    queue: string
    attemptsMax: number
    parent: Item | null
    blockers: readonly Item[] | null
    context: Context
  },
): NewItem {
  if (input.parent != null && !options.parent) {
    throw new NotFoundError({
      what: `the parent "${input.parent}" does not exist in queue ${options.queue}`,
      next: 'add the parent first',
      facts: { parent: input.parent },
    })
  }
  const missing = input.blockers?.find((id) => !options.blockers?.some((item) => item.id === id))
  if (missing !== undefined) {
    throw new NotFoundError({
      what: `the blocker "${missing}" does not exist`,
      next: 'add what it depends on first',
      facts: { blocker: missing },
    })
  }
  return {
    ...input,
    id: options.id,
    queue: options.queue,
    parent: options.parent,
    blockers: options.blockers ?? [],
    attemptsMax: input.attemptsMax ?? options.attemptsMax,
    submittedBy: options.context.agent,
    payload: input.payload ?? 'null',
    data: (input.data ?? {}) as Item['data'],
  }
}

function assertFree(
  existing: Item | null,
  field: 'key' | 'dedupeKey',
  value: string | null | undefined,
): void {
  if (!existing) return
  // Only a change of the merge workflow has a head that can move on.
  const next = existing.workflow === 'merge' ? 'use that item, or submit() its new head' : undefined
  throw new DuplicateError({ field, value: value as string, existing: existing.id }, next)
}

const line = (queue: string, priority: number | undefined): Selector & { select: 'line' } => ({
  select: 'line',
  queue,
  priority: priority ?? priorityDefault,
  addedAt: null,
  id: null,
  limit: lineMax,
})

/** Place of an item just added: behind everything ready of its priority or a lower number. */
function placeOf(item: Item, counts: { ahead: number; total: number }) {
  const joins = item.standing === 'ready' ? 1 : 0
  return {
    position: joins === 0 || counts.ahead >= lineMax ? null : counts.ahead + 1,
    totalPending: counts.total + joins,
  }
}

const place = lazily(() => ({
  position: z
    .number()
    .nullable()
    .describe('1-based place among what can be claimed; null when it waits or over 1,000 stand before it.'),
  totalPending: z.number().describe('Items ready to be claimed, counted up to 1,000.'),
}))

export const add = operation({
  name: 'queue.add',
  summary: 'Add an item to a queue.',
  effect: 'write',
  freshIds: () => 1,
  input: () => z.strictObject({ queue: fields.queue, ...newItem() }),
  output: () => z.object({ item: itemView(), ...place() }),
  needs: (input) => ({
    defined: { select: 'queue', name: input.queue } as const,
    sameKey:
      input.key == null ? null : ({ select: 'openItemByKey', queue: input.queue, key: input.key } as const),
    sameDedupeKey:
      input.dedupeKey == null
        ? null
        : ({ select: 'openItemByDedupeKey', queue: input.queue, dedupeKey: input.dedupeKey } as const),
    line: line(input.queue, input.priority),
    tokenFloor: input.key == null ? null : ({ select: 'tokenFloor' } as const),
    ...dependencyNeeds(input.queue, input),
  }),
  decide(rows, { queue: name, ...input }, context) {
    const { queue, workflow, changes } = ensureQueue(rows.defined, name, context)
    assertFree(rows.sameKey, 'key', input.key)
    assertFree(rows.sameDedupeKey, 'dedupeKey', input.dedupeKey)
    const draft = toNewItem(input, {
      id: context.ids[0] as string,
      queue: name,
      attemptsMax: queue.attemptsMax,
      parent: rows.parent,
      blockers: rows.blockers,
      context,
    })
    const item = createItem({ ...draft, tokenFloor: rows.tokenFloor ?? 0 }, workflow, context.wall)
    return {
      changes: [...changes, itemChange(null, item, 'item.created', context)],
      result: { item: viewItem(item, context.now), ...placeOf(item, rows.line) },
      wakes: concernsClaimers(item),
    }
  },
})

export const addMany = operation({
  name: 'queue.addMany',
  summary: 'Add up to 1,000 plain items at once, all or none.',
  effect: 'write',
  // Asked before the input is checked.
  freshIds: ({ items }) => (Array.isArray(items) ? items.length : 0),
  input: () =>
    z.strictObject({
      queue: fields.queue,
      items: z
        .array(newItemSchema().omit({ parent: true, blockers: true, key: true, dedupeKey: true }))
        .min(1)
        .max(fields.batchMax)
        .describe('The items, each with its payload.'),
    }),
  output: () => z.object({ ids: z.array(z.string()) }),
  needs: (input) => ({ defined: { select: 'queue', name: input.queue } as const }),
  decide({ defined }, input, context) {
    const { queue, workflow, changes } = ensureQueue(defined, input.queue, context)
    const items = input.items.map((each, index) => {
      const draft = toNewItem(each, {
        id: context.ids[index] as string,
        queue: queue.name,
        attemptsMax: queue.attemptsMax,
        parent: null,
        blockers: null,
        context,
      })
      return createItem(draft, workflow, context.wall)
    })
    return {
      changes: [...changes, ...items.map((item) => itemChange(null, item, 'item.created', context))],
      result: { ids: items.map((item) => item.id) },
      wakes: items.some(concernsClaimers),
    }
  },
})

const submitted = lazily(() =>
  z.object({ outcome: z.enum(['new', 'updated', 'resubmitted']), item: itemView(), ...place() }),
)
type Submitted = OutputOf<typeof submitted>

/**
 * Submit is an upsert by dedupe key with five cases: new; open and same key (only the head moves on); open under
 * another key (refused); closed and same key (starts over in place); closed under another key (a new item).
 */
export const submit = operation({
  name: 'queue.submit',
  summary: 'Add a change to the queue, update the open one, or start a finished one over.',
  effect: 'write',
  freshIds: () => 1,
  input: () =>
    z.strictObject({
      queue: fields.queue,
      ...newItem(),
      key: fields.name.describe('The workspace or branch.'),
      dedupeKey: fields.name.optional().describe('Default: "workspace:<key>", one open change a workspace.'),
      headSha: fields.text(128).describe('Commit or change to be merged.'),
      bead: fields.name.nullable().optional().describe('Issue it belongs to.'),
    }),
  output: submitted,
  needs: (input) => ({
    defined: { select: 'queue', name: input.queue } as const,
    sameKey: { select: 'openItemByKey', queue: input.queue, key: input.key } as const,
    sameDedupeKey: {
      select: 'lastItemByDedupeKey',
      queue: input.queue,
      dedupeKey: dedupeKeyOf(input),
    } as const,
    line: line(input.queue, input.priority),
    tokenFloor: { select: 'tokenFloor' } as const,
    ...dependencyNeeds(input.queue, input),
  }),
  decide(rows, input, context): Step<Submitted> {
    const { queue: name, headSha, bead, ...rest } = input
    assertHeadSha(headSha)
    const dedupeKey = dedupeKeyOf(input)
    const { queue, workflow, changes } = ensureQueue(rows.defined, name, context)
    const existing = rows.sameDedupeKey
    if (existing && existing.outcome === null) return update(existing)
    assertFree(rows.sameKey, 'key', input.key)
    const data = { ...input.data, headSha, ...(bead === undefined ? {} : { bead }) }
    const draft = toNewItem(
      { ...rest, dedupeKey, data },
      {
        id: context.ids[0] as string,
        queue: name,
        attemptsMax: queue.attemptsMax,
        parent: rows.parent,
        blockers: rows.blockers,
        context,
      },
    )
    return existing && existing.key === input.key ? startOver(existing) : start()

    function update(open: Item) {
      if (open.key !== input.key)
        throw new DuplicateError({ field: 'dedupeKey', value: dedupeKey, existing: open.id })
      if (open.data.headSha === headSha) return answer('updated', open, [])
      if (isPastCancelling(open, workflow))
        throw new HeldError(
          {
            subject: describeItem(open),
            holder: open.agent ?? 'an unknown agent',
            expiresAt: open.expiresAt,
          },
          'submit again when this merge has ended',
        )
      const after = withHead(open, headSha)
      return answer('updated', after, [itemChange(open, after, 'item.updated', context)])
    }
    function start() {
      const item = createItem({ ...draft, tokenFloor: rows.tokenFloor }, workflow, context.wall)
      return answer('new', item, [itemChange(null, item, 'item.created', context)])
    }
    function startOver(closed: Item): Step<Submitted> {
      // Only an item that was there before can have others waiting for it.
      if (!draft.parent && draft.blockers?.length === 0) return startedOver(closed, [])
      const waiting = { select: 'transitiveDependents', id: closed.id, limit: dependentsMax } as const
      return ask({ waiting }, (more) => startedOver(closed, more.waiting))
    }
    function startedOver(closed: Item, dependents: readonly string[]) {
      const fresh = createItem({ ...draft, id: closed.id, dependents }, workflow, context.wall)
      // Token and version go on: a holder of the first life must not pass for one of the second.
      const after = {
        ...fresh,
        token: closed.token,
        version: closed.version + 1,
        previousState: closed.state,
      }
      return answer('resubmitted', after, [itemChange(closed, after, 'item.resubmitted', context)])
    }
    function answer(outcome: 'new' | 'updated' | 'resubmitted', item: Item, itemChanges: Change[]) {
      const before =
        outcome === 'updated' ? { position: null, totalPending: rows.line.total } : placeOf(item, rows.line)
      return {
        changes: [...changes, ...itemChanges],
        result: { outcome, item: viewItem(item, context.now), ...before },
        wakes: concernsClaimers(item),
      }
    }
  },
})

function dedupeKeyOf(input: { key: string; dedupeKey?: string | undefined }): string {
  const dedupeKey = input.dedupeKey ?? `workspace:${input.key}`
  if (dedupeKey.includes(':')) return dedupeKey
  throw new InvalidError({
    what: `dedupe key "${dedupeKey}" has no ":"`,
    next: 'give it as "workspace:change"',
    facts: { dedupeKey },
  })
}
