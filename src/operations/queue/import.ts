/** Imports items that another program left behind: once each, in the states they had. */
import * as z from 'zod'
import { arriveItem } from '../../domain/arrival.ts'
import { maxBlockers } from '../../domain/dependency.ts'
import type { Clocks, Item } from '../../domain/item.ts'
import { priorityDefault } from '../../domain/item-creation.ts'
import { assertSameWorkflow, type Queue } from '../../domain/queue.ts'
import type { Workflow } from '../../domain/workflow.ts'
import { InvalidError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, change, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import { newestEvents } from '../subject.ts'
import { ensureQueue } from './define.ts'

/** Items that one transaction imports. */
export const maxImportedItems = 100
/** How many of the other program's newest records about an item go into its first event. */
export const maxHistory = 100

const id = lazily(() => z.string().regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/))
const times = lazily(() => fields.whole(0, 1_000_000))

/** One item to import. Its id must be derived from the item itself, so that a second import recognizes it. */
export const itemEntry = lazily(() =>
  z.strictObject({
    id: id(),
    state: fields.name,
    key: fields.name.nullable().default(null),
    dedupeKey: fields.name.nullable().default(null),
    parent: id().nullable().default(null),
    blockers: z.array(id()).max(maxBlockers).default([]),
    priority: fields.priority.unwrap().default(priorityDefault),
    runAt: fields.wallTime.nullable().default(null),
    holder: fields.name.nullable().default(null),
    keptBack: fields.text(2000).nullable().default(null),
    attempts: times().default(0),
    failures: times().default(0),
    maxAttempts: fields.maxAttempts.default(3),
    submittedBy: fields.name.nullable().default(null),
    addedAt: fields.wallTime,
    startedAt: fields.wallTime.nullable().default(null),
    error: fields.failure.nullable().default(null),
    result: fields.asJsonText().optional(),
    payload: fields.asJsonText().optional(),
    data: fields.data.optional(),
    history: z.array(fields.json()).max(maxHistory).default([]),
  }),
)
export type ItemEntry = z.input<ReturnType<typeof itemEntry>>
type Entry = OutputOf<typeof itemEntry>

const output = view(() => ({
  imported: z.array(z.string()),
  known: z.array(z.string()),
  /** `waitsFor`: ids it waits for that were refused too. The import may be retried without them. */
  refused: z.array(z.object({ id: z.string(), why: z.string(), waitsFor: z.array(z.string()) })),
}))
export type ItemsImported = OutputOf<typeof output>

export const importItems = operation({
  name: 'queue.import',
  summary: 'Import items from another tool. Importing twice is a no-op.',
  effect: 'admin',
  class: 'client',
  input: () => ({
    queue: fields.queue,
    workflow: z.enum(['job', 'merge', 'task']),
    from: fields.name,
    entries: z.array(itemEntry()).max(maxImportedItems),
    dryRun: z.boolean().default(false),
  }),
  output,
  needs: ({ queue, entries }) => ({
    defined: { select: 'queue', name: queue },
    tokenFloor: { select: 'tokenFloor' },
    there: { select: 'itemsById', ids: [...new Set(entries.flatMap(mentioned))] },
    ...openNeeds(queue, entries),
  }),
  decide(rows, input, context): Step<ItemsImported> {
    const { queue, workflow, changes } = ensureQueue(rows.defined, input.queue, context, input.workflow)
    assertSameWorkflow(queue, input.workflow)
    const there = new Map(rows.there.map((item) => [item.id, item]))
    const unseen = input.entries.filter((entry) => !there.has(entry.id))
    // An item that was imported and then removed has left its events.
    const past = Object.fromEntries(unseen.map(({ id }) => [id, newestEvents({ subject: 'item', id }, 1)]))
    return ask(past, (events) => {
      const fresh = unseen.filter((entry) => (events[entry.id] ?? []).length === 0)
      const ground = { queue, workflow, there, open: openOnes(rows, fresh), tokenFloor: rows.tokenFloor }
      const { arrived, refused } = arriveAll(fresh, ground, context)
      const imported = arrived.map(({ item }) => item.id)
      const seen = new Set([...imported, ...refused.map((each) => each.id)])
      const known = input.entries.map((entry) => entry.id).filter((each) => !seen.has(each))
      const result = { imported, known, refused }
      if (input.dryRun || arrived.length === 0) return reply(result)
      const arrivals = arrived.map(({ item, history }) => {
        const detail = { from: input.from, ...(history.length > 0 ? { history } : {}) }
        return change('item', null, item, 'item.imported', context, detail)
      })
      return {
        changes: [...changes, ...arrivals],
        result,
      }
    })
  },
})

