/** Suggests the nearest known name for an unknown one. */
import { nearestName } from '../domain/name.ts'
import { taskQueue } from '../domain/task.ts'
import { isHoldfastError, NotFoundError } from '../errors.ts'
import type { CommandCall } from './call.ts'

/** The same error, with the nearest existing name as its next step. */
export async function withNearestName(error: unknown, call: CommandCall): Promise<unknown> {
  if (!isHoldfastError(error) || error.code !== 'NOT_FOUND') return error
  const { queue, ref, name } = error.facts
  const asked = ref ?? queue ?? name
  if (asked === undefined) return error
  const nearest = nearestName(asked, await knownNames(call, { queue, ref }))
  if (nearest === null || nearest === asked) return error
  return new NotFoundError({
    what: error.what,
    next: `did you mean "${nearest}"?`,
    facts: { ...error.facts, nearest },
  })
}

/** Keys of a queue's items, names of queues, or names of any kind. */
async function knownNames(
  call: CommandCall,
  { queue, ref }: { queue: string | undefined; ref: string | undefined },
): Promise<string[]> {
  try {
    if (queue !== undefined && ref !== undefined) return await keysOf(call, queue)
    const queues = await queueNames(call)
    if (queue !== undefined) return queues
    return [...queues, ...(await lockNames(call)), ...(await keysOf(call, taskQueue))]
  } catch {
    // A second error would only hide the first.
    return []
  }
}

async function queueNames(call: Pick<CommandCall, 'execute'>): Promise<string[]> {
  const { queues } = await call.execute('queue.listQueues', {})
  return queues.map(({ name }) => name)
}

async function lockNames(call: Pick<CommandCall, 'execute'>): Promise<string[]> {
  const { locks } = await call.execute('locks.list', { limit: 500 })
  return locks.map(({ name }) => name)
}

async function keysOf(call: Pick<CommandCall, 'execute'>, queue: string): Promise<string[]> {
  const { items } = await call.execute('queue.list', {
    queue,
    limit: 500,
  })
  return items.flatMap(({ key }) => key ?? [])
}
