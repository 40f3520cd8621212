/** How a grant ended: normally, by its holder, or because it was taken away. */
import { endKinds } from './crash-pattern.ts'
import { foldEvent, type StoredEvent } from './event.ts'

/**
 * The event with which the holder itself ended a grant: it completed, failed, moved or released what it held under that
 * token. Null if the grant was taken away (a reclaim, a cancellation, force) or has not ended. A process whose helper
 * finished the work must not be told that it lost it.
 */
export function endByHolder(
  events: readonly StoredEvent[],
  { agent, token }: { readonly agent: string; readonly token: number },
): StoredEvent | null {
  const end = events.find((event) => event.token === token && foldEvent({ agent }, event)?.agent !== agent)
  if (end === undefined || end.agent !== agent) return null
  return (endKinds as readonly string[]).includes(end.kind) ? end : null
}
