/** What keeps an item out of line, and what lets it back in: blockers, delays, offers. */
import { HoldfastError } from '../errors.ts'
import { assertNoCircle, type Surroundings, waitsFor } from './dependency.ts'
import { describeItem, editItem, type Item, illegal, settle } from './item.ts'
import { stateOf, type Workflow } from './workflow.ts'

/** Replaces the blockers of an open item; its parent stays among them. */
export function setItemBlockers(
  item: Item,
  workflow: Workflow,
  { blockers, ...around }: { blockers: readonly Item[] } & Surroundings,
): Item {
  if (item.phase === 'closed') throw illegal(item, item.state, stateOf(workflow, item.state))
  assertNoCircle(
    item.id,
    blockers.map(({ id }) => id),
    around,
  )
  return editItem(item, waitsFor(blockers), workflow)
}

/** Reserves a free item for one agent until the given time. */
export function offerItem(
  item: Item,
  workflow: Workflow,
  { to, untilWall }: { to: string; untilWall: number },
): Item {
  return settle({ ...item, offeredTo: to, runAt: untilWall }, workflow)
}

/** The delay is over. */
export function promoteItem(item: Item, workflow: Workflow): Item {
  return settle({ ...item, runAt: null, offeredTo: null, version: item.version + 1 }, workflow)
}

/** A blocker has succeeded. Returns null if the item was not waiting for it. */
export function unblockItem(item: Item, workflow: Workflow, blocker: string): Item | null {
  if (!item.waitingFor.includes(blocker)) return null
  const waitingFor = item.waitingFor.filter((id) => id !== blocker)
  return settle({ ...item, waitingFor, version: item.version + 1 }, workflow)
}

/** Refuses to remove an item that others wait for: they would wait forever. `waiting` lists some of them. */
export function assertUnneeded(item: Item, waiting: readonly Pick<Item, 'id'>[], next: string): void {
  if (waiting.length === 0) return
  const ids = waiting.map(({ id }) => id)
  throw new HoldfastError('ILLEGAL_MOVE', {
    what: `${describeItem(item)} cannot be removed: ${ids.join(', ')} ${ids.length === 1 ? 'waits' : 'wait'} for it`,
    next,
    facts: { subject: describeItem(item), from: item.state, to: 'removed', waiting: ids },
  })
}

/**
 * The item as readers should see it: without blockers that have already succeeded but have not yet been removed from
 * its row. It keeps the version of its row.
 */
export function withoutClosedBlockers(item: Item, workflow: Workflow, closed: readonly string[]): Item {
  const freed = closed.reduce((each, blocker) => unblockItem(each, workflow, blocker) ?? each, item)
  return freed === item ? item : { ...freed, version: item.version }
}
