/** The changes, with their events, by which a lock passes from one holder to the next, and what they do to its run. */
import type { Lock } from '../../domain/lock.ts'
import { pauseRun, type Run } from '../../domain/run.ts'
import type { Caller, Context } from '../../port/command.ts'
import type { Change, Decision, Remark } from '../../port/decision.ts'
import { lockRef } from '../lease/lease.ts'
import { ask, change, need, type Step } from '../operation.ts'

/** Ends the lapsed locks that a grant clears away. */
export function endings(acquired: { outcome: string; ended?: readonly Lock[] }, caller: Caller): Change[] {
  return (acquired.ended ?? []).map((before) => {
    const detail = { holder: before.agent, token: before.token, evidence: 'its lease had lapsed' }
    return change('lock', before, null, 'lock.expired', caller, detail)
  })
}

/** Own slot: changed. A lapsed slot taken over: stolen, naming the previous holder. Otherwise: acquired. */
export function lockChange(before: Lock | null, after: Lock, caller: Caller): Change {
  if (before === null) return change('lock', before, after, 'lock.acquired', caller)
  if (before.token === after.token) return change('lock', before, after, 'lock.changed', caller)
  const { agent: previousHolder, token: previousToken } = before
  const detail = { previousHolder, previousToken, evidence: 'its lease had lapsed' }
  return change('lock', before, after, 'lock.stolen', caller, detail)
}

/** Something about a lock that changed nothing, for the audit. */
export function lockRemark(
  kind: 'lock.renewed' | 'lock.refused',
  lock: Pick<Lock, 'name' | 'slot'>,
  { agent }: Caller,
  about: Pick<Remark, 'token' | 'detail'> & { readonly queue?: string },
): Remark {
  return { kind, agent, subject: 'lock', id: lockRef(lock), queue: null, ...about }
}

/** A release by somebody who does not hold the lock. */
export function refusedRelease(
  { name, queue }: { readonly name: string; readonly queue?: string },
  token: number | undefined,
  locks: readonly Lock[],
  caller: Caller,
): Remark {
  const detail = { act: 'release', holder: locks[0]?.agent ?? null, doubleUnlock: locks.length === 0 }
  const about = { token: token ?? null, detail, ...(queue === undefined ? {} : { queue }) }
  return lockRemark('lock.refused', { name, slot: 0 }, caller, about)
}

/** Rows needed when locks end; none for locks that were held for no run. */
export const runNeeds = (locks: readonly Pick<Lock, 'run'>[]) =>
  need({
    runs: { select: 'runsByName', runs: locks.flatMap(({ run }) => run ?? []) },
  })

/** Pauses what ran under the grants that ended. A run that has continued under another grant is left alone. */
export function pausedRuns(
  runs: readonly Run[],
  ended: readonly Lock[],
  reasonOf: (lock: Lock) => string,
  context: Context,
): Change[] {
  return runs.flatMap((before) => {
    const lock = ended.find(({ name, token }) => name === before.lock && token === before.token)
    return lock && before.status === 'running' ? [pausedRun(before, reasonOf(lock), context)] : []
  })
}

/** The decision, plus the changes that pause the runs of the locks that ended with it. */
export function pausing<Result>(
  ended: readonly Lock[],
  reason: string,
  decision: Decision<Result>,
  context: Context,
): Step<Result> {
  if (ended.every(({ run }) => run === null)) return decision
  return ask(runNeeds(ended), ({ runs }) => ({
    ...decision,
    changes: [...decision.changes, ...pausedRuns(runs, ended, () => reason, context)],
  }))
}

export function pausedRun(before: Run, reason: string, context: Context): Change {
  return change('run', before, pauseRun(before, reason, context), 'run.paused', context, { reason })
}
