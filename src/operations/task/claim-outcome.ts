/** What a claim of tasks answers: the task, or why it cannot be claimed. */
import * as z from 'zod'
import type { TaskClaim } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import { type OutputOf, view } from '../operation.ts'
import { empty } from '../queue/claim-outcome.ts'
import { viewItem } from '../view.ts'
import { taskView, viewTask } from './view.ts'

const claimed = view(() => ({
  outcome: z.literal('claimed'),
  task: taskView(),
  renewed: z.boolean().describe('It was already yours; the lease was renewed under the same token.'),
}))
const held = view(() => ({
  outcome: z.literal('held'),
  holder: z.string().nullable(),
  since: z.number().nullable().describe('Held since, ms since 1970.'),
  expiresAt: z.number().nullable(),
}))
const blocked = view(() => ({
  outcome: z.literal('blocked'),
  waitingFor: z.array(z.string()),
  runAt: z.number().nullable(),
}))
const offered = view(() => ({
  outcome: z.literal('offered'),
  to: z.string().nullable().describe('The only agent that may claim it for now.'),
  until: z.number().nullable().describe('When anybody may claim it again.'),
}))
const quarantined = view(() => ({ outcome: z.literal('quarantined'), reason: z.string().nullable() }))
const paused = view(() => ({ outcome: z.literal('paused'), reason: z.string().nullable() }))
const full = view(() => ({ outcome: z.literal('full'), holds: z.number() }))

export const taskClaim = lazily(() =>
  z.discriminatedUnion('outcome', [claimed(), held(), offered(), blocked(), quarantined(), paused()]),
)
export type TaskClaimOutcome = OutputOf<typeof taskClaim>
export const nextClaim = lazily(() => z.discriminatedUnion('outcome', [claimed(), empty(), full(), paused()]))
export type NextTaskOutcome = OutputOf<typeof nextClaim>
export const refused = lazily(() =>
  z.discriminatedUnion('outcome', [
    held().extend({ ref: z.string() }),
    offered().extend({ ref: z.string() }),
    blocked().extend({ ref: z.string() }),
    quarantined().extend({ ref: z.string() }),
    z.object({ outcome: z.literal('impossible'), ref: z.string(), code: z.string(), reason: z.string() }),
  ]),
)
export type Refused = OutputOf<typeof refused>
export const batchOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [
    z.object({ outcome: z.literal('claimed'), tasks: z.array(taskView()) }),
    z.object({ outcome: z.literal('refused'), claimed: z.array(z.never()), failed: z.array(refused()) }),
    paused(),
  ]),
)
export type BatchClaimOutcome = OutputOf<typeof batchOutcome>

export function answerOf(claim: TaskClaim, now: number): Exclude<TaskClaimOutcome, { outcome: 'paused' }> {
  switch (claim.outcome) {
    case 'claimed':
      return {
        outcome: 'claimed',
        task: viewTask(viewItem(claim.after, now)),
        renewed: claim.renewed,
      }
    case 'held':
      return {
        outcome: 'held',
        holder: claim.item.agent,
        since: claim.item.startedAt,
        expiresAt: claim.item.expiresAt,
      }
    case 'offered':
      return { outcome: 'offered', to: claim.item.offeredTo, until: claim.item.runAt }
    case 'blocked':
      return { outcome: 'blocked', waitingFor: [...claim.item.waitingFor], runAt: claim.item.runAt }
    case 'quarantined':
      return { outcome: 'quarantined', reason: claim.item.quarantineReason }
  }
}
