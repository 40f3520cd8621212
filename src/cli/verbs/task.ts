/** `holdfast task`. */

import { quotedWord } from '../../domain/shell-word.ts'
import { taskQueue } from '../../domain/task.ts'
import { errorCodes } from '../../error-codes.ts'
import type {
  BatchClaimOutcome,
  NextTaskOutcome,
  TaskClaimOutcome,
} from '../../operations/task/claim-outcome.ts'
import type { TaskView } from '../../operations/task/view.ts'
import { inPieces } from '../../runtime/session/input.ts'
import { lines, textLines } from '../drawing.ts'
import { type Column, type Detail, drawTable } from '../layout.ts'
import { verb } from '../verb.ts'
import { leaseLeft, type View } from '../view.ts'
import { forPid } from './claim-options.ts'
import { holderText, itemGrant, leaseDetails, quarantineText, refusalText, taskLine } from './item-text.ts'
import { taskLockVerbs } from './task-lock.ts'
import { claimWaiting, waitOption } from './wait.ts'

const taskColumns: readonly Column<TaskView>[] = [
  ['task', ({ id, key }) => key ?? id],
  ['status', ({ status, waitingFor }) => (waitingFor.length > 0 ? `${status} (waits)` : status)],
  ['pri', 'priority'],
  ['assignee', ({ lease }, view) => holderText(lease, view)],
  'title',
]

const taskDetails: readonly Detail<TaskView>[] = [
  'id',
  'key',
  'title',
  'status',
  'priority',
  'labels',
  'paths',
  'owner',
  [
    'offered to',
    ({ offeredTo, offeredUntil }, view) =>
      offeredTo && `${offeredTo} alone, until ${view.time(offeredUntil)}`,
  ],
  'host',
  ['assignee', ({ lease }, view) => holderText(lease, view)],
  ...leaseDetails,
  ['waits for', 'waitingFor'],
  ['quarantine', quarantineText],
  'attempts',
  'progress',
  'result',
  [
    'created',
    ({ createdAt, createdBy }, view) => `${view.time(createdAt)} by ${createdBy ?? 'an unknown agent'}`,
  ],
  ['done', 'completedAt'],
  'version',
  ['note', ({ notes }, view) => notes.map(({ at, by, text }) => `${view.time(at)} ${by}: ${text}`)],
]

function claimText(claim: TaskClaimOutcome | NextTaskOutcome, view: View): string {
  if (claim.outcome === 'claimed')
    return `${taskLine(claim.task)}  token ${claim.task.token}${claim.renewed ? ' (already yours)' : ''}`
  const why = refusalText(claim, view)
  return claim.outcome === 'offered' ? `${why}; --force takes it` : why
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

function batchRefusal(
  each: Extract<BatchClaimOutcome, { outcome: 'refused' }>['failed'][number],
  view: View,
): string {
  return each.outcome === 'impossible' ? each.reason : claimText(each, view)
}

export const verbs = [
  verb({
    name: 'add',
    operation: 'tasks.addTask',
    makesStore: 'always',
    body: 'body',
    help: "  holdfast task add 'Fix the flaky login test' --key T-1 --label bug --path src/login.ts",
  }),
  verb({
    name: 'list',
    operation: 'tasks.listTasks',
    negatable: {
      owner: 'only tasks without an owner',
      host: 'only tasks that belong on no particular machine',
    },
    columns: taskColumns,
  }),
  verb({
    name: 'show',
    operation: 'tasks.getTask',
    summary: 'Show a task by id or key.',
    missing: ({ ref }) => `there is no task "${ref}"`,
    details: taskDetails,
    below: ({ body }) => (body === '' ? null : textLines(body, '  ')),
  }),
  verb({
    name: 'claim',
    operation: 'tasks.claimTaskForAgent',
    ...claimed,
  }),
  verb({
    name: 'next',
    operation: 'tasks.claimNext',
    act: (call) => claimWaiting(call, 'tasks.claimNext', { queue: taskQueue, wanted: call.input }),
    negatable: {
      owner: 'only tasks without an owner',
      host: 'only tasks that belong on no particular machine',
    },
    help: 'Exit code 6: nothing fits; 4: the limit of held tasks is reached; 9: tasks are paused.',
    ...claimed,
    options: [forPid, waitOption],
  }),
  verb({
    name: 'claim-many',
    operation: 'tasks.batchClaim',
    options: [forPid],
    text(answer, view) {
      if (answer.outcome === 'claimed') return drawTable(taskColumns, answer.tasks, view)
      if (answer.outcome === 'paused') return refusalText(answer, view)
      const refusals = answer.failed.map((each) => `${each.ref}  ${batchRefusal(each, view)}`)
      return lines(['none claimed', ...refusals])
    },
    grants: (answer) => (answer.outcome === 'claimed' ? answer.tasks.map(itemGrant) : []),
  }),
  verb({
    name: 'renew',
    operation: 'tasks.renewLease',
    text: (task) => `${taskLine(task)}, ${leaseLeft(task.lease?.remainingMs ?? 0)}`,
  }),
  verb({
    name: 'release',
    noun: 'released',
    operation: 'tasks.releaseTask',
    isOver: () => true,
    says: { yes: 'released', no: 'not released: nobody held it', exit: 'LEASE_LOST' },
  }),
  verb({
    name: 'update',
    operation: 'tasks.updateTask',
    negatable: { owner: 'it has no owner', host: 'it belongs on no particular machine' },
    body: 'body',
    // By another status, a former holder would still report its work.
    needsNoLease: ({ status }) => status === undefined,
    help: '  holdfast task update T-1 --note "the parser is done" --expected-version 3',
    text: (task) => `${taskLine(task)}, version ${task.version}`,
  }),
  verb({ name: 'review', operation: 'tasks.reviewTask' }),
  verb({
    name: 'complete',
    operation: 'tasks.completeTask',
    body: 'result',
  }),
  verb({
    name: 'remove',
    noun: 'removed',
    operation: 'tasks.removeTask',
    positional: ['ref'],
    help: "  holdfast task remove T-1 --reason 'the feature was dropped' --dependents release",
    says: { yes: 'removed <ref>', no: 'there is no task "<ref>"', exit: 'NOT_FOUND' },
  }),
  verb({
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
  }),
  verb({
    name: 'check-conflict',
    operation: 'tasks.checkUpdateConflict',
    text: ({ hasConflict, currentVersion }) =>
      `${hasConflict ? 'changed meanwhile' : 'unchanged'}, version ${currentVersion}`,
    exit: ({ hasConflict }) => (hasConflict ? errorCodes.VERSION_MISMATCH.exit : 0),
  }),
  ...taskLockVerbs,
  verb({
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
  }),
]
