/** A name that is not known, and the nearest one that is. */
import { nearestName } from '../domain/name.ts'
import { isHoldfastError, NotFoundError } from '../errors.ts'
import type { CommandCall } from './call.ts'

/** The same error, with the nearest name there is as its next step. */
export async function withNearestName(error: unknown, call: CommandCall): Promise<unknown> {
  if (!isHoldfastError(error) || error.code !== 'NOT_FOUND') return error
  const { queue, ref } = error.facts as { queue?: string; ref?: string }
  const asked = ref ?? queue
  if (asked === undefined) return error
  const nearest = nearestName(asked, await knownNames(call, ref === undefined ? undefined : queue))
  if (nearest === null || nearest === asked) return error
  return new NotFoundError({
    what: error.what,
    next: `did you mean "${nearest}"?`,
    facts: { ...error.facts, nearest },
  })
}

/** Queues, or the keys of a queue's items. */
async function knownNames(call: CommandCall, queue: string | undefined): Promise<string[]> {
  try {
    if (queue === undefined) {
      const { queues } = await call.execute<{ queues: { name: string }[] }>('queue.listQueues', {})
      return queues.map(({ name }) => name)
    }
    const input = { queue, limit: 500 }
    const { items } = await call.execute<{ items: { key: string | null }[] }>('queue.list', input)
    return items.flatMap(({ key }) => key ?? [])
  } catch {
    // It is about the first error; a second one would only hide it.
    return []
  }
}
