/** Why a lock is held or free, and why a run does not continue. */
import { type Explanation, explainHeld, explanation } from './explain.ts'
import { type Holding, isOver } from './holding.ts'
import type { Lock } from './lock.ts'
import type { Run } from './run.ts'

export interface LockFacts {
  readonly name: string
  /** The rows of its slots, each with its holder, soonest expiry first. */
  readonly slots: readonly { readonly lock: Lock; readonly holder: Holding; readonly sparedMs: number }[]
  readonly waiting: number
}

export function explainLock({ name, slots, waiting }: LockFacts): Explanation {
  const [first] = slots
  const line = waiting === 0 ? [] : [`${waiting} in line`]
  const acquire = { operation: 'locks.acquireLock', input: { name }, because: 'takes it while it is free' }
  if (!first) return explanation('free', 'nobody holds it', { evidence: line, can: [acquire] })
  const free = explainFreeSlots(name, slots, line)
  if (free !== null) return free
  const { lock, holder, sparedMs } = first
  const isDelayed = lock.delayedSince !== null
  if (!isTaken(first)) {
    const why = isDelayed
      ? 'the delay after the loss of its holder is over'
      : `the lease of ${holder.agent} has lapsed`
    return explanation('free', `${why}: whoever asks next gets it`, {
      holder: isDelayed ? null : holder,
      evidence: line,
      can: [acquire],
    })
  }
  if (isDelayed || awaitsDelay(first)) {
    const inMs = isDelayed ? holder.remainingMs : lock.delayMs
    return explanation('waiting', 'its holder was lost, and it is kept free for the delay it had asked for', {
      evidence: line,
      next: [{ what: 'the first in line gets it', inMs }],
    })
  }
  const evidence = [
    ...(lock.reason === null ? [] : [`for: ${lock.reason}`]),
    ...(lock.run === null ? [] : [`for run ${lock.run}`]),
    ...(lock.user === null ? [] : [`on behalf of ${lock.user}`]),
    ...(slots.length > 1 ? [`${slots.length} slots are taken`] : []),
    ...line,
  ]
  return explainHeld(holder, 'it', evidence, sparedMs)
}

function isTaken(slot: LockFacts['slots'][number]): boolean {
  return !isOver(slot.holder) || slot.sparedMs > 0 || awaitsDelay(slot)
}

/** Its lease has lapsed, and its delay starts when somebody asks for the lock. */
function awaitsDelay({ lock, holder, sparedMs }: LockFacts['slots'][number]): boolean {
  return isOver(holder) && sparedMs === 0 && lock.delayMs > 0 && lock.delayedSince === null
}

/** Null if no slot is free. A slot that is held, or kept for a delay, under another count keeps everyone out. */
function explainFreeSlots(
  name: string,
  slots: LockFacts['slots'],
  line: readonly string[],
): Explanation | null {
  const taken = slots.filter(isTaken)
  const count = taken[0]?.lock.slots ?? 0
  const free = count - taken.length
  if (free <= 0 || taken.some(({ lock }) => lock.slots !== count)) return null
  const held = taken.filter(({ lock }) => lock.delayedSince === null)
  return explanation('free', `${free} of its ${count} slots ${free === 1 ? 'is' : 'are'} free`, {
    evidence: [...held.map(({ holder }) => `${holder.agent} holds a slot`), ...line],
    can: [{ operation: 'locks.acquireLock', input: { name, slots: count }, because: 'takes a free slot' }],
  })
}

/** `holder` holds the run's lock; null if nobody holds it for this run. */
export function explainRun(run: Run, holder: Holding | null, sparedMs = 0): Explanation {
  const evidence = [
    `${run.done} done, ${run.failed} failed, ${run.skipped} skipped${run.total === null ? '' : ` of ${run.total}`}`,
    `under lock ${run.lock}`,
  ]
  if (run.status === 'completed') return explanation('closed', 'it is completed', { evidence })
  if (run.status === 'running') {
    return holder
      ? explainHeld(holder, 'the run', evidence, sparedMs)
      : explanation('stuck', 'it is marked as running, but nobody holds its lock', {
          evidence,
          next: [{ what: 'the next recovery pauses it', inMs: 0 }],
        })
  }
  return explanation('waiting', `it is ${run.status}: ${run.pauseReason}`, {
    evidence,
    can: [
      {
        operation: 'runs.resume',
        input: { run: run.run, lock: run.lock },
        because: 'continues it, once its lock is acquired for this run',
      },
    ],
  })
}
