/** Claiming tasks: one by name, the next that matches, or several at once. */
import * as z from 'zod'
import type { Item } from '../../domain/item.ts'
import { type TaskRequest, taskQueue } from '../../domain/task.ts'
import { uniqueBy } from '../../domain/unique.ts'
import { isHoldfastError } from '../../errors.ts'
import type { Decision } from '../../port/decision.ts'
import { claimant } from '../agent/claimant.ts'
import { ask, operation, reply, type Step } from '../operation.ts'
import { emptyAnswer } from '../queue/claim-outcome.ts'
import { closedBlockers, requireItem, requireQueue } from '../subject.ts'
import { viewItem } from '../view.ts'
import {
  answerOf,
  type BatchClaimOutcome,
  batchOutcome,
  type NextTaskOutcome,
  nextClaim,
  type Refused,
  type TaskClaimOutcome,
  taskClaim,
} from './claim-outcome.ts'
import { assertSearched, candidateNeeds, filterFor, firstCandidate, wantedTask } from './seek.ts'
import {
  changesOf,
  claimInput,
  claimOne,
  grantsOf,
  lossesOf,
  type MadeClaim,
  requestOf,
  withProcesses,
} from './task-claim.ts'
import { ref, taskNeeds, viewTask } from './view.ts'

/** What all claims of tasks have in common. */
const claims = { effect: 'write', introduces: 'unbound', grants: 'item', claims: () => taskQueue } as const

export const claimTaskForAgent = operation({
  name: 'tasks.claimTaskForAgent',
  summary: 'Claim a task under a lease. Your own lease is renewed; a lapsed one is taken over.',
  ...claims,
  input: () => ({ ref: ref(), ...claimInput() }),
  output: taskClaim,
  needs: (input, caller) => ({ ...taskNeeds(input), process: claimant(caller), closed: closedBlockers }),
  decide({ defined, item: found, process, closed }, input, context): Step<TaskClaimOutcome> {
    const item = requireItem(found, taskQueue, input.ref)
    const { queue } = requireQueue(defined, taskQueue)
    const request = requestOf(input, process, defined, context)
    return withProcesses([item], context, (processes): Decision<TaskClaimOutcome> => {
      const claim = claimOne(item, { defined, processes, closed }, request, context)
      // A paused queue refuses only new claims. What is already held goes on.
      if (queue.pausedAt !== null && claim.outcome === 'claimed' && !claim.renewed)
        return reply({ outcome: 'paused', reason: queue.pauseReason })
      return {
        changes: [...changesOf(claim, context), ...lossesOf([claim], processes, context)],
        result: answerOf(claim, context.now),
        granted: grantsOf(claim),
      }
    })
  },
})

const maxHolds = 1_000_000

export const claimNext = operation({
  name: 'tasks.claimNext',
  summary:
    'Claim the next task that fits: priority, then age; only where every dependency is done, and on its own machine.',
  ...claims,
  waits: true,
  input: () => ({
    ...wantedTask(),
    leaseMs: claimInput().leaseMs,
    maxPerAgent: z.int().min(1).max(maxHolds).optional().describe('Most tasks this agent may hold.'),
    maxPerHost: z
      .int()
      .min(1)
      .max(maxHolds)
      .optional()
      .describe('Most tasks that may be held on this host, by its processes or by hand.'),
  }),
  output: nextClaim,
  needs: (input, caller) => ({
    defined: { select: 'queue', name: taskQueue },
    ...candidateNeeds(filterFor(input, caller), caller),
    process: claimant(caller),
  }),
  decide({ defined, process, ...found }, input, context): Step<NextTaskOutcome> {
    if (defined?.queue.pausedAt != null)
      return reply({ outcome: 'paused', reason: defined.queue.pauseReason })
    const candidate = firstCandidate(found)
    if (candidate === null) {
      assertSearched(found.matching, context)
      return emptyAnswer(defined)
    }
    const request = requestOf(input, process, defined, context)
    const claim = (): Decision<NextTaskOutcome> => {
      const made = claimOne(candidate, { defined, processes: null, closed: [] }, request, context)
      const result = answerOf(made, context.now) as NextTaskOutcome
      return { changes: changesOf(made, context), result, granted: grantsOf(made) }
    }
    const { maxPerAgent, maxPerHost } = input
    if (maxPerAgent === undefined && maxPerHost === undefined) return claim()
    return ask({ held: heldBy(request, input) }, ({ held }) => {
      const holds = tooMany(held, input)
      return holds === null ? claim() : reply({ outcome: 'full', holds })
    })
  },
})

