/** `--wait`: until there is something, or for so long. */

import { InvalidError, isHoldfastError } from '../../errors.ts'
import type { LockView } from '../../operations/view.ts'
import { waitIsOver } from '../../runtime/claim-wait.ts'
import { parseDuration } from '../duration.ts'
import { whileInterruptible } from '../interrupt.ts'
import type { Call, OwnOption } from '../verb.ts'

export const waitOption: OwnOption = {
  flags: '--wait [duration]',
  description: 'wait until it can be had; without a duration for as long as it takes',
}

/** As long as it takes is a day at a time. */
const dayMs = 24 * 60 * 60 * 1000

/** 0 where nobody wants to wait. */
export function waitOptionMs({ options }: Pick<Call, 'options'>): number {
  const { wait } = options as { wait?: string | true }
  if (wait === undefined) return 0
  if (wait === true) return dayMs
  try {
    const waitMs = parseDuration(wait)
    if (waitMs <= dayMs) return waitMs
  } catch (error) {
    if (!isHoldfastError(error)) throw error
    throw new InvalidError({ what: `--wait: ${error.what}`, next: error.next })
  }
  throw new InvalidError({
    what: `--wait: ${wait} is longer than a day`,
    next: 'leave out the duration to wait for as long as it takes',
  })
}

/** Claims, or waits until it can; blocks without costing anything meanwhile. */
export async function claimWaiting<Answer extends { readonly outcome: string }>(
  call: Call,
  queue: string,
  operation: string,
): Promise<Answer> {
  const waitMs = waitOptionMs(call)
  const claim = () => call.execute<Answer>(operation, call.input)
  if (waitMs === 0) return claim()
  if (call.idempotencyKey !== undefined) throw manyRequests()
  const hf = await call.open()
  return whileInterruptible(async (signal) => {
    for (;;) {
      const answer = await hf.waitForWork<Answer>({
        queue,
        wanted: operation === 'tasks.claimNext' ? call.input : undefined,
        waitMs,
        signal,
        claim,
        isEnough: ({ outcome }) => outcome === 'claimed',
        giveBack: (late) => giveBack(call, queue, late),
      })
      if (answer.outcome === 'claimed' || call.options.wait !== true) return answer
    }
  })
}

/** Nobody is shown the token of what was claimed too late. */
async function giveBack(call: Call, queue: string, late: object): Promise<void> {
  const { item, task, lock } = late as Partial<Record<'item' | 'task', Claimed>> & { lock?: LockView }
  const claimed = item ?? task
  // Who has the lock already gets its unfinished item again with the next claim.
  if (!claimed || (lock && lock.lease.token === call.input.token)) return
  const { id, token } = claimed
  await call.execute('queue.release', { queue, ref: id, token, reason: waitIsOver })
  if (lock) await call.execute('queue.releaseProcessingLock', { queue, token: lock.lease.token })
}

interface Claimed {
  readonly id: string
  readonly token: number
}

export function manyRequests(): InvalidError {
  return new InvalidError({
    what: 'a wait is many requests, and an idempotency key means one',
    next: 'leave out --wait or --idempotency-key',
  })
}
