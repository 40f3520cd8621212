/** What a claim answers: an item, or why there is none. */
import * as z from 'zod'
import type { Lock } from '../../domain/lock.ts'
import type { Queue } from '../../domain/queue.ts'
import { lazily } from '../../lazily.ts'
import type { Decision } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { ask, type OutputOf, reply, type Step, view } from '../operation.ts'
import { itemView, type LeaseView, lockView, queueExists } from '../view.ts'

const paused = view(() => ({ outcome: z.literal('paused'), reason: z.string().nullable() }))
export const empty = view(() => ({
  outcome: z.literal('empty'),
  nextDueAt: z.number().nullable().describe('When the next delayed item of the queue is due, ms since 1970.'),
  exists: queueExists(),
}))
export const held = view(() => ({
  outcome: z.literal('held'),
  holder: z.string().nullable(),
  since: z.number().describe('Held since, ms since 1970.'),
  expiresAt: z.number().nullable(),
}))
const claimed = view(() => ({
  outcome: z.literal('claimed'),
  item: itemView(),
  lease: z.custom<LeaseView>(),
  lock: lockView().optional(),
}))
export const claimOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [claimed(), held(), empty(), paused()]),
)
export type ClaimOutcome = OutputOf<typeof claimOutcome>
export const claimManyOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [
    z.object({ outcome: z.literal('claimed'), items: z.array(itemView()) }),
    empty(),
    paused(),
  ]),
)
export type ClaimManyOutcome = OutputOf<typeof claimManyOutcome>

/** Nothing to claim now. Says when that may change, so that nobody has to guess. */
export function emptyAnswer(defined: DefinedQueue | null): Step<OutputOf<typeof empty>> {
  if (defined === null) return reply({ outcome: 'empty', nextDueAt: null, exists: false })
  return ask({ nextDueAt: { select: 'nextDueAt', queue: defined.queue.name } }, ({ nextDueAt }) =>
    reply({ outcome: 'empty', nextDueAt, exists: true }),
  )
}

export function heldAnswer({ agent, acquiredAt, expiresAt }: Lock): ClaimOutcome & { outcome: 'held' } {
  return { outcome: 'held', holder: agent, since: acquiredAt, expiresAt }
}

export function pausedAnswer(queue: Queue): Decision<ClaimOutcome & { outcome: 'paused' }> {
  return reply({ outcome: 'paused', reason: queue.pauseReason })
}
