/**
 * A run under its lock: counts that only the lock's holder may raise, a cursor, and whether it is running.
 * A pause overrides everything the runner still reports, but counts of work already done are kept.
 *
 * Not promised: that an item is processed only once. Work done after the last record is done again.
 */
import { IllegalMoveError } from '../errors.ts'
import { counted } from './count.ts'
import type { Clocks } from './item.ts'
import type { Json } from './json.ts'

export type RunStatus = 'running' | 'paused' | 'completed' | 'failed'

export const runMoves = {
  running: ['paused', 'completed', 'failed'],
  paused: ['running'],
  failed: ['running'],
  // Only by reopening it, when more items have arrived.
  completed: ['paused'],
} as const satisfies Record<RunStatus, readonly RunStatus[]>

export interface Counts {
  readonly done: number
  readonly failed: number
  readonly skipped: number
}

export interface Run extends Counts {
  readonly run: string
  /** Name of the lock it runs under. */
  readonly lock: string
  /** Token of the grant that may write. */
  readonly token: number
  readonly status: RunStatus
  /** How many items there are; null while unknown. */
  readonly total: number | null
  /** Where to continue; only the runner interprets it. */
  readonly cursor: Json | null
  /** `processed`: complete once every item is processed. `successful`: only once none of them is left failed. */
  readonly completion: 'processed' | 'successful'
  /** Why it is not running; null while it is, and when it is completed. */
  readonly pauseReason: string | null
  readonly startedAt: number
  readonly updatedAt: number
  readonly endedAt: number | null
  /** When the outcomes of its items were removed; retention keeps the rest of a completed run longer. */
  readonly outcomesRemovedAt: number | null
  /** Lease clock; null while it is not running. */
  readonly runningSince: number | null
  /** How long it ran before that, excluding pauses. */
  readonly activeMs: number
  readonly version: number
}

export interface Outcome {
  /** `run|key`; a run's name cannot contain a bar. */
  readonly id: string
  readonly run: string
  readonly key: string
  readonly outcome: keyof Counts
  readonly error: string | null
  readonly at: number
  readonly version: number
}

export function outcomeId(run: string, key: string): string {
  return `${run}|${key}`
}

export type StartRequest = Pick<Run, 'run' | 'lock' | 'token' | 'total' | 'cursor' | 'completion'>

/**
 * Starts a new run. An existing run must be resumed instead, so that nobody loses its record of finished work by
 * accident.
 */
export function startRun(known: Run | null, request: StartRequest, at: Clocks): Run {
  if (known) throw illegal(known, 'running', 'resume it, or start a run under another name')
  return complete(
    {
      ...request,
      status: 'running',
      done: 0,
      failed: 0,
      skipped: 0,
      pauseReason: null,
      startedAt: at.wall,
      updatedAt: at.wall,
      endedAt: null,
      outcomesRemovedAt: null,
      runningSince: at.now,
      activeMs: 0,
      version: 1,
    },
    at,
  )
}

/** Continues under a new grant with the remaining work. A run whose holder was lost counts as paused. */
export function resumeRun(
  known: Run,
  request: { lock: string; token: number; total: number | null | undefined },
  at: Clocks,
): Run {
  if (!isOrphanedBy(known, request) && !mayMove(known, 'running'))
    throw illegal(
      known,
      'running',
      known.status === 'completed' ? 'reopen it first' : 'it is already running',
    )
  const { lock, token, total = known.total } = request
  return complete(
    {
      ...settleTime(known, at),
      lock,
      token,
      total,
      status: 'running',
      pauseReason: null,
      runningSince: at.now,
      version: known.version + 1,
    },
    at,
  )
}

/** Whether it is recorded as running under a different grant. Tokens are comparable only within one lock. */
export function isOrphanedBy(known: Run, { lock, token }: { lock: string; token: number }): boolean {
  return known.status === 'running' && (known.lock !== lock || known.token !== token)
}

/** Adds to the counts in any state, because the work was done. The state changes only while it is running. */
export function recordRun(
  known: Run,
  more: Partial<Counts> & { cursor?: Json | null | undefined; total?: number | undefined },
  at: Clocks,
): Run {
  const after = {
    ...known,
    done: known.done + (more.done ?? 0),
    failed: known.failed + (more.failed ?? 0),
    skipped: known.skipped + (more.skipped ?? 0),
    cursor: more.cursor === undefined ? known.cursor : more.cursor,
    total: more.total ?? known.total,
    updatedAt: at.wall,
    version: known.version + 1,
  }
  return known.status === 'running' ? complete(after, at) : after
}

