/** The changes, with their events, by which a lock passes from one holder to the next. */
import type { Lock } from '../../domain/lock.ts'
import type { Caller } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { change } from '../operation.ts'

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
  const detail = {
    previousHolder: before.agent,
    previousToken: before.token,
    evidence: 'its lease had lapsed',
  }
  return change('lock', before, after, 'lock.stolen', caller, detail)
}
