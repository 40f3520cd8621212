/** Verbs for the locks of tasks: who holds one, and what has expired. */
import { counted } from '../../domain/count.ts'
import type { LockStatus } from '../../operations/lease/watch.ts'
import { formatDuration } from '../duration.ts'
import { type Detail, drawDetails } from '../layout.ts'
import { verb } from '../verb.ts'
import { healingText } from './healing-text.ts'
import { marksOf } from './lease-marks.ts'

const statusDetails: readonly Detail<LockStatus>[] = [
  ['task', 'taskId'],
  ['assignee', ({ assignee }) => assignee ?? 'an unknown agent'],
  ['since', ({ assignedAt }, view) => view.leaseTime(assignedAt)],
  ['until', ({ lockUntil }, view) => view.leaseTime(lockUntil)],
  ['left', ({ isExpired, remainingMs }) => (isExpired ? null : formatDuration(remainingMs))],
  ['state', stateText],
  'token',
]

function stateText(status: LockStatus): string {
  const expired = status.isExpired ? [`expired ${formatDuration(status.expiredMs)} ago`] : []
  return [...expired, ...marksOf(status)].join(', ') || 'held'
}

export const taskLockVerbs = [
  verb({
    name: 'lock-status',
    noun: 'lock',
    operation: 'tasks.getLockStatus',
    act: async (call) => (await call.open()).tasks.getLockStatus(String(call.input.ref)),
    text: (status, view) => (status === null ? 'not locked' : drawDetails(statusDetails, status, view)),
  }),
  verb({
    name: 'cleanup-locks',
    operation: 'tasks.cleanupExpiredLocks',
    summary: 'Return tasks to Todo whose lock expired longer ago than an age. Never prompts.',
    async act(call) {
      const { maxAgeMs = 0, dryRun = false } = call.input
      const hf = await call.open()
      return hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs, dryRun })
    },
    text: ({ locks }, view, { dryRun }) =>
      healingText(
        {
          recoveryTimestamp: view.now,
          reclaimed: locks.map(({ taskId, assignee, lockUntil, expiredMs, evidence }) => ({
            kind: 'item',
            id: taskId,
            holder: assignee,
            expiresAt: lockUntil,
            expiredForMs: expiredMs,
            evidence,
          })),
        },
        view,
        counted(locks.length, 'task'),
        dryRun === true,
      ),
  }),
]
