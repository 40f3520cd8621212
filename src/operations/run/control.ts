/** Runs under their locks: start, resume, pause, fail, reopen, remove. */
import * as z from 'zod'
import { hasLapsed, type Judging } from '../../domain/lease.ts'
import { assertOwn, type Lock } from '../../domain/lock.ts'
import {
  failRun,
  isOrphanedBy,
  type Outcome,
  type Run,
  reopenRun,
  resumeRun,
  startRun,
  trimRun,
} from '../../domain/run.ts'
import { HeldError, InvalidError, LeaseLostError, NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision, EventDraft } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { pausedRun } from '../lock/lock-change.ts'
import { lockName } from '../lock/name.ts'
import { ask, change, need, operation, reply, type Step } from '../operation.ts'
import { type RunView, runView, viewRun } from './view.ts'

export const runName = lazily(() => fields.name.describe('Name of the run.'))
export const maxOutcomes = 500
export const count = lazily(() => fields.whole(0, 1_000_000_000))
export const total = lazily(() => count().optional().describe('How many items there are.'))
export const cursor = lazily(() => fields.json().optional().describe('Where to continue; any JSON.'))

export const runOf = ({ run }: { run: string }) => need({ known: { select: 'runsByName', runs: [run] } })

export function requireRun(known: readonly Run[], run: string): Run {
  const [found] = known
  if (found) return found
  throw new NotFoundError({
    what: `there is no run "${run}"`,
    next: 'start it first, or check the name',
    facts: { run },
  })
}

/** The lock's current grant. It must have been taken for this run, or the end of the lock would not pause the run. */
function requireGrant(
  run: string,
  name: string,
  locks: readonly Lock[],
  token: number | undefined,
  context: Context,
): Lock {
  const lock = assertOwn(name, locks, { ...context, token })
  if (lock.run === run) return lock
  throw new InvalidError({
    what: `lock ${name} is held for ${lock.run === null ? 'no run' : `run ${lock.run}`}, not for ${run}`,
    next: `acquire it with run: "${run}"`,
    facts: { lock: name, run: lock.run },
  })
}

/** Refuses a record from any grant but the one that the run continues under. */
export function assertGrant(
  progress: Run,
  locks: readonly Lock[],
  token: number | undefined,
  context: Context,
): void {
  const lock = assertOwn(progress.lock, locks, { ...context, token })
  if (lock.token === progress.token) return
  throw new LeaseLostError({
    subject: `run ${progress.run}`,
    token: lock.token,
    currentToken: progress.token,
    holder: null,
    reason: 'it has not been resumed under this grant',
  })
}

function changedRun(
  before: Run | null,
  after: Run,
  kind: EventDraft['kind'],
  context: Context,
  detail?: EventDraft['detail'],
): Decision<RunView> {
  return {
    changes: [change('run', before, after, kind, context, detail)],
    result: viewRun(after, context.now),
  }
}

/** What most operations on one run have in common. Their answer has the token of the lock, so it is not for others. */
export const runWrite = { effect: 'write', agentIdentifies: 'request' } as const

export const start = operation({
  name: 'runs.start',
  summary: 'Start a run under the lock that is held for it.',
  ...runWrite,
  input: () => ({
    run: runName(),
    lock: lockName(),
    token: fields.token,
    total: total(),
    cursor: cursor(),
    completion: z
      .enum(['processed', 'successful'])
      .optional()
      .describe('Completed when all are processed (default), or only when none failed.'),
  }),
  output: runView,
  needs: ({ run, lock }) => ({ ...runOf({ run }), locks: { select: 'lock', name: lock } }),
  decide({ known, locks }, input, context) {
    const { token } = requireGrant(input.run, input.lock, locks, input.token, context)
    const request = {
      run: input.run,
      lock: input.lock,
      token,
      total: input.total ?? null,
      cursor: input.cursor ?? null,
      completion: input.completion ?? 'processed',
    }
    const after = startRun(known[0] ?? null, request, context)
    return changedRun(null, after, 'run.started', context)
  },
})

export const resume = operation({
  name: 'runs.resume',
  summary: 'Resume a paused or failed run, under the lock that is held for it now.',
  ...runWrite,
  input: () => ({ run: runName(), lock: lockName(), token: fields.token, total: total() }),
  output: runView,
  needs: ({ run, lock }) => ({ ...runOf({ run }), locks: { select: 'lock', name: lock } }),
  decide({ known, locks }, input, context): Step<RunView> {
    const before = requireRun(known, input.run)
    const { token } = requireGrant(input.run, input.lock, locks, input.token, context)
    return ask({ others: { select: 'lock', name: before.lock } }, ({ others }) => {
      const grant = { lock: input.lock, token }
      if (isOrphanedBy(before, grant)) assertLost(before, others, context)
      const after = resumeRun(before, { ...grant, total: input.total }, context)
      const kind = after.status === 'completed' ? 'run.completed' : 'run.resumed'
      return changedRun(before, after, kind, context)
    })
  },
})

