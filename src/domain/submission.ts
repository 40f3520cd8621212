/**
 * Resubmitting an open change. Given fields replace the old ones; the others stay. The holder of the change has already
 * read its payload and facts, so those stay fixed until it lets go; only head, priority and attempts may change.
 */
import { changeDependencies, isOtherParent, isOtherSet, type Surroundings } from './dependency.ts'
import { editItem, heldError, type Item } from './item.ts'
import { isSameJson, type Json } from './json.ts'
import { isPastCancelling } from './merge.ts'
import type { Workflow } from './workflow.ts'

export interface Submission {
  readonly headSha: string
  readonly bead?: string | null | undefined
  readonly priority?: number | undefined
  readonly maxAttempts?: number | undefined
  /** JSON text. */
  readonly payload?: string | undefined
  /** Merged into the existing facts. */
  readonly data?: Item['data'] | undefined
  /** Null: no delay. */
  readonly runAt?: number | null | undefined
  /** Null: stacked on nothing. */
  readonly parent?: Item | null | undefined
  readonly blockers?: readonly Item[] | undefined
}

type Field = keyof Submission

/** Fields that may change while the change is held. */
const freeFields: ReadonlySet<Field> = new Set(['headSha', 'priority', 'maxAttempts'])

/** The resulting change; the same object if nothing differs. */
export function submitAgain(
  open: Item,
  workflow: Workflow,
  given: Submission,
  { around, wall }: { around: Surroundings; wall: number },
): Item {
  const fields = differing(open, given, wall)
  if (fields.length === 0) return open
  assertNotDisturbing(open, workflow, fields)
  const { headSha, bead, priority = open.priority, maxAttempts = open.maxAttempts } = given
  // A new head makes every test result stale, so a holder working on the old one is sent back to rebase.
  const untested = fields.includes('headSha') ? { testedAgainstSha: null, ...unseenBy(open) } : {}
  const edit = {
    priority,
    maxAttempts,
    payload: given.payload ?? open.payload,
    data: { ...open.data, ...given.data, ...(bead === undefined ? {} : { bead }), headSha, ...untested },
  }
  const delay = fields.includes('runAt')
    ? { runAt: runAtAfter(open, given.runAt, wall), offeredTo: null }
    : {}
  const isRedeclared = fields.includes('parent') || fields.includes('blockers')
  const waits = isRedeclared ? changeDependencies(open, { ...given, around }) : {}
  return editItem(open, { ...edit, ...delay, ...waits }, workflow)
}

/** The holder read the old head when it claimed the change. Recorded under its grant: the next holder reads the new one. */
function unseenBy({ phase, token }: Item): Item['data'] {
  return phase === 'held' ? { headChangedUnder: token } : {}
}

/** Whether its dependencies would change, in which case the items that wait for it must be loaded first. */
export function isStackedAnew(open: Item, given: Submission): boolean {
  return isOtherParent(open, given.parent) || isOtherSet(open, given)
}

function differing(open: Item, given: Submission, wall: number): Field[] {
  const { headSha, bead, priority, maxAttempts, payload, data, runAt } = given
  const differs: Record<Field, boolean> = {
    headSha: open.data.headSha !== headSha,
    bead: bead !== undefined && bead !== (open.data.bead ?? null),
    priority: priority !== undefined && priority !== open.priority,
    maxAttempts: maxAttempts !== undefined && maxAttempts !== open.maxAttempts,
    payload: payload !== undefined && !isSameJson(parsed(payload), parsed(open.payload)),
    data: Object.entries(data ?? {}).some(
      ([name, fact]) => !isGivenApart(name, given) && !isSameJson(fact, open.data[name]),
    ),
    runAt: runAt !== undefined && runAtAfter(open, runAt, wall) !== open.runAt,
    parent: isOtherParent(open, given.parent),
    blockers: isOtherSet(open, given),
  }
  return (Object.keys(differs) as Field[]).filter((field) => differs[field])
}

/** The head, and the issue if given, are passed separately and override the other facts. */
function isGivenApart(name: string, { bead }: Submission): boolean {
  return name === 'headSha' || (name === 'bead' && bead !== undefined)
}

function parsed(text: string): Json {
  return JSON.parse(text)
}

/**
 * A given time never shortens the wait after a failure or a crash; otherwise a change that keeps failing could be
 * retried in a tight loop.
 */
function runAtAfter(open: Item, runAt: number | null | undefined, wall: number): number | null {
  if (runAt == null) return null
  const asked = runAt > wall ? runAt : null
  const isPenalty = open.failures > 0 || open.crashes > 0
  if (!isPenalty || open.runAt === null) return asked
  return Math.max(open.runAt, runAt)
}

function assertNotDisturbing(open: Item, workflow: Workflow, fields: readonly Field[]): void {
  if (open.phase !== 'held') return
  const fixed = fields.filter((field) => !freeFields.has(field))
  const isLate = fields.includes('headSha') && isPastCancelling(open, workflow)
  const refused = isLate ? [...fixed, 'headSha'] : fixed
  if (refused.length === 0) return
  throw heldError(
    open,
    `${refused.join(', ')} cannot change while it is held; submit that again once it is released`,
  )
}
