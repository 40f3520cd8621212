/** What an item waits for: its parent and its blockers, never itself, not even indirectly. */
import { InvalidError } from '../errors.ts'
import type { Item } from './item.ts'
import { uniqueBy } from './unique.ts'

export const maxStackDepth = 10
export const maxBlockers = 100
/** When an item gets a new parent, at most this many items stacked on it are updated in the same transaction. */
export const maxStacked = 100
/** Ids visited in each direction: visiting more would block other writers for too long. */
export const maxWalked = 1_000

/** What is known about the items around one whose blockers are being set; each list only as far as it was walked. */
export interface Surroundings {
  /** What waits for it, directly or indirectly. */
  readonly dependents: readonly string[]
  /** What it would wait for, directly or indirectly. */
  readonly awaited: readonly string[]
}

/** For a new item: nothing can wait for it yet. */
export const nothingAround: Surroundings = { dependents: [], awaited: [] }

const waitsForNothing = { parent: null, ancestors: [], blockers: [], waitingFor: [] } as const

/** What a new item is to wait for. */
export interface NewDependencies {
  readonly id: string
  readonly parent?: Item | null | undefined
  readonly blockers?: readonly Item[] | undefined
  /** Ids of everything that already waits for an item with this id, directly or indirectly. */
  readonly around?: Surroundings | undefined
}

/** Parent and blockers work the same way: the item waits until each has succeeded. */
export function dependenciesOf(input: NewDependencies): Dependencies {
  const { parent } = input
  const ancestors = stackOf(parent ?? null)
  const blockers = input.blockers ?? []
  // A shortcut: nearly all items wait for nothing, and many are added at once.
  if (!parent && blockers.length === 0) return waitsForNothing
  assertNoCircle(input.id, [...ancestors, ...blockers.map(({ id }) => id)], input.around ?? nothingAround)
  assertDepth(ancestors)
  return { parent: parent?.id ?? null, ancestors, ...waitsFor(parent ? [parent, ...blockers] : blockers) }
}

type Dependencies = Pick<Item, 'parent' | 'ancestors' | 'blockers' | 'waitingFor'>

/** Newly declared dependencies; those left out stay as they are. */
interface Declared {
  readonly parent?: Item | null | undefined
  readonly blockers?: readonly Item[] | undefined
}

/**
 * Where to start walking what an item would wait for. For an existing item that keeps its parent, that includes its
 * current stack.
 */
export function awaitedFirst({ parent, blockers = [] }: Declared, item: Item | null = null): string[] {
  const stack = parent === undefined ? (item?.ancestors ?? []) : stackOf(parent)
  return [...stack, ...blockers.map(({ id }) => id)]
}

/** What an open item waits for once its parent, its blockers or both are redeclared. */
export function changeDependencies(item: Item, declared: Declared & { around: Surroundings }): Dependencies {
  const { parent, blockers, around } = declared
  const ancestors = parent === undefined ? item.ancestors : stackOf(parent)
  const kept = item.blockers.filter((id) =>
    id === item.parent ? parent === undefined : blockers === undefined,
  )
  const fresh = waitsFor([...(parent ? [parent] : []), ...(blockers ?? [])])
  assertNoCircle(item.id, [...ancestors, ...fresh.blockers], around)
  assertDepth(ancestors)
  const stillWaits = item.waitingFor.filter((id) => kept.includes(id))
  return {
    parent: parent === undefined ? item.parent : (parent?.id ?? null),
    ancestors,
    blockers: [...new Set([...kept, ...fresh.blockers])],
    waitingFor: [...new Set([...stillWaits, ...fresh.waitingFor])],
  }
}

export function isOtherParent(item: Item, parent: Item | null | undefined): boolean {
  return parent !== undefined && (parent?.id ?? null) !== item.parent
}

/** Whether the declared blockers differ, ignoring order and the parent, which is always among them. */
export function isOtherSet(item: Item, { parent, blockers }: Declared): boolean {
  if (blockers === undefined) return false
  const besides = (ids: readonly string[], except: string | null) =>
    new Set(ids.filter((id) => id !== except))
  const declared = besides(
    blockers.map(({ id }) => id),
    parent === undefined ? item.parent : (parent?.id ?? null),
  )
  const present = besides(item.blockers, item.parent)
  return declared.size !== present.size || [...declared].some((id) => !present.has(id))
}

/** The items stacked on one that got a new parent, with their new ancestors: before and after, from the bottom up. */
export function restacked(moved: Item, stacked: readonly Item[]): { before: Item; after: Item }[] {
  if (stacked.length > maxStacked) {
    throw new InvalidError({
      what: `more than ${maxStacked} items are stacked on item ${moved.id}`,
      next: 'let some of them finish first, or leave its parent as it is',
      facts: { item: moved.id, maxStacked },
    })
  }
  const all: { before: Item; after: Item }[] = []
  for (let below = [moved]; below.length > 0; ) {
    const above = below.flatMap((parent) => {
      const ancestors = stackOf(parent)
      return stacked
        .filter((each) => each.parent === parent.id)
        .map((before) => ({ before, after: { ...before, ancestors, version: before.version + 1 } }))
    })
    for (const { after } of above) assertDepth(after.ancestors)
    all.push(...above)
    below = above.map(({ after }) => after)
  }
  return all
}

/** Ids from the root down to this item. */
function stackOf(parent: Item | null): readonly string[] {
  return parent ? [...parent.ancestors, parent.id] : []
}

function assertDepth(ancestors: readonly string[]): void {
  if (ancestors.length <= maxStackDepth) return
  throw new InvalidError({
    what: `a stack of ${ancestors.length + 1} items is too deep`,
    next: `keep at most ${maxStackDepth} items below one another`,
    facts: { depth: ancestors.length, maxDepth: maxStackDepth, path: ancestors },
  })
}

export function waitsFor(declared: readonly Item[]): Pick<Item, 'blockers' | 'waitingFor'> {
  const unique = uniqueBy(declared, ({ id }) => id)
  return {
    blockers: unique.map((item) => item.id),
    waitingFor: unique.filter((item) => item.outcome !== 'succeeded').map((item) => item.id),
  }
}

/**
 * Items in a cycle would all wait forever. One completed walk is enough, in either direction: if thousands wait for an
 * item, walking what it would wait for is still quick.
 */
export function assertNoCircle(id: string, declared: readonly string[], around: Surroundings): void {
  const { dependents, awaited } = around
  if (declared.length === 0) return
  const after = new Set([id, ...dependents])
  const back = declared.find((each) => after.has(each))
  if (back !== undefined || awaited.includes(id)) {
    throw new InvalidError({
      what: `item ${id} would wait for itself: ${back ?? 'something that it would wait for'} comes after it`,
      next: 'choose a parent and blockers that do not wait for it',
      facts: { item: id, blocker: back ?? null, path: [...declared, id] },
    })
  }
  if (dependents.length >= maxWalked && awaited.length >= maxWalked) {
    throw new InvalidError({
      what: `${maxWalked} items or more wait for item ${id}, and it would wait for as many: too many to check for a cycle`,
      next: 'let some of them finish first, or add a new item in its place',
      facts: { item: id, maxWalked },
    })
  }
}
