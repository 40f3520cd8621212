/** `holdfast recover`. */
import { counted } from '../../domain/count.ts'
import { verb } from '../verb.ts'
import { freedText, healingLines, healingText, linesOption } from './healing-text.ts'

export const recover = verb({
  name: 'recover',
  operation: 'recovery.run',
  summary: 'Reclaim what has lapsed and what dead holders held, and make due items ready. Never prompts.',
  hides: ['first', 'only', 'pauseReason', 'queue'],
  options: [
    { flags: '--all-namespaces', description: 'in the whole store, not just one namespace' },
    linesOption,
  ],
  help: 'Safe to run as often as you like, from any number of processes: each thing is freed once.\n  * * * * * holdfast recover',
  async act(call) {
    const { dryRun = false, maxAgeMs = 0 } = call.input
    const hf = await call.open()
    const allNamespaces = call.options.allNamespaces === true
    return healingLines(call, await hf.recovery.detectAndRecoverStale({ dryRun, maxAgeMs, allNamespaces }))
  },
  text(report, view, { dryRun }) {
    const beside = [
      report.promoted > 0 && `made ${counted(report.promoted, 'due item')} ready`,
      report.waitersRemoved > 0 && `removed ${counted(report.waitersRemoved, 'waiter')}`,
      report.runsPaused > 0 && `paused ${counted(report.runsPaused, 'run')}`,
    ].filter((part) => part !== false)
    return healingText(report, view, [freedText(report), ...beside].join('; '), dryRun === true)
  },
})
