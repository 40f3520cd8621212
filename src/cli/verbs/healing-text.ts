/** What healing did: a dated line for each thing freed and one for the total, suitable for a cron job's log. */
import { counted } from '../../domain/count.ts'
import type { RecoveryStats } from '../../operations/recovery/stats.ts'
import type { StoreRecoveryReport } from '../../runtime/session/recovery.ts'
import { type Drawing, lines } from '../drawing.ts'
import type { Detail } from '../layout.ts'
import type { Call, OwnOption } from '../verb.ts'
import type { View } from '../view.ts'

export type Healing = Pick<StoreRecoveryReport, 'reclaimed' | 'recoveryTimestamp'>

export const linesOption: OwnOption = {
  flags: '--lines',
  description: 'with --json: a line for each thing that was freed, then one for the whole',
}

export function healingText(
  { reclaimed, recoveryTimestamp }: Healing,
  view: View,
  summary: string,
  isDryRun: boolean,
): Drawing {
  const at = view.time(recoveryTimestamp)
  const did = isDryRun ? 'would free' : 'freed'
  return lines([
    ...reclaimed.map(
      ({ kind, id, namespace, holder, evidence }) =>
        `${at}  ${did} ${kind} ${id}${namespace === undefined ? '' : ` in ${namespace}`} of ${holder ?? 'an unknown agent'}: ${evidence}`,
    ),
    `${at}  ${did} ${summary}`,
  ])
}

/** What was freed, by kind. */
export function freedText(counts: {
  readonly entriesReclaimed: number
  readonly locksCleaned: number
  readonly messagesReclaimed?: number
}): string {
  const kinds = [counted(counts.entriesReclaimed, 'item'), counted(counts.locksCleaned, 'lock')]
  if (counts.messagesReclaimed !== undefined) kinds.push(counted(counts.messagesReclaimed, 'delivery'))
  return kinds.join(', ')
}

/** With `--json --lines`, prints each freed thing as its own record; the returned report then has only the totals. */
export function healingLines<Report extends Healing>(
  call: Pick<Call<'recovery.run' | 'queue.reclaimStale'>, 'isJson' | 'options' | 'input' | 'emit'>,
  report: Report,
): Report {
  if (!call.isJson || call.options.lines !== true) return report
  const { recoveryTimestamp } = report
  const action = call.input.dryRun === true ? 'would free' : 'freed'
  for (const each of report.reclaimed) call.emit('', { at: recoveryTimestamp, action, ...each })
  return { ...report, reclaimed: [] }
}

export const recoveryDetails: readonly Detail<RecoveryStats>[] = [
  ['due now', freedText],
  ['last run', ({ lastRun }, view) => lastRun && `${byWhom(lastRun, view)}: ${freedText(lastRun)}`],
  ['in all', ({ totals }) => freedText(totals)],
  [
    'failures',
    ({ totals, lastError }, view) =>
      lastError && `${totals.failures}; the last ${byWhom(lastError, view)}: ${lastError.error}`,
  ],
  ['last look', 'lastSweptAt'],
]

function byWhom(
  { at, by, trigger }: NonNullable<RecoveryStats['lastRun' | 'lastError']>,
  view: View,
): string {
  return `${view.time(at)} by ${by} (${trigger})`
}
