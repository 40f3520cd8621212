/** Suggests the nearest known name for an unknown one. */
import { nearestName } from '../domain/name.ts'
import { isHoldfastError, NotFoundError } from '../errors.ts'
import type { CommandCall } from './call.ts'
import { namesIn } from './live-names.ts'

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
  const ofQueue = ref === undefined ? 'queues' : 'items'
  try {
    const found = await namesIn(await call.open(), queue === undefined ? 'things' : ofQueue, queue)
    return found.map(({ value }) => value)
  } catch {
    // A second error would only hide the first.
    return []
  }
}
