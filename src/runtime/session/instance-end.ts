/** Leaving the fleet when a handle closes. */
import { inPieces } from './input.ts'
import type { Session } from './session.ts'

/**
 * Gives back what is still held and records the end of this instance, so that other processes no longer have to judge
 * it.
 */
export async function endInstance(session: Session): Promise<void> {
  const { instance, environment } = session
  if (instance === null) return
  await inPieces(() => session.call('instance.end', { id: instance, reason: 'its process closed the store' }))
  // Only once the store has recorded the end: otherwise the death of this process still has to be proven.
  if (!session.storeIsLocal) environment.host.ownMark.leave(environment.host.identity)
}
