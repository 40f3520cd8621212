/** `holdfast task`. */

import { counted } from '../../domain/count.ts'
import { quotedWord } from '../../domain/shell-word.ts'
import { taskQueue } from '../../domain/task.ts'
import { errorCodes } from '../../errors.ts'
import type { LockStatus } from '../../operations/lease/watch.ts'
import type { BatchClaimOutcome, NextTaskOutcome, TaskClaimOutcome } from '../../operations/task/claim.ts'
import type { TaskView } from '../../operations/task/view.ts'
import { inPieces } from '../../runtime/session/input.ts'
import { type Drawing, lines, textLines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { verb } from '../verb.ts'
import { brief, leaseLeft, type View } from '../view.ts'
import { forPid } from './claim-options.ts'
import { healingText } from './healing-text.ts'
import { heldBy, holderText, itemGrant, leasePeriod, pausedText, withNext } from './item-text.ts'
import { claimWaiting, waitOption } from './wait.ts'

function nameOf({ id, key }: Pick<TaskView, 'id' | 'key'>): string {
  return key === null ? id : `${key} (${id})`
}

function taskLine(task: TaskView): string {
  return `${nameOf(task)}  ${task.status}  ${task.title}`
}

const isTaskOver = ({ lease }: TaskView) => lease === null

function taskTable(tasks: readonly TaskView[], view: View): Drawing {
  return view.table(
    ['task', 'status', 'pri', 'assignee', 'title'],
    tasks.map((task) => [
      task.key ?? task.id,
      task.waitingFor.length > 0 ? `${task.status} (waits)` : task.status,
      task.priority,
      holderText(task.lease, view),
      task.title,
    ]),
  )
}

function taskPairs(task: TaskView, view: View): Drawing {
  const facts = view.pairs([
    ['id', task.id],
    ['key', task.key],
    ['title', task.title],
    ['status', task.status],
    ['priority', task.priority],
    ['labels', task.labels.join(', ')],
    ['paths', task.paths.join(', ')],
    ['owner', task.owner],
    ['offered to', task.offeredTo && `${task.offeredTo} alone, until ${view.time(task.offeredUntil)}`],
    ['host', task.host],
    ['assignee', task.lease && holderText(task.lease, view)],
    ['lease', task.lease && leasePeriod(task.lease, view)],
    ['token', task.lease && task.token],
    ['waits for', task.waitingFor.join(', ')],
    ['quarantine', task.quarantine && (task.quarantine.reason ?? view.time(task.quarantine.at))],
    ['attempts', task.attempts],
    ['progress', task.progress == null ? null : brief(task.progress)],
    ['result', task.result == null ? null : brief(task.result)],
    ['created', `${view.time(task.createdAt)} by ${task.createdBy ?? 'an unknown agent'}`],
    ['done', task.completedAt === null ? null : view.time(task.completedAt)],
    ['version', task.version],
    ...task.notes.map(({ at, by, text }) => ['note', `${view.time(at)} ${by}: ${text}`] as const),
  ])
  return task.body === '' ? facts : lines([facts, '', textLines(task.body, '  ')])
}

const add = verb({
  name: 'add',
  noun: 'task',
  operation: 'tasks.addTask',
  makesStore: true,
  positional: ['title'],
  body: 'body',
  help: "  holdfast task add 'Fix the flaky login test' --key T-1 --label bug --path src/login.ts",
  text: taskLine,
})

const list = verb({
  name: 'list',
  operation: 'tasks.listTasks',
  negatable: {
    owner: 'only tasks without an owner',
    host: 'only tasks that belong on no particular machine',
  },
  text: ({ tasks, next }, view) => withNext(taskTable(tasks, view), next, view),
})

const show = verb({
  name: 'show',
  operation: 'tasks.getTask',
  summary: 'Show a task by id or key.',
  positional: ['ref'],
  missing: ({ ref }) => `there is no task "${ref}"`,
  text: (task, view) => taskPairs(task as TaskView, view),
  json: (task) => ({ task }),
})

function claimText(claim: TaskClaimOutcome | NextTaskOutcome, view: View): string {
  switch (claim.outcome) {
    case 'claimed':
      return `${taskLine(claim.task)}  token ${claim.task.token}${claim.renewed ? ' (already yours)' : ''}`
    case 'held':
      return heldBy(claim.holder, claim.expiresAt, view)
    case 'offered':
      return `offered to ${claim.to ?? 'an unknown agent'} until ${view.time(claim.until)}; --force takes it`
    case 'blocked':
      return claim.runAt === null
        ? `waits for ${claim.waitingFor.join(', ')}`
        : `not before ${view.time(claim.runAt)}`
    case 'quarantined':
      return `quarantined: ${claim.reason ?? 'no reason known'}`
    case 'paused':
      return pausedText(claim.reason)
    case 'empty':
      return 'nothing to claim'
    case 'full':
      return `${counted(claim.holds, 'task')} already held, which is the limit`
    default:
      return claim satisfies never
  }
}

const claimed = {
  options: [forPid],
  text: claimText,
  hint: (claim: TaskClaimOutcome | NextTaskOutcome) =>
    claim.outcome === 'claimed'
      ? `${leaseLeft(claim.task.lease?.remainingMs ?? 0)}; then: holdfast task complete ${quotedWord(claim.task.key ?? claim.task.id)}`
      : null,
  grants: (claim: TaskClaimOutcome | NextTaskOutcome) =>
    claim.outcome === 'claimed' ? [itemGrant(claim.task)] : [],
} as const

const claim = verb({
  name: 'claim',
  operation: 'tasks.claimTaskForAgent',
  positional: ['ref'],
  holds: 'task',
  ...claimed,
})

const next = verb({
  name: 'next',
  operation: 'tasks.claimNext',
  act: (call) => claimWaiting(call, 'tasks.claimNext', { queue: taskQueue, wanted: call.input }),
  negatable: {
    owner: 'only tasks without an owner',
    host: 'only tasks that belong on no particular machine',
  },
  makesStore: true,
  help: 'Exit code 6: nothing fits; 4: the limit of held tasks is reached; 9: tasks are paused.',
  ...claimed,
  options: [forPid, waitOption],
})

const claimMany = verb({
  name: 'claim-many',
  operation: 'tasks.batchClaim',
  positional: ['refs'],
  options: [forPid],
  text(answer, view) {
    if (answer.outcome === 'claimed') return taskTable(answer.tasks, view)
    if (answer.outcome === 'paused') return pausedText(answer.reason)
    const refusals = answer.failed.map((each) => `${each.ref}  ${refusalText(each, view)}`)
    return lines(['none claimed', ...refusals])
  },
  grants: (answer) => (answer.outcome === 'claimed' ? answer.tasks.map(itemGrant) : []),
})

function refusalText(
  each: Extract<BatchClaimOutcome, { outcome: 'refused' }>['failed'][number],
  view: View,
): string {
  return each.outcome === 'impossible' ? each.reason : claimText(each, view)
}

const renew = verb({
  name: 'renew',
  noun: 'task',
  operation: 'tasks.renewLease',
  positional: ['ref'],
  holds: 'task',
  text: (task) => `${taskLine(task)}, ${leaseLeft(task.lease?.remainingMs ?? 0)}`,
})

const release = verb({
  name: 'release',
  operation: 'tasks.releaseTask',
  positional: ['ref'],
  holds: 'task',
  isOver: () => true,
  text: (released) => (released ? 'released' : 'not released: nobody held it'),
  json: (released) => ({ released }),
  exit: (released) => (released ? 0 : errorCodes.LEASE_LOST.exit),
})

const update = verb({
  name: 'update',
  noun: 'task',
  operation: 'tasks.updateTask',
  negatable: { owner: 'it has no owner', host: 'it belongs on no particular machine' },
  positional: ['ref'],
  body: 'body',
  holds: 'task',
  isOver: isTaskOver,
  help: '  holdfast task update T-1 --note "the parser is done" --expected-version 3',
  text: (task) => `${taskLine(task)}, version ${task.version}`,
})

const review = verb({
  name: 'review',
  noun: 'task',
  operation: 'tasks.reviewTask',
  positional: ['ref'],
  holds: 'task',
  isOver: isTaskOver,
  text: taskLine,
})

const done = verb({
  name: 'complete',
  noun: 'task',
  operation: 'tasks.completeTask',
  positional: ['ref'],
  body: 'result',
  holds: 'task',
  isOver: isTaskOver,
  text: taskLine,
})

const remove = verb({
  name: 'remove',
  operation: 'tasks.removeTask',
  positional: ['ref'],
  help: "  holdfast task remove T-1 --reason 'the feature was dropped' --dependents release",
  text: (removed, _view, { ref }) => (removed ? `removed ${ref}` : `there is no task "${ref}"`),
  json: (removed) => ({ removed }),
  exit: (removed) => (removed ? 0 : errorCodes.NOT_FOUND.exit),
})

const handoff = verb({
  name: 'handoff',
  operation: 'tasks.handoff',
  negatable: { to: 'they have no owner' },
  summary: 'Release every task you hold, with a note for the next agent.',
  options: [forPid],
  async act(call) {
    const pieces = await inPieces(async (piece) => {
      const answer = await call.execute('tasks.handoff', call.input, piece)
      for (const { id, token } of answer.tasks) call.leases.forget({ kind: 'item', name: id }, token)
      return answer
    })
    return { tasks: pieces.flatMap(({ tasks }) => tasks) }
  },
  text: ({ tasks }) => lines([...tasks.map(({ id }) => id), `released ${tasks.length}`]),
})

const conflict = verb({
  name: 'check-conflict',
  operation: 'tasks.checkUpdateConflict',
  positional: ['ref', 'expectedVersion'],
  text: ({ hasConflict, currentVersion }) =>
    `${hasConflict ? 'changed meanwhile' : 'unchanged'}, version ${currentVersion}`,
  exit: ({ hasConflict }) => (hasConflict ? errorCodes.VERSION_MISMATCH.exit : 0),
})

const lockStatus = verb({
  name: 'lock-status',
  operation: 'tasks.getLockStatus',
  positional: ['ref'],
  async act(call) {
    const hf = await call.open()
    return hf.tasks.getLockStatus(String(call.input.ref))
  },
  text: (status, view) => (status === null ? 'not locked' : statusText(status, view)),
  json: (status) => ({ lock: status }),
})

export function statusText(status: LockStatus, view: View): Drawing {
  const marks = [
    status.isExpired && `expired ${formatDuration(status.expiredMs)} ago`,
    status.isStale && 'stale',
    status.isOrphaned && 'orphaned',
    status.isNear && 'near expiry',
    status.isSuspect && 'suspect',
  ].filter((mark) => mark !== false)
  return view.pairs([
    ['task', status.taskId],
    ['assignee', status.assignee ?? 'an unknown agent'],
    ['since', view.leaseTime(status.assignedAt)],
    ['until', view.leaseTime(status.lockUntil)],
    ['left', status.isExpired ? null : formatDuration(status.remainingMs)],
    ['state', marks.join(', ') || 'held'],
    ['token', status.token],
  ])
}

const cleanupLocks = verb({
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
})

const hints = verb({
  name: 'hints',
  operation: 'tasks.hints',
  text: ({ overlaps, waves, criticalPath }) =>
    lines([
      ...overlaps.map(
        ({ tasks, because, shared }) =>
          `overlap: ${tasks.join(' and ')} by ${because}${shared.length > 0 ? ` (${shared.join(', ')})` : ''}`,
      ),
      ...waves.map((wave, index) => `wave ${index + 1}: ${wave.join(', ')}`),
      ...(criticalPath.length > 0 ? [`longest chain: ${criticalPath.join(' > ')}`] : []),
    ]),
})

export const taskVerbs = [
  add,
  list,
  show,
  claim,
  next,
  claimMany,
  renew,
  release,
  update,
  review,
  done,
  remove,
  handoff,
  conflict,
  lockStatus,
  cleanupLocks,
  hints,
]
