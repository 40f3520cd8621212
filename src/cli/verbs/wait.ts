/** `--wait`: waits until there is something to claim, or for at most the given time. */

import { InvalidError } from '../../errors.ts'
import type { ResultOf } from '../../operations/table.ts'
import { waitIsOver } from '../../runtime/waiting/claim-wait.ts'
import { formatDuration } from '../duration.ts'
import { whileInterruptible } from '../interrupt.ts'
import { printTalk } from '../print.ts'
import type { Call, OwnOption } from '../verb.ts'
import { refusalText } from './item-text.ts'

export const waitOption: OwnOption = {
  flags: '--wait [duration]',
  kind: 'duration',
  description: 'wait until it is available; without a duration, for as long as it takes',
}

/** `--wait` without a duration waits one day at a time. */
const dayMs = 24 * 60 * 60 * 1000

/** 0 without `--wait`. */
export function waitOptionMs({ options }: Pick<Call, 'options'>): number {
  const { wait = 0 } = options as { wait?: number | true }
  if (wait === true) return dayMs
  if (wait <= dayMs) return wait
  throw new InvalidError({
    what: `--wait: ${formatDuration(wait)} is longer than a day`,
    next: 'leave out the duration to wait for as long as it takes',
  })
}

type WaitingClaim = 'queue.next' | 'queue.nextWithLock' | 'tasks.claimNext'

/** Claims, or waits until it can. Waiting costs nothing. */
export async function claimWaiting<Name extends WaitingClaim>(
  call: Call<Name>,
  operation: Name,
  { queue, wanted }: { queue: string; wanted?: object },
): Promise<ResultOf<Name>> {
  const waitMs = waitOptionMs(call)
  if (waitMs === 0) return call.execute(operation, call.input)
  if (call.idempotencyKey !== undefined) throw manyRequests()
  const hf = await call.open()
  await call.bindToRegistered()
  let isFirst = true
  const claim = async () => {
    const answer: ResultOf<WaitingClaim> = await call.execute(operation, call.input)
    // A mistyped name would be waited for in vain.
    if (isFirst && answer.outcome === 'empty' && !answer.exists)
      printTalk(call.io, `warning  ${refusalText(answer, call.view)}; waiting`)
    isFirst = false
    return answer
  }
  return whileInterruptible(async (signal) => {
    for (;;) {
      const answer = await hf.waitForWork<ResultOf<WaitingClaim>>({
        queue,
        wanted,
        waitMs,
        signal,
        claim,
        isEnough: ({ outcome }) => outcome === 'claimed',
        giveBack: (late) => giveBack(call, queue, late),
      })
      if (answer.outcome === 'claimed' || call.options.wait !== true) return answer as ResultOf<Name>
    }
  })
}

/** Releases what was claimed too late, because its token is never shown to anyone. */
async function giveBack(
  call: Pick<Call<WaitingClaim>, 'input' | 'execute'>,
  queue: string,
  late: ResultOf<WaitingClaim>,
): Promise<void> {
  if (late.outcome !== 'claimed') return
  const claimed = 'item' in late ? late.item : late.task
  const lock = 'lock' in late ? late.lock : undefined
  // A caller that already has the lock gets its unfinished item again with the next claim.
  if (lock && 'token' in call.input && lock.lease.token === call.input.token) return
  const { id, token } = claimed
  await call.execute('queue.release', { queue, ref: id, token, reason: waitIsOver })
  if (lock) await call.execute('queue.releaseProcessingLock', { queue, token: lock.lease.token })
}

export function manyRequests(what = 'a wait', next = 'leave out --wait or --idempotency-key'): InvalidError {
  return new InvalidError({
    what: `${what} makes many requests, and an idempotency key covers only one`,
    next,
  })
}
