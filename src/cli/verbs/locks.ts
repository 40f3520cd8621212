/** `holdfast locks`: lists everything held, of any kind, reports what looks wrong, and frees what has lapsed. */

import type { StaleLocks } from '../../operations/lease/watch.ts'
import { given } from '../../runtime/session/input.ts'
import { type Drawing, lines } from '../drawing.ts'
import { aboveThreshold } from '../exit.ts'
import { type Column, drawTable } from '../layout.ts'
import { type Verb, verb } from '../verb.ts'
import type { View } from '../view.ts'
import { freedText, healingLines, healingText, linesOption } from './healing-text.ts'
import { expiryText, marksOf } from './lease-marks.ts'

/** More stale leases than this call for an alert. */
const alertDefault = 10

type Detected = StaleLocks & { readonly alertAbove: number }

export const detect = verb({
  name: 'detect',
  operation: 'recovery.detectStaleLocks',
  options: [
    {
      flags: '--alert-above <number>',
      kind: 'integer',
      description: 'exit with 11 if more than this many are stale; default 10',
    },
  ],
  help: 'Changes nothing. Exit code 11: more leases are stale than the threshold allows.',
  async act(call) {
    const { alertAbove = alertDefault } = call.options as { alertAbove?: number }
    const { queue, nearMs, staleMs } = call.input
    const limits = given({ nearMs, staleMs })
    const hf = await call.open()
    const report = await hf.recovery.detectStaleLocks({
      ...limits,
      ...(queue === undefined ? {} : { queue }),
    })
    return { ...report, alertAbove }
  },
  text: detectText,
  exit: ({ staleCount, alertAbove }) => (staleCount > alertAbove ? aboveThreshold : 0),
})

/** The older command, which only reports: no threshold, and always exit code 0. */
export const lockStatus: Verb = { ...detect, name: 'lock-status', options: [], exit: () => 0 }

function detectText(report: Detected, view: View): Drawing {
  const { total, expiredCount, nearExpiryCount, staleCount, orphanedCount, suspectCount, locks } = report
  const counts = `${total} held, ${expiredCount} expired, ${staleCount} stale, ${nearExpiryCount} near expiry, ${orphanedCount} orphaned, ${suspectCount} suspect`
  const patterns = report.crashPatterns.map(
    ({ agent, crashes, lastAt }) =>
      `${agent} lost ${crashes} leases in the last hour, the last at ${view.time(lastAt)}`,
  )
  const table = locks.length === 0 ? [] : [drawTable(leaseColumns, locks, view)]
  return lines([...table, ...patterns, counts])
}

const leaseColumns: readonly Column<StaleLocks['locks'][number]>[] = [
  'kind',
  ['what', 'title'],
  ['holder', 'assignee'],
  ['lease', expiryText],
  ['looks', (lock) => marksOf(lock).join(', ')],
]

export const cleanup = verb({
  name: 'cleanup',
  operation: 'recovery.run',
  summary: 'Reclaim leases that lapsed longer ago than an age, and those of dead holders. Never prompts.',
  hides: ['first', 'only', 'pauseReason', 'queue'],
  options: [{ flags: '--report', description: 'also report what is still held afterwards' }, linesOption],
  help: 'Frees tasks, items, locks and deliveries. A lease that still runs is never touched.\n  */5 * * * * holdfast locks cleanup --max-age 1h --report',
  async act(call) {
    const { dryRun = false, maxAgeMs = 0 } = call.input
    const hf = await call.open()
    const report = await hf.recovery.detectAndRecoverStale({ dryRun, maxAgeMs })
    const healed = healingLines(call, report)
    if (call.options.report !== true) return { ...healed, left: undefined }
    const { total, expiredCount, staleCount, nearExpiryCount } = await hf.recovery.detectStaleLocks()
    return { ...healed, left: { total, expiredCount, staleCount, nearExpiryCount } }
  },
  text(report, view, { dryRun }) {
    const healed = healingText(report, view, freedText(report), dryRun === true)
    const { left } = report
    if (left === undefined) return healed
    return lines([
      healed,
      `${view.time(report.recoveryTimestamp)}  still held ${left.total}, ${left.expiredCount} expired, ${left.staleCount} stale, ${left.nearExpiryCount} near expiry`,
    ])
  },
})

export const verbs = [detect, cleanup]