/** Nobody may take over a run while its holder's lock is still live, even under another lock's name. */
function assertLost(progress: Run, locks: readonly Lock[], at: Judging): void {
  const holding = locks.find((lock) => lock.token === progress.token && !hasLapsed(lock, at))
  if (!holding) return
  throw new HeldError({
    subject: `run ${progress.run}`,
    holder: holding.agent ?? 'an unknown agent',
    expiresAt: holding.expiresAt,
  })
}

export const pause = operation({
  name: 'runs.pause',
  summary: 'Pause a run before its next item. Anybody may. A no-op when it is already paused.',
  ...runWrite,
  tokenIdentifies: 'request',
  input: () => ({
    run: runName(),
    reason: fields.reason,
    token: fields.token.describe('Only if it runs under this token, so that a runner pauses only its own.'),
  }),
  output: runView,
  needs: runOf,
  decide({ known }, { run, reason, token }, context): Step<RunView> {
    const before = requireRun(known, run)
    return ask({ locks: { select: 'lock', name: before.lock } }, ({ locks }) => {
      if (token !== undefined) assertGrant(before, locks, token, context)
      if (before.status === 'paused') return reply(viewRun(before, context.now))
      const paused = pausedRun(before, reason ?? `paused by ${context.agent}`, context)
      return { changes: [paused], result: viewRun(paused.after as Run, context.now) }
    })
  },
})

export const fail = operation({
  name: 'runs.fail',
  summary: 'Fail a run, with a reason. It can be resumed.',
  ...runWrite,
  input: () => ({
    run: runName(),
    token: fields.token,
    reason: fields.reason.unwrap().describe('Why; kept in the audit trail.'),
  }),
  output: runView,
  needs: runOf,
  decide({ known }, { run, token, reason }, context): Step<RunView> {
    const before = requireRun(known, run)
    return ask({ locks: { select: 'lock', name: before.lock } }, ({ locks }) => {
      assertGrant(before, locks, token, context)
      const after = failRun(before, reason, context)
      return changedRun(before, after, 'run.failed', context, { reason })
    })
  },
})

export const reopen = operation({
  name: 'runs.reopen',
  summary: 'Reopen a completed run for more items; it is paused with a new total, ready to resume.',
  ...runWrite,
  input: () => ({
    run: runName(),
    total: count().optional().describe('How many items there are now, where that is known.'),
  }),
  output: runView,
  needs: runOf,
  decide({ known }, { run, total: items }, context) {
    const before = requireRun(known, run)
    const after = reopenRun(before, items ?? null, context)
    return changedRun(before, after, 'run.reopened', context)
  },
})

const maxRemoved = 500

export const remove = operation({
  name: 'runs.remove',
  summary: 'Remove a run that is not running, with its outcomes; at most 500 outcomes per call.',
  effect: 'admin',
  input: () => ({ run: runName() }),
  output: () => z.object({ removed: z.boolean(), more: z.boolean() }),
  needs: ({ run }) => ({
    ...runOf({ run }),
    page: { select: 'outcomesOf', run, outcome: null, after: null, limit: maxRemoved },
  }),
  decide({ known: [before], page }, { run: name }, context) {
    if (!before) return reply({ removed: false, more: false })
    if (before.status === 'running') {
      throw new InvalidError({ what: `run ${name} is running`, next: 'pause it first', facts: { run: name } })
    }
    const more = page.next !== null
    // The items go first: if they outlived their run, it would look as if nothing had been done.
    const run = more ? [] : [change('run', before, null, 'run.removed', context)]
    return { changes: [...removedOutcomes(page.rows, context), ...run], result: { removed: true, more } }
  },
})

/**
 * Retention of a completed run, which is trimmed together with the first of its items. If the items went first, those
 * already gone would look as if they had never been done.
 */
export function trimmedRun(run: Run, outcomes: readonly Outcome[], context: Context): Change[] {
  const isTrimmed = run.outcomesRemovedAt !== null
  const trimmed = change('run', run, trimRun(run, context), 'run.trimmed', context)
  return [...(isTrimmed ? [] : [trimmed]), ...removedOutcomes(outcomes, context)]
}

function removedOutcomes(outcomes: readonly Outcome[], context: Context): Change[] {
  return outcomes.map((before) => change('outcome', before, null, 'outcome.removed', context))
}
