/** Progress of a run under its lock: start, resume, pause, fail, reopen, remove. */
import * as z from 'zod'
import { isExpired } from '../../domain/lease.ts'
import { assertOwn, type Lock } from '../../domain/lock.ts'
import {
  failProgress,
  isOrphanedBy,
  type Outcome,
  type Progress,
  reopenProgress,
  resumeProgress,
  startProgress,
  trimProgress,
} from '../../domain/progress.ts'
import { HeldError, InvalidError, LeaseLostError, NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { lockName } from '../lock/name.ts'
import { pausedRun } from '../lock/run.ts'
import { ask, change, type OutputOf, operation, reply, type Step } from '../operation.ts'
import { progressView, viewProgress } from './view.ts'

export const runName = lazily(() => fields.name.describe('Name of the run.'))
export const maxOutcomes = 500
export const count = lazily(() => z.int().min(0).max(1_000_000_000))
export const total = lazily(() => count().optional().describe('How many items there are.'))
export const cursor = lazily(() => fields.json().optional().describe('Where to continue; any JSON.'))
const why = fields.reason

export const runOf = ({ run }: { run: string }) => ({ known: { select: 'runsByName', runs: [run] } as const })

export function requireRun(known: readonly Progress[], run: string): Progress {
  const [progress] = known
  if (progress) return progress
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
  progress: Progress,
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

export const start = operation({
  name: 'runs.start',
  summary: 'Start a run under the lock that is held for it.',
  effect: 'write',
  // The answer has the token of the lock.
  agentIdentifies: 'request',
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
  output: progressView,
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
    const after = startProgress(known[0] ?? null, request, context)
    return {
      changes: [change('run', null, after, 'run.started', context)],
      result: viewProgress(after, context.now),
    }
  },
})

export const resume = operation({
  name: 'runs.resume',
  summary: 'Resume a paused or failed run, under the lock that is held for it now.',
  effect: 'write',
  // The answer has the token of the lock.
  agentIdentifies: 'request',
  input: () => ({ run: runName(), lock: lockName(), token: fields.token, total: total() }),
  output: progressView,
  needs: ({ run, lock }) => ({ ...runOf({ run }), locks: { select: 'lock', name: lock } }),
  decide({ known, locks }, input, context): Step<OutputOf<typeof progressView>> {
    const before = requireRun(known, input.run)
    const { token } = requireGrant(input.run, input.lock, locks, input.token, context)
    return ask({ others: { select: 'lock', name: before.lock } }, ({ others }) => {
      const grant = { lock: input.lock, token }
      if (isOrphanedBy(before, grant)) assertLost(before, others, context.now)
      const after = resumeProgress(before, { ...grant, total: input.total }, context)
      const kind = after.status === 'completed' ? 'run.completed' : 'run.resumed'
      return {
        changes: [change('run', before, after, kind, context)],
        result: viewProgress(after, context.now),
      }
    })
  },
})

/** Nobody may take over a run while its holder's lock is still live, even under another lock's name. */
function assertLost(progress: Progress, locks: readonly Lock[], now: number): void {
  const holding = locks.find((lock) => lock.token === progress.token && !isExpired(lock, now))
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
  effect: 'write',
  // The answer has the token of the lock.
  agentIdentifies: 'request',
  tokenIdentifies: 'request',
  input: () => ({
    run: runName(),
    reason: why,
    token: fields.token.describe('Only if it runs under this token, so that a runner pauses only its own.'),
  }),
  output: progressView,
  needs: runOf,
  decide({ known }, { run, reason, token }, context): Step<OutputOf<typeof progressView>> {
    const before = requireRun(known, run)
    return ask({ locks: { select: 'lock', name: before.lock } }, ({ locks }) => {
      if (token !== undefined) assertGrant(before, locks, token, context)
      if (before.status === 'paused') return reply(viewProgress(before, context.now))
      const paused = pausedRun(before, reason ?? `paused by ${context.agent}`, context)
      return { changes: [paused], result: viewProgress(paused.after as Progress, context.now) }
    })
  },
})

export const fail = operation({
  name: 'runs.fail',
  summary: 'Fail a run, with a reason. It can be resumed.',
  effect: 'write',
  // The answer has the token of the lock.
  agentIdentifies: 'request',
  input: () => ({
    run: runName(),
    token: fields.token,
    reason: why.unwrap().describe('Why; kept in the audit trail.'),
  }),
  output: progressView,
  needs: runOf,
  decide({ known }, { run, token, reason }, context): Step<OutputOf<typeof progressView>> {
    const before = requireRun(known, run)
    return ask({ locks: { select: 'lock', name: before.lock } }, ({ locks }) => {
      assertGrant(before, locks, token, context)
      const after = failProgress(before, reason, context)
      return {
        changes: [change('run', before, after, 'run.failed', context, { reason })],
        result: viewProgress(after, context.now),
      }
    })
  },
})

export const reopen = operation({
  name: 'runs.reopen',
  summary: 'Reopen a completed run for more items; it is paused with a new total, ready to resume.',
  effect: 'write',
  // The answer has the token of the lock.
  agentIdentifies: 'request',
  input: () => ({
    run: runName(),
    total: count().optional().describe('How many items there are now, where that is known.'),
  }),
  output: progressView,
  needs: runOf,
  decide({ known }, { run, total: items }, context) {
    const before = requireRun(known, run)
    const after = reopenProgress(before, items ?? null, context)
    return {
      changes: [change('run', before, after, 'run.reopened', context)],
      result: viewProgress(after, context.now),
    }
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
  decide({ known, page }, { run }, context) {
    const [before] = known
    if (!before) return reply({ removed: false, more: false })
    if (before.status === 'running') {
      throw new InvalidError({ what: `run ${run} is running`, next: 'pause it first', facts: { run } })
    }
    return {
      changes: removedRun(before, page.rows, page.next === null, context),
      result: { removed: true, more: page.next !== null },
    }
  },
})

/** Removes the items first: if items outlived their run, it would look as if nothing had been done. */
function removedRun(
  run: Progress,
  outcomes: readonly Outcome[],
  isWhole: boolean,
  context: Context,
): Change[] {
  const removed = change('run', run, null, 'run.removed', context)
  return [...removedOutcomes(outcomes, context), ...(isWhole ? [removed] : [])]
}

/**
 * Retention of a completed run, which is trimmed together with the first of its items. If the items went first, those
 * already gone would look as if they had never been done.
 */
export function trimmedRun(run: Progress, outcomes: readonly Outcome[], context: Context): Change[] {
  const isTrimmed = run.outcomesRemovedAt !== null
  const trimmed = change('run', run, trimProgress(run, context), 'run.trimmed', context)
  return [...(isTrimmed ? [] : [trimmed]), ...removedOutcomes(outcomes, context)]
}

function removedOutcomes(outcomes: readonly Outcome[], { agent }: Context): Change[] {
  return outcomes.map((before) => change('outcome', before, null, 'outcome.removed', { agent }))
}
