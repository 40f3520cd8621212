/** Finds the things an operation is about, or refuses with an error that says what to do. */
import { builtInWorkflow } from '../domain/built-in-workflows.ts'
import { maxWalked } from '../domain/dependency.ts'
import type { StoredEvent } from '../domain/event.ts'
import { describeItem, type Item } from '../domain/item.ts'
import { withoutClosedBlockers } from '../domain/item-waiting.ts'
import { taskQueue } from '../domain/task-status.ts'
import type { Workflow } from '../domain/workflow.ts'
import { HoldfastError, LeaseLostError, NotFoundError, VersionMismatchError } from '../errors.ts'
import type { DefinedQueue } from '../port/queue.ts'
import { need } from './operation.ts'

export function knownWorkflow(defined: DefinedQueue): Workflow | null {
  return defined.definition ?? builtInWorkflow(defined.queue.workflow) ?? null
}

export function workflowOf(defined: DefinedQueue): Workflow {
  const workflow = knownWorkflow(defined)
  if (workflow) return workflow
  throw new HoldfastError('STORE_UNFIT', {
    what: `queue ${defined.queue.name} follows workflow ${defined.queue.workflow}, which this store does not define`,
    next: 'define the workflow again, or use the Holdfast version that made this store',
  })
}

export function requireQueue(
  defined: DefinedQueue | null,
  name: string,
): DefinedQueue & { workflow: Workflow } {
  if (defined) return { queue: defined.queue, definition: defined.definition, workflow: workflowOf(defined) }
  throw new NotFoundError({
    what: `there is no queue "${name}"`,
    next: 'add an item to it first, or check the name',
    facts: { queue: name },
  })
}

/** The item an operation acts on. A caller that gives a token has held the item, so a missing item is a lost lease. */
export function requireItem(item: Item | null, queue: string, ref: string, token?: number): Item {
  if (item) return item
  if (token !== undefined) {
    throw new LeaseLostError({
      subject: queue === taskQueue ? `task ${ref}` : `item ${ref} of queue ${queue}`,
      token,
      currentToken: null,
      holder: null,
      reason: 'it no longer exists',
    })
  }
  const isTask = queue === taskQueue
  throw new NotFoundError({
    what: isTask ? `there is no task "${ref}"` : `queue ${queue} has no item "${ref}"`,
    next: `list the ${isTask ? 'tasks' : 'queue'} to see what is there; ${isTask ? 'done tasks' : 'finished items'} are removed after their retention`,
    facts: { queue, ref },
  })
}

export function newestEvents(of: Pick<StoredEvent, 'subject' | 'id'>, limit: number) {
  return need({ events: { select: 'events', since: 0, limit, of, newest: true } }).events
}

/** Rows needed to change what an existing item waits for. */
export const surroundingsOf = (id: string, awaited: readonly string[]) =>
  need({
    dependents: { select: 'transitiveDependents', id, limit: maxWalked },
    awaited: { select: 'transitiveBlockers', ids: awaited, limit: maxWalked },
  })

export const noSurroundings = { dependents: null, awaited: null } as const

/** Rows needed wherever an item is shown or claimed by name. */
export const closedBlockers = { select: 'closedBlockers' } as const

/** Never shows a finished blocker as open, although freeing everything that waited for it may take a moment longer. */
export function asFreed(item: Item, defined: DefinedQueue | null, closed: readonly string[]): Item {
  const workflow = defined && knownWorkflow(defined)
  return workflow ? withoutClosedBlockers(item, workflow, closed) : item
}

export function assertVersion(item: Item, expected: number | undefined): void {
  if (expected === undefined || expected === item.version) return
  throw new VersionMismatchError({ subject: describeItem(item), expected, current: item.version })
}
