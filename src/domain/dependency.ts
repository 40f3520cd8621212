/** What an item waits for: its parent and its blockers, never itself, not even through others. */
import { InvalidError } from '../errors.ts'
import type { Item, NewItem } from './item.ts'

export const stackDepthMax = 10
export const blockersMax = 100
/** More would have to be walked than one transaction should: then nobody can say that there is no circle. */
export const dependentsMax = 10_000

/** Parent and blockers are one mechanism: the item waits until each has closed well. */
export function dependenciesOf(input: NewItem) {
  const { parent } = input
  const ancestors = parent ? [...parent.ancestors, parent.id] : []
  const blockers = input.blockers ?? []
  assertNoCircle(input.id, [...ancestors, ...blockers.map(({ id }) => id)], input.dependents ?? [])
  if (ancestors.length > stackDepthMax) {
    throw new InvalidError({
      what: `a stack of ${ancestors.length + 1} items is too deep`,
      next: `keep at most ${stackDepthMax} items below one another`,
      facts: { depth: ancestors.length, depthMax: stackDepthMax, path: ancestors },
    })
  }
  return { parent: parent?.id ?? null, ancestors, ...waitsFor(parent ? [parent, ...blockers] : blockers) }
}

export function waitsFor(declared: readonly Item[]): Pick<Item, 'blockers' | 'waitingFor'> {
  const unique = [...new Map(declared.map((item) => [item.id, item])).values()]
  return {
    blockers: unique.map((item) => item.id),
    waitingFor: unique.filter((item) => item.outcome !== 'well').map((item) => item.id),
  }
}

/** Items in a circle would all wait for ever. */
export function assertNoCircle(id: string, declared: readonly string[], dependents: readonly string[]): void {
  if (declared.length === 0) return
  const after = new Set([id, ...dependents])
  const back = declared.find((each) => after.has(each))
  if (back !== undefined) {
    throw new InvalidError({
      what: `item ${id} would wait for itself: ${back} comes after it`,
      next: 'choose a parent and blockers that do not wait for it',
      facts: { item: id, blocker: back, path: [...declared, id] },
    })
  }
  if (dependents.length >= dependentsMax) {
    throw new InvalidError({
      what: `${dependentsMax} items or more wait for item ${id}, too many to see whether they form a circle`,
      next: 'let some of them finish first, or add a new item in its place',
      facts: { item: id, dependentsMax },
    })
  }
}