/** Null if it is already paused. */
export function pauseRun(known: Run, reason: string, at: Clocks): Run | null {
  if (known.status === 'paused') return null
  if (known.status !== 'running') throw illegal(known, 'paused', 'there is nothing to pause')
  return halt(known, 'paused', reason, at)
}

/** The runner gave up. */
export function failRun(known: Run, reason: string, at: Clocks): Run {
  if (!mayMove(known, 'failed')) throw illegal(known, 'failed', 'only a run in progress can fail')
  return halt(known, 'failed', reason, at)
}

/** More items arrived after it completed; `total` is null if their number is unknown. It stays paused until resumed. */
export function reopenRun(known: Run, total: number | null, at: Clocks): Run {
  if (known.status !== 'completed') throw illegal(known, 'paused', 'only a completed run can be reopened')
  if (known.outcomesRemovedAt !== null)
    throw illegal(
      known,
      'paused',
      'the outcomes of its items are no longer kept; start a run under another name',
    )
  const reason = total === null ? 'reopened for more items' : `reopened with ${counted(total, 'item')}`
  return { ...halt(known, 'paused', reason, at), total }
}

/** Reduces a completed run to its status and counts, once the outcomes of its items are removed. */
export function trimRun(known: Run, at: Clocks): Run {
  return { ...known, cursor: null, outcomesRemovedAt: at.wall, version: known.version + 1 }
}

/** What these outcomes add to the counts: each key counts once, by its latest outcome. */
export function countOutcomes(
  given: readonly Pick<Outcome, 'id' | 'outcome'>[],
  known: ReadonlyMap<string, Pick<Outcome, 'outcome'>>,
): Counts {
  const counts = { done: 0, failed: 0, skipped: 0 }
  for (const { id, outcome } of given) {
    const before = known.get(id)
    if (before) counts[before.outcome]--
    counts[outcome]++
  }
  return counts
}

export function processedOf({ done, failed, skipped }: Counts): number {
  return done + failed + skipped
}

/** Items per second and time left, based on active time only; null while unknown. */
export function paceOf(run: Run, now: number): { ratePerSecond: number | null; etaMs: number | null } {
  const processed = processedOf(run)
  const activeMs = activeFor(run, now)
  if (processed === 0 || activeMs === 0) return { ratePerSecond: null, etaMs: null }
  const left = run.total === null ? null : Math.max(0, run.total - processed)
  return {
    ratePerSecond: (processed / activeMs) * 1000,
    etaMs: left === null ? null : Math.round((left * activeMs) / processed),
  }
}

/** Default concurrency: low for small runs, so that they are not one burst. */
export function concurrencyFor(total: number): number {
  if (total <= 3) return Math.max(1, total)
  const [, concurrency] = concurrencies.find(([most]) => total <= most) as [number, number]
  return concurrency
}

const concurrencies = [
  [20, 3],
  [50, 5],
  [100, 8],
  [200, 10],
  [500, 15],
  [Number.POSITIVE_INFINITY, 20],
] as const

function mayMove(known: Run, to: RunStatus): boolean {
  return (runMoves[known.status] as readonly RunStatus[]).includes(to)
}

/**
 * Completes a run that has processed everything. If all items must succeed, the failed ones still count as unfinished.
 */
function complete(running: Run, at: Clocks): Run {
  const { total, completion } = running
  const finished = completion === 'successful' ? running.done + running.skipped : processedOf(running)
  if (total === null || finished < total) return running
  return { ...settleTime(running, at), status: 'completed', endedAt: at.wall }
}

function halt(known: Run, status: 'paused' | 'failed', reason: string, at: Clocks): Run {
  return {
    ...settleTime(known, at),
    status,
    pauseReason: reason,
    endedAt: null,
    version: known.version + 1,
  }
}

function settleTime(known: Run, at: Clocks): Run {
  return { ...known, activeMs: activeFor(known, at.now), runningSince: null, updatedAt: at.wall }
}

function activeFor({ activeMs, runningSince }: Run, now: number): number {
  return activeMs + (runningSince === null ? 0 : Math.max(0, now - runningSince))
}

function illegal(known: Run, to: RunStatus, next: string): IllegalMoveError {
  return new IllegalMoveError({ subject: `run ${known.run}`, from: known.status, to }, next)
}