interface Ground {
  readonly queue: Queue
  readonly workflow: Workflow
  /** Existing items by id. */
  readonly there: ReadonlyMap<string, Item>
  /** Names of open items, each with the item's id. */
  readonly open: ReadonlyMap<string, string>
  readonly tokenFloor: number
}

/** In order: entries come after those they wait for. */
function arriveAll(entries: readonly Entry[], ground: Ground, at: Clocks) {
  const there = new Map(ground.there)
  const open = new Map(ground.open)
  const arrived: { item: Item; history: Entry['history'] }[] = []
  const refused: ItemsImported['refused'] = []
  const out = new Set<string>()
  const refuse = (id: string, why: string, waitsFor: string[] = []) => {
    refused.push({ id, why, waitsFor })
    out.add(id)
  }
  for (const entry of entries) {
    // Without what it waits for, it would run too early.
    const missing = mentioned(entry).filter((id) => id !== entry.id && out.has(id))
    if (missing.length > 0) {
      refuse(entry.id, 'what it waits for cannot be imported', missing)
      continue
    }
    const item = arriveOne(entry, { ...ground, there, open }, at)
    if (typeof item === 'string') {
      refuse(entry.id, item)
      continue
    }
    arrived.push({ item, history: entry.history })
    there.set(item.id, item)
    if (item.phase !== 'closed') for (const name of namesOf(item)) open.set(name, item.id)
  }
  return { arrived, refused }
}

/** The item, or the reason why it cannot be imported. */
function arriveOne(entry: Entry, ground: Ground, at: Clocks): Item | string {
  const { queue, workflow, there, open, tokenFloor } = ground
  if (there.has(entry.id)) return 'it is listed twice'
  const { parent, blockers, result, payload, data, history: _, ...rest } = entry
  const arriving = {
    ...rest,
    queue: queue.name,
    // What it waited for may have finished and been cleaned up since an earlier import.
    parent: parent === null ? null : (there.get(parent) ?? null),
    blockers: blockers.flatMap((each) => there.get(each) ?? []),
    result: result ?? null,
    payload: payload ?? 'null',
    data: (data ?? {}) as Item['data'],
    tokenFloor,
  }
  try {
    const item = arriveItem(arriving, workflow, at)
    return takenBy(item, open) ?? item
  } catch (error) {
    if (error instanceof InvalidError) return error.what
    throw error
  }
}

function mentioned({ id: own, parent, blockers }: Pick<Entry, 'id' | 'parent' | 'blockers'>): string[] {
  return [own, ...blockers, ...(parent === null ? [] : [parent])]
}

type Names = Pick<Item, 'key' | 'dedupeKey'>

function namesOf({ key, dedupeKey }: Names): string[] {
  return [...(key === null ? [] : [`key ${key}`]), ...(dedupeKey === null ? [] : [`dedupe key ${dedupeKey}`])]
}

function openNeeds(queue: string, entries: readonly Names[]) {
  const keys = entries.flatMap(({ key }) => key ?? [])
  const dedupeKeys = entries.flatMap(({ dedupeKey }) => dedupeKey ?? [])
  return {
    ...Object.fromEntries(
      keys.map((key) => [`key ${key}`, { select: 'openItemByKey', queue, key } as const]),
    ),
    ...Object.fromEntries(
      dedupeKeys.map((dedupeKey) => [
        `dedupe key ${dedupeKey}`,
        { select: 'openItemByDedupeKey', queue, dedupeKey } as const,
      ]),
    ),
  }
}

/** The names of the entries that open items have, each with the item's id. */
function openOnes(rows: object, entries: readonly Names[]): Map<string, string> {
  const loaded = rows as Record<string, Item | null>
  return new Map(entries.flatMap(namesOf).flatMap((name) => (loaded[name] ? [[name, loaded[name].id]] : [])))
}

function takenBy(item: Item, open: ReadonlyMap<string, string>): string | null {
  if (item.phase === 'closed') return null
  const taken = namesOf(item).find((name) => open.has(name))
  return taken === undefined ? null : `the ${taken} belongs to another open item, ${open.get(taken)}`
}
