/** The changes, with their events, by which a lock passes from one holder to the next. */
import type { Lock } from '../../domain/lock.ts'
import type { Caller } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'

/** Ends the lapsed locks that a grant clears away. */
export function endings(acquired: { outcome: string; ended?: readonly Lock[] }, caller: Caller): Change[] {
  return (acquired.ended ?? []).map((before) => {
    const detail = { holder: before.agent, token: before.token, evidence: 'its lease had lapsed' }
    return {
      table: 'lock',
      before,
      after: null,
      event: { kind: 'lock.expired', agent: caller.agent, detail },
    }
  })
}

/** Own slot: changed. A lapsed slot taken over: stolen, naming the previous holder. Otherwise: acquired. */
export function lockChange(before: Lock | null, after: Lock, caller: Caller): Change {
  if (before === null)
    return { table: 'lock', before, after, event: { kind: 'lock.acquired', agent: caller.agent } }
  if (before.token === after.token)
    return { table: 'lock', before, after, event: { kind: 'lock.changed', agent: caller.agent } }
  const detail = {
    previousHolder: before.agent,
    previousToken: before.token,
    evidence: 'its lease had lapsed',
  }
  return { table: 'lock', before, after, event: { kind: 'lock.stolen', agent: caller.agent, detail } }
}
