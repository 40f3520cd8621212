/** The progress of a run, on one line. */
import type { RunView } from '../../operations/run/view.ts'
import { formatDuration } from '../duration.ts'

const barWidth = 20

export function runLine(run: RunView): string {
  return `${run.run}  ${run.status}  ${progressBar(run)}`
}

export function progressBar(run: RunView): string {
  const { processed, total, failed, status, etaMs } = run
  const counts = total === null ? `${processed} done` : `${processed} of ${total}`
  const bar = total === null || total === 0 ? '' : `${drawBar(processed / total)} `
  const rest = [
    failed > 0 ? `${failed} failed` : null,
    status === 'running' && etaMs !== null ? `${formatDuration(etaMs)} to go` : null,
    run.pauseReason,
  ].filter((part) => part)
  return `${bar}${[counts, ...rest].join(', ')}`
}

export function drawBar(share: number, width = barWidth): string {
  const full = Math.round(Math.min(1, share) * width)
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}`
}