interface HoldLimits {
  readonly maxPerAgent?: number | undefined
  readonly maxPerHost?: number | undefined
}

function heldBy(request: TaskRequest, { maxPerAgent, maxPerHost }: HoldLimits) {
  const { agent, instance, holderHost = null } = request
  return {
    select: 'heldCounts',
    queue: taskQueue,
    agent: maxPerAgent === undefined ? null : agent,
    instance: maxPerHost === undefined ? null : instance,
    host: maxPerHost === undefined ? null : holderHost,
  } as const
}

/** How many are already held if a limit is reached, otherwise null. */
function tooMany(held: { byAgent: number; onHost: number }, limits: HoldLimits): number | null {
  const { maxPerAgent, maxPerHost } = limits
  if (maxPerAgent !== undefined && held.byAgent >= maxPerAgent) return held.byAgent
  return maxPerHost !== undefined && held.onHost >= maxPerHost ? held.onHost : null
}

const maxBatch = 100

export const batchClaim = operation({
  name: 'tasks.batchClaim',
  summary: 'Claim up to 100 tasks, all or nothing. Says why each refused one cannot be claimed.',
  ...claims,
  input: () => ({
    refs: z.array(ref()).min(1).max(maxBatch).describe('Ids or keys of the tasks.'),
    leaseMs: claimInput().leaseMs,
  }),
  output: batchOutcome,
  needs: ({ refs }, caller) => ({
    defined: { select: 'queue', name: taskQueue },
    process: claimant(caller),
    closed: closedBlockers,
    ...Object.fromEntries(
      refs.map((each) => [`task ${each}`, { select: 'item', queue: taskQueue, ref: each }]),
    ),
  }),
  decide(rows, input, context): Step<BatchClaimOutcome> {
    const { defined, process, closed } = rows
    const request = requestOf(input, process, defined, context)
    if (defined?.queue.pausedAt != null)
      return reply({ outcome: 'paused', reason: defined.queue.pauseReason })
    const found = input.refs.map(
      (each) => (rows as unknown as Record<string, Item | null>)[`task ${each}`] ?? null,
    )
    return withProcesses(found, context, (processes): Decision<BatchClaimOutcome> => {
      const tried = input.refs.map((each, index) =>
        attempt(each, () => {
          const item = requireItem(found[index] ?? null, taskQueue, each)
          return claimOne(item, { defined, processes, closed }, request, context)
        }),
      )
      const failed = tried.flatMap((each) => ('failed' in each ? [each.failed] : []))
      if (failed.length > 0) return reply({ outcome: 'refused', claimed: [], failed })
      // A task named twice, by id and by key, is claimed once.
      const all = tried.flatMap((each) => ('claim' in each ? [each.claim] : []))
      const made = uniqueBy(all, ({ after }) => after.id)
      const tasks = made.map(({ after }) => viewTask(viewItem(after, context.now)))
      return {
        changes: [
          ...made.flatMap((claim) => changesOf(claim, context)),
          ...lossesOf(made, processes, context),
        ],
        result: { outcome: 'claimed', tasks },
        granted: made.flatMap(grantsOf),
      }
    })

    function attempt(name: string, claiming: () => MadeClaim): { claim: Granted } | { failed: Refused } {
      try {
        const claim = claiming()
        if (claim.outcome === 'claimed') return { claim }
        return { failed: { ref: name, ...answerOf(claim, context.now) } as Refused }
      } catch (error) {
        if (!isHoldfastError(error)) throw error
        return { failed: { ref: name, outcome: 'impossible', code: error.code, reason: error.message } }
      }
    }
  },
})

type Granted = Extract<MadeClaim, { outcome: 'claimed' }>
