/**
 * Finding the next task that matches. If the filter has one list, its first row is the answer. If it has several, one
 * of them is walked and the others are probed. That may take long, so a claim looks only at the first rows. If there
 * are more, the claim is refused with the position it reached. The caller continues from there with reads
 * (`tasks.seek`) and claims again once it has found a task.
 */
import * as z from 'zod'
import { compareInLine, type Item } from '../../domain/item.ts'
import { maxNameLength } from '../../domain/name.ts'
import { listsOf } from '../../domain/ready-word.ts'
import { taskQueue } from '../../domain/task.ts'
import { HoldfastError, isHoldfastError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Caller } from '../../port/command.ts'
import type { ItemFilter, SearchPosition } from '../../port/item.ts'
import type { Loaded } from '../../port/selector.ts'
import * as fields from '../fields.ts'
import { ask, need, operation, reply, type Step } from '../operation.ts'
import { suspectsOf } from '../queue/line.ts'
import { atHome, filter, itemFilter } from './list.ts'

/** Rows of a list that one claim looks at, in 0.1 ms. */
const claimWindow = 100
/**
 * Rows that one read looks at: few enough not to block the main loop for long, enough to be worth a round trip to a
 * server.
 */
const readWindow = 1000

export const wantedTask = lazily(() => ({
  ...filter(),
  anyHost: z.boolean().optional().describe('Include tasks that belong on other machines.'),
}))

type WantedTask = z.output<z.ZodObject<ReturnType<typeof wantedTask>>>

/** The caller's filter in the engines' terms; null = anything. A host named in it replaces the caller's own. */
export function filterFor(input: WantedTask, caller: Caller): ItemFilter | null {
  const { labels, owner, mine, host, maxPriority, anyHost = false } = input
  const isAnywhere = anyHost || host !== undefined
  const wanted = itemFilter({ labels, owner, mine, host, maxPriority }, caller.agent)
  const asked = { ...wanted, ...(isAnywhere ? {} : atHome(caller)) }
  return Object.values(asked).every((value) => value === undefined) ? null : asked
}

/** The rows that the next task is chosen from. If the caller has already searched, they start where it stopped. */
export function candidateNeeds(filter: ItemFilter | null, caller: Caller) {
  return need({
    ready: filter === null ? { select: 'claimable', queue: taskQueue, limit: 1 } : null,
    // Null without a filter, and when the whole list has been searched.
    matching:
      filter === null || caller.searched?.from === null
        ? null
        : page(filter, caller.searched ?? head, claimWindow),
    ...beside(filter, caller),
  })
}

const head = { by: 0, from: null }

/** Tasks that can be claimed but are in no list of ready tasks. */
function beside(filter: ItemFilter | null, caller: Caller) {
  return need({
    suspects: suspectsOf(taskQueue, caller, { limit: 1, filter }),
    offers: { select: 'offered', queue: taskQueue, agent: caller.agent, filter, limit: 1 },
  })
}

/** A single list needs no window: everything in it matches. */
function page(filter: ItemFilter, { by, from }: SearchPosition, most: number | null) {
  const window = listsOf(filter).length > 1 ? most : null
  return { select: 'tasksMatching', filter, by, from, window, limit: 1 } as const
}

interface Candidates {
  readonly ready?: readonly Item[] | null
  readonly matching: Loaded<{ page: ReturnType<typeof page> }>['page'] | null
  readonly suspects: readonly Item[]
  readonly offers: readonly Item[]
}

/** The first in line, or null if a row that was not looked at could come before it. */
export function firstCandidate({ ready, matching, suspects, offers }: Candidates): Item | null {
  const [first] = [...(ready ?? []), ...(matching?.items ?? []), ...suspects, ...offers].sort(compareInLine)
  const next = matching?.next ?? null
  return first && (next === null || compareInLine(first, next) < 0) ? first : null
}

/**
 * Refuses to answer "empty" if the list goes on, or if the search began further down: tasks that became ready before
 * that position were not looked at. `Session` continues the search, so its callers never see this refusal.
 */
export function assertSearched(matching: Candidates['matching'], caller: Pick<Caller, 'searched'>): void {
  const { searched = head } = caller
  if (matching === null || (matching.next === null && searched.from === null)) return
  throw new HoldfastError('BUSY', {
    what: `none of the next ${claimWindow} candidate tasks fits`,
    next: 'claim through the handle, which searches the rest too',
    facts: { searched: { by: searched.by, from: matching.next } },
  })
}

/** Where an unfinished search continues; null for any other error. */
export function searchedTo(error: unknown): SearchPosition | null {
  return isHoldfastError(error) && error.code === 'BUSY'
    ? ((error.facts.searched ?? null) as SearchPosition | null)
    : null
}

export interface Sought {
  /** Whether a matching task can be claimed now. */
  readonly found: boolean
  /** Its position, or where to continue. */
  readonly position: SearchPosition
  /** A delayed task is due, and a claim may make it ready. */
  readonly isDue: boolean
}

const searchPlace = lazily(() =>
  z.strictObject({
    by: fields.whole(0, 100),
    from: z
      .strictObject({ priority: z.int(), addedAt: fields.wallTime, id: fields.text(maxNameLength) })
      .nullable(),
  }),
)

export const seek = operation({
  name: 'tasks.seek',
  summary: 'Continue the search for the next task that fits, without claiming it.',
  effect: 'read',
  class: 'client',
  input: () => ({
    ...wantedTask(),
    at: searchPlace().nullable().describe('Where the search continues; null: at the head.'),
    isWhole: z.boolean().describe('Search the whole list at once.'),
  }),
  output: () => z.custom<Sought>(),
  needs({ at, isWhole, ...wanted }, caller) {
    const filter = filterFor(wanted, caller)
    const lists = filter === null ? [] : listsOf(filter)
    const isChosen = at !== null || lists.length < 2
    return {
      ready: filter === null ? { select: 'claimable', queue: taskQueue, limit: 1 } : null,
      matching: filter !== null && isChosen ? page(filter, at ?? head, isWhole ? null : readWindow) : null,
      // The search walks the shortest list and stays with it.
      counts: isChosen ? null : { select: 'wordCounts', lists, limit: readWindow },
      ...beside(filter, caller),
      nextDueAt: { select: 'nextDueAt', queue: taskQueue },
    }
  },
  decide({ counts, nextDueAt, ...found }, { at, isWhole, ...wanted }, context): Step<Sought> {
    const isDue = nextDueAt !== null && nextDueAt <= context.wall
    const filter = filterFor(wanted, context)
    if (counts === null || filter === null) return reply({ ...placed(found, (at ?? head).by), isDue })
    const by = counts.indexOf(Math.min(...counts))
    return ask({ matching: page(filter, { by, from: null }, isWhole ? null : readWindow) }, ({ matching }) =>
      reply({ ...placed({ ...found, matching }, by), isDue }),
    )
  },
})

function placed(found: Candidates, by: number): Pick<Sought, 'found' | 'position'> {
  const first = firstCandidate(found)
  if (first === null) return { found: false, position: { by, from: found.matching?.next ?? null } }
  const { priority, addedAt, id } = first
  return { found: true, position: { by, from: { priority, addedAt, id } } }
}
