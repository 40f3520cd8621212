/** Claiming work: next, claimMany, nextWithLock. */
import type { Item } from '../../domain/item.ts'
import { claimItem } from '../../domain/item-claim.ts'
import { InvalidError } from '../../errors.ts'
import type { Caller } from '../../port/command.ts'
import { claimant, holderWith, leaseLength } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { itemGrant } from '../lease/lease.ts'
import { change, need, operation, type Step } from '../operation.ts'
import { workflowOf } from '../subject.ts'
import { viewItem, viewLease } from '../view.ts'
import {
  type ClaimManyOutcome,
  type ClaimOutcome,
  claimManyOutcome,
  claimOutcome,
  emptyAnswer,
  pausedAnswer,
} from './claim-outcome.ts'
import { claimUnderLock } from './claim-under-lock.ts'
import { firstInLine, lineOf } from './line.ts'

function claimNeeds(queue: string, caller: Caller, limit: number) {
  return need({
    defined: { select: 'queue', name: queue },
    ...lineOf(queue, caller, limit),
    process: claimant(caller),
  })
}

/** What all claims from a queue have in common. */
const claims = {
  effect: 'write',
  introduces: 'unbound',
  grants: 'item',
  claims: ({ queue }: { queue: string }) => queue,
} as const

/** A claim of one item. */
const claimsOne = {
  ...claims,
  waits: true,
  input: () => ({ queue: fields.queue, leaseMs: fields.leaseMs, token: fields.token }),
  output: claimOutcome,
  needs: ({ queue }: { queue: string }, caller: Caller) => claimNeeds(queue, caller, 1),
} as const

export const next = operation({
  name: 'queue.next',
  summary: 'Claim the next item under a lease.',
  ...claimsOne,
  decide({ defined, process, ...line }, input, context): Step<ClaimOutcome> {
    if (!defined) return emptyAnswer(defined)
    const [candidate] = firstInLine(line, 1)
    if (defined.queue.slots !== null)
      return claimUnderLock(defined, candidate, holderWith(context, process), input, context)
    if (defined.queue.pausedAt !== null) return pausedAnswer(defined.queue)
    if (!candidate) return emptyAnswer(defined)
    const leaseMs = leaseLength(input.leaseMs, context, defined.queue)
    // Field by field, because a spread costs ten times as much and this runs for every claim.
    const { agent, instance, holderHost = null } = holderWith(context, process)
    const holder = { agent, instance, holderHost, leaseMs }
    const item = claimItem(candidate, workflowOf(defined), holder, context)
    return {
      changes: [change('item', candidate, item, 'item.claimed', context)],
      result: { outcome: 'claimed', item: viewItem(item, context.now), lease: viewLease(item, context.now) },
      granted: [itemGrant(item)],
    }
  },
})

export const claimMany = operation({
  name: 'queue.claimMany',
  summary: 'Claim up to 100 items at once, each under its own lease.',
  ...claims,
  withoutLost(answer, lost) {
    if (answer.outcome !== 'claimed') return null
    const items = answer.items.filter(({ id }) => !lost.some((grant) => grant.id === id))
    return items.length === 0 ? null : { ...answer, items }
  },
  input: () => ({
    queue: fields.queue,
    limit: fields.whole(1, 100).describe('How many at most, up to 100.'),
    leaseMs: fields.leaseMs,
  }),
  output: claimManyOutcome,
  needs: ({ queue, limit }, caller) => claimNeeds(queue, caller, limit),
  decide({ defined, process, ...line }, input, context): Step<ClaimManyOutcome> {
    if (!defined) return emptyAnswer(defined)
    const candidates = firstInLine(line, input.limit)
    if (defined.queue.slots !== null) {
      throw new InvalidError({
        what: `queue ${input.queue} is claimed through its processing lock, one item per slot`,
        next: 'use next() or nextWithLock()',
        facts: { queue: input.queue, slots: defined.queue.slots },
      })
    }
    if (defined.queue.pausedAt !== null) return pausedAnswer(defined.queue)
    if (candidates.length === 0) return emptyAnswer(defined)
    const workflow = workflowOf(defined)
    const holder = {
      ...holderWith(context, process),
      leaseMs: leaseLength(input.leaseMs, context, defined.queue),
    }
    const items = candidates.map((candidate) => claimItem(candidate, workflow, holder, context))
    return {
      changes: items.map((item, index) =>
        change('item', candidates[index] as Item, item, 'item.claimed', context),
      ),
      result: { outcome: 'claimed', items: items.map((item) => viewItem(item, context.now)) },
      granted: items.map(itemGrant),
    }
  },
})

export const nextWithLock = operation({
  name: 'queue.nextWithLock',
  summary: "Acquire the queue's processing lock and claim the next item, or return to your unfinished one.",
  ...claimsOne,
  decide({ defined, process, ...line }, input, context): Step<ClaimOutcome> {
    if (!defined) return emptyAnswer(defined)
    return claimUnderLock(defined, firstInLine(line, 1)[0], holderWith(context, process), input, context)
  },
})
