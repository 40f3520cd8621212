/** What recovery does around locks: lost waiters leave the line, and runs whose lock ended are paused. */
import type { Lock } from '../../domain/lock.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import type { Progress } from '../../domain/progress.ts'
import { type Deaths, evidenceOfLoss, type Reclaimed } from '../../domain/recovery.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { pausedRun, pausedRuns } from '../lock/run.ts'

export const lineNeeds = (instances: readonly string[], limit: number) => ({
  waiters: { select: 'lapsedWaiters', limit } as const,
  orphanWaiters: instances.length > 0 ? ({ select: 'waitersOfInstances', instances, limit } as const) : null,
  orphanRuns: { select: 'orphanedRuns', limit } as const,
})

export interface HealedLines {
  readonly changes: readonly Change[]
  /** The waiters that left. */
  readonly left: readonly Waiter[]
  readonly waitersRemoved: number
  readonly progressPaused: number
}

export function healLines(
  lost: {
    readonly waiters: readonly Waiter[]
    readonly locks: readonly Reclaimed<Lock>[]
    /** The runs of these locks. */
    readonly runs: readonly Progress[]
    /** Runs that already had no lock. */
    readonly orphans: readonly Progress[]
  },
  deaths: Deaths,
  { trigger, pauseReason = 'its lock was lost' }: { trigger: string; pauseReason?: string | undefined },
  context: Context,
): HealedLines {
  const reasonFor = (evidence: string) => `${pauseReason}: ${evidence}`
  const gone = lost.waiters.flatMap((waiter): { waiter: Waiter; change: Change }[] => {
    const evidence = evidenceOfLoss(waiter, deaths, context.now)
    if (evidence === null) return []
    const detail = { because: 'it was lost', holder: waiter.agent, evidence, trigger }
    const event = { kind: 'waiter.left', agent: context.agent, detail } as const
    return [{ waiter, change: { table: 'waiter', before: waiter, after: null, event } }]
  })
  const evidenceFor = (lock: Lock) => lost.locks.find(({ before }) => before === lock)?.evidence
  const ended = lost.locks.map(({ before }) => before)
  const paused = [
    ...pausedRuns(lost.runs, ended, (lock) => reasonFor(String(evidenceFor(lock))), context),
    ...lost.orphans.map((run) => pausedRun(run, reasonFor('nobody holds its lock'), context)),
  ]
  return {
    changes: [...gone.map(({ change }) => change), ...paused],
    left: gone.map(({ waiter }) => waiter),
    waitersRemoved: gone.length,
    progressPaused: paused.length,
  }
}
