/** Verbs for a queue's processing lock. */

import { verb } from '../verb.ts'
import { forPid } from './claim-options.ts'
import { heldBy, holderText, lockGrant, lockLine } from './item-text.ts'

export const queueLockVerbs = [
  verb({
    name: 'lock',
    operation: 'queue.acquireProcessingLock',
    positional: ['queue'],
    options: [forPid],
    holds: 'queueLock',
    text: (answer, view) =>
      answer.outcome === 'acquired'
        ? lockLine(answer.lock, view)
        : heldBy(answer.holder, answer.expiresAt, view),
    grants: (answer) => (answer.outcome === 'acquired' ? [lockGrant(answer.lock)] : []),
  }),
  verb({
    name: 'unlock',
    noun: 'released',
    operation: 'queue.releaseProcessingLock',
    positional: ['queue'],
    holds: 'queueLock',
    isOver: () => true,
    says: { yes: 'unlocked', no: 'not unlocked: you no longer hold it', exit: 'LEASE_LOST' },
  }),
  verb({
    name: 'renew-lock',
    noun: 'lock',
    operation: 'queue.renewLock',
    positional: ['queue'],
    holds: 'queueLock',
    text: lockLine,
  }),
  verb({
    name: 'extend-lock',
    operation: 'queue.extendLock',
    positional: ['queue', 'extraMs'],
    holds: 'queueLock',
    help: '  holdfast queue extend-lock merges 60s',
    json: ({ capped, ...lock }) => ({ lock, capped }),
    text: (extended, view) => `${lockLine(extended, view)}${extended.capped ? ', the longest allowed' : ''}`,
  }),
  verb({
    name: 'lock-status',
    operation: 'queue.getProcessingLock',
    positional: ['queue'],
    text: (held, view) =>
      held === null ? 'free' : `${held.name}  ${holderText(held.lease, view)}${held.stale ? ' (stale)' : ''}`,
    json: (held) => ({ lock: held, stale: held?.stale ?? false }),
  }),
  verb({
    name: 'is-lock-stale',
    noun: 'stale',
    operation: 'queue.isLockStale',
    positional: ['queue'],
    says: { yes: 'stale', no: 'not stale' },
  }),
]
