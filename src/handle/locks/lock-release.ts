/** Gives back a named lock, which its holder may have acquired several times. */
import { leftByRelease } from '../../runtime/lease/lease-ending.ts'
import type { Request } from '../../runtime/session/request.ts'
import type { Session } from '../../runtime/session/session.ts'

/** Releases one grant and returns what the store did. */
export function releaseGrant(session: Session, request: Request<'locks.releaseLock'>) {
  const { options, input } = request
  const { name, token } = input
  const grant = session.grants.find('lock', name, token, options)
  const isLast = grant === undefined || session.endings.countOf(grant) + 1 >= grant.depth
  // A key, because repeating the release would give back one more level of a reentrant lock.
  const key = isLast ? {} : { idempotencyKey: options.idempotencyKey ?? session.environment.id() }
  return session.end(
    { operation: 'locks.releaseLock', input, options: { ...options, ...key } },
    {
      lease: grant ?? { kind: 'lock', id: name, token: token ?? 0 },
      isLast,
      leaves: ({ released, depth }) => {
        if (grant) grant.depth = depth
        return depth === 0 ? leftByRelease(released) : 'held'
      },
      forget: () => void session.grants.forget('lock', name, token, options),
    },
  )
}
