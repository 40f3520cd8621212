/**
 * What someone should be told about. Decided from observed facts, and the same for `status`, `doctor` and anything that
 * sends alerts.
 */
import { counted } from './count.ts'
import type { CrashPattern } from './crash-pattern.ts'
import { formatDuration } from './duration.ts'
import { inboxAdapter } from './recipient.ts'

export type AlertCode =
  | 'stale_leases'
  | 'dead_holders'
  | 'recovery_late'
  | 'lease_not_renewed'
  | 'crash_pattern'
  | 'suspect_agent'
  | 'quarantine'
  | 'mostly_failing'
  | 'dead_letters'
  | 'messages_unsent'
  | 'oldest_waiting'

export interface Alert {
  readonly code: AlertCode
  readonly level: 'notice' | 'warning'
  readonly what: string
  /** What to do about it. */
  readonly next: string
}

export interface QueueEndings {
  readonly queue: string
  readonly succeeded: number
  readonly failed: number
  /** The state most of the failed items are in; null if none failed. */
  readonly failedState: string | null
}

export interface AlertFacts {
  /** Leases that expired more than five minutes ago. */
  readonly stale: number
  /** Leases that have expired and are not yet reclaimed, and how long ago the first of them expired. */
  readonly lapsed: number
  readonly lapsedForMs: number
  /** Time since any running process last looked for things to heal; null if none does. */
  readonly sweptAgoMs: number | null
  /** Bound leases whose process is proven dead. */
  readonly orphaned: number
  /** Bound leases in their last third: their process should have renewed them. */
  readonly unrenewed: readonly {
    readonly title: string
    readonly holder: string | null
    readonly remainingMs: number
  }[]
  readonly patterns: readonly CrashPattern[]
  readonly suspects: readonly string[]
  readonly quarantined: readonly { readonly queue: string; readonly count: number }[]
  /** How the most recently finished items of each queue ended, excluding cancelled ones. */
  readonly endings: readonly QueueEndings[]
  readonly deadLetters: number
  /** For each adapter, how long its oldest unsent delivery has been overdue. */
  readonly unsent: readonly { readonly adapter: string; readonly overdueMs: number }[]
  /** Queues that are not paused, with the age of their oldest ready item since it was added. */
  readonly waiting: readonly { readonly queue: string; readonly oldestReadyMs: number }[]
}

/** More stale leases than this are no accident. */
export const maxStale = 10
/** Three sweeps: a running process sweeps every five seconds. */
const sweepLateMs = 15_000
/** An hour in line in a queue that is not paused: there are too few workers, or none. */
const waitingMs = 60 * 60 * 1000

/** How many of the newest finished items tell how a queue is doing. With fewer, one bad minute looks like a trend. */
export const maxNewestClosed = 100
/** One or two bad items are not a pattern. */
export const failingMin = 3

const recover = 'run `holdfast recover`, or keep a process running that has the store open'

export function decideAlerts(facts: AlertFacts): Alert[] {
  return [
    ...leaseAlerts(facts),
    ...facts.patterns.map(({ agent, crashes }) =>
      warning('crash_pattern', `${agent} lost ${crashes} leases in the last hour`, 'check its log'),
    ),
    ...facts.suspects.map((agent) =>
      warning(
        'suspect_agent',
        `the last three grants of ${agent} all ended as crashes`,
        'stop it until the cause is known: it may be the worker, not its work',
      ),
    ),
    ...facts.quarantined.map(({ queue, count }) =>
      warning(
        'quarantine',
        `queue ${queue} has ${counted(count, 'quarantined item')}`,
        `see why with \`holdfast queue quarantine ${queue}\``,
      ),
    ),
    ...facts.endings.filter(isMostlyFailing).map(mostlyFailing),
    ...(facts.deadLetters > 0 ? [deadLetters(facts.deadLetters)] : []),
    ...facts.unsent.map(({ adapter, overdueMs }) => unsent(adapter, formatDuration(overdueMs))),
    ...facts.waiting
      .filter(({ oldestReadyMs }) => oldestReadyMs > waitingMs)
      .map(({ queue, oldestReadyMs }) => {
        const what = `queue ${queue} has unclaimed work that was added ${formatDuration(oldestReadyMs)} ago`
        return notice('oldest_waiting', what, 'start a worker for it')
      }),
  ]
}

function leaseAlerts({ stale, lapsed, lapsedForMs, sweptAgoMs, orphaned, unrenewed }: AlertFacts): Alert[] {
  const isUnswept = sweptAgoMs === null || sweptAgoMs > sweepLateMs
  const lapsedFor = formatDuration(lapsedForMs)
  return [
    ...(stale > maxStale
      ? [warning('stale_leases', `${stale} leases expired over five minutes ago`, recover)]
      : []),
    ...(lapsed > 0 && lapsedForMs > sweepLateMs && isUnswept
      ? [
          warning(
            'recovery_late',
            `${counted(lapsed, 'lapsed lease')} not reclaimed yet, the oldest for ${lapsedFor}`,
            recover,
          ),
        ]
      : []),
    ...(orphaned > 0
      ? [notice('dead_holders', `${counted(orphaned, 'lease')} of dead processes not reclaimed yet`, recover)]
      : []),
    ...unrenewed.map(({ title, holder, remainingMs }) =>
      warning(
        'lease_not_renewed',
        `${holder ?? 'an unknown agent'} has not renewed ${title}; ${formatDuration(remainingMs)} left`,
        'check whether that process is stopped or cut off from the store',
      ),
    ),
  ]
}

function isMostlyFailing({ succeeded, failed }: QueueEndings): boolean {
  return failed >= failingMin && failed > succeeded
}

function mostlyFailing({ queue, succeeded, failed, failedState }: QueueEndings): Alert {
  return warning(
    'mostly_failing',
    `queue ${queue}: ${failed} of the last ${failed + succeeded} finished items failed`,
    `list them with \`holdfast queue list ${queue} --state ${failedState}\`; \`holdfast queue show ${queue} <id>\` has the error and its stack`,
  )
}

function deadLetters(count: number): Alert {
  const what = `too few acknowledged ${counted(count, 'message')}`
  return warning('dead_letters', what, 'see them with `holdfast msg dead`')
}

function unsent(adapter: string, overdue: string): Alert {
  const isInbox = adapter === inboxAdapter
  return warning(
    'messages_unsent',
    `messages${isInbox ? '' : ` for adapter "${adapter}"`} have been due for ${overdue}, and no open process sends them`,
    isInbox
      ? 'keep a process open, or run `holdfast msg retry`'
      : `open a process that has the adapter ${adapter}, or register the recipients with another`,
  )
}

function warning(code: AlertCode, what: string, next: string): Alert {
  return { code, level: 'warning', what, next }
}

function notice(code: AlertCode, what: string, next: string): Alert {
  return { code, level: 'notice', what, next }
}
