/** Verbs for a queue's processing lock. */

import { verb } from '../verb.ts'
import { forPid } from './claim-options.ts'
import { acquiring, holderText, lockLine } from './item-text.ts'

export const queueLockVerbs = [
  verb({
    name: 'lock',
    operation: 'queue.acquireProcessingLock',
    options: [forPid],
    ...acquiring,
  }),
  verb({
    name: 'unlock',
    noun: 'released',
    operation: 'queue.releaseProcessingLock',
    isOver: () => true,
    says: { yes: 'unlocked', no: 'not unlocked: you do not hold it', exit: 'LEASE_LOST' },
  }),
  verb({
    operation: 'queue.renewLock',
  }),
  verb({
    operation: 'queue.extendLock',
    help: '  holdfast queue extend-lock merges 60s',
    json: ({ capped, ...lock }) => ({ lock, capped }),
    text: (extended, view) => `${lockLine(extended, view)}${extended.capped ? ', the longest allowed' : ''}`,
  }),
  verb({
    name: 'lock-status',
    operation: 'queue.getProcessingLock',
    text: (held, view) =>
      held === null ? 'free' : `${held.name}  ${holderText(held.lease, view)}${held.stale ? ' (stale)' : ''}`,
    json: (held) => ({ lock: held, stale: held?.stale ?? false }),
  }),
  verb({
    noun: 'stale',
    operation: 'queue.isLockStale',
    says: { yes: 'stale', no: 'not stale' },
  }),
]
