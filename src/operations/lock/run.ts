/** The run a lock was held for. When the lock ends, for whatever reason, a run that is still running is paused. */
import type { Lock } from '../../domain/lock.ts'
import { type Progress, pauseProgress } from '../../domain/progress.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { change } from '../operation.ts'

/** Rows needed when locks end; none for locks that were held for no run. */
export const runNeeds = (locks: readonly Pick<Lock, 'run'>[]) => ({
  runs: { select: 'runsByName', runs: locks.flatMap(({ run }) => run ?? []) } as const,
})

/** Pauses what ran under the grants that ended. A run that has continued under another grant is left alone. */
export function pausedRuns(
  runs: readonly Progress[],
  ended: readonly Lock[],
  reasonOf: (lock: Lock) => string,
  context: Context,
): Change[] {
  return runs.flatMap((before) => {
    const lock = ended.find(({ name, token }) => name === before.lock && token === before.token)
    return lock && before.status === 'running' ? [pausedRun(before, reasonOf(lock), context)] : []
  })
}

export function pausedRun(before: Progress, reason: string, context: Context): Change {
  return change('run', before, pauseProgress(before, reason, context), 'run.paused', context, { reason })
}
