/** Claiming tasks: one by name, the next that matches, or several at once. */
import * as z from 'zod'
import type { Claimant, Process } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import { isExpired } from '../../domain/lease.ts'
import { claimTask, type TaskClaim, type TaskRequest, taskLeaseMs, taskQueue } from '../../domain/task.ts'
import { isHoldfastError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Grant } from '../../port/answer.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { claimant, holderWith } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { ask, type OutputOf, operation, type Step } from '../operation.ts'
import { empty, emptyAnswer, leaseLength } from '../queue/claim.ts'
import { unblocked } from '../queue/finish.ts'
import { itemReclaim, lossRecords, processNeeds, rulesFor } from '../recovery/reclaim.ts'
import { closedBlockers, itemChange, requireItem, requireQueue } from '../subject.ts'
import { viewItem } from '../view.ts'
import { assertSearched, candidateNeeds, filterFor, firstCandidate, wantedTask } from './seek.ts'
import { ref, taskNeeds, taskView, viewTask } from './view.ts'

const claimed = lazily(() =>
  z.object({
    outcome: z.literal('claimed'),
    task: taskView(),
    renewed: z.boolean().describe('It was already yours; the lease was renewed under the same token.'),
  }),
)
const held = lazily(() =>
  z.object({
    outcome: z.literal('held'),
    holder: z.string().nullable(),
    since: z.number().nullable().describe('Held since, ms since 1970.'),
    expiresAt: z.number().nullable(),
  }),
)
const blocked = lazily(() =>
  z.object({
    outcome: z.literal('blocked'),
    waitingFor: z.array(z.string()),
    runAt: z.number().nullable(),
  }),
)
const offered = lazily(() =>
  z.object({
    outcome: z.literal('offered'),
    to: z.string().nullable().describe('The only agent that may claim it for now.'),
    until: z.number().nullable().describe('When anybody may claim it again.'),
  }),
)
const quarantined = lazily(() =>
  z.object({ outcome: z.literal('quarantined'), reason: z.string().nullable() }),
)
const paused = lazily(() => z.object({ outcome: z.literal('paused'), reason: z.string().nullable() }))
const full = lazily(() => z.object({ outcome: z.literal('full'), holds: z.number() }))

const taskClaim = lazily(() =>
  z.discriminatedUnion('outcome', [claimed(), held(), offered(), blocked(), quarantined(), paused()]),
)
export type TaskClaimOutcome = OutputOf<typeof taskClaim>
const nextClaim = lazily(() => z.discriminatedUnion('outcome', [claimed(), empty(), full(), paused()]))
export type NextTaskOutcome = OutputOf<typeof nextClaim>
const refused = lazily(() =>
  z.discriminatedUnion('outcome', [
    held().extend({ ref: z.string() }),
    offered().extend({ ref: z.string() }),
    blocked().extend({ ref: z.string() }),
    quarantined().extend({ ref: z.string() }),
    z.object({ outcome: z.literal('impossible'), ref: z.string(), code: z.string(), reason: z.string() }),
  ]),
)
type Refused = OutputOf<typeof refused>
const batchOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [
    z.object({ outcome: z.literal('claimed'), tasks: z.array(taskView()) }),
    z.object({ outcome: z.literal('refused'), claimed: z.array(z.never()), failed: z.array(refused()) }),
    paused(),
  ]),
)
export type BatchClaimOutcome = OutputOf<typeof batchOutcome>

/**
 * Bound to the caller's process, or to the one registered for it. Only the former renews, so only its lease is short.
 */
function requestOf(
  input: {
    leaseMs?: number | undefined
    token?: number | undefined
    fromReview?: boolean | undefined
    force?: boolean | undefined
  },
  process: Claimant,
  defined: DefinedQueue | null,
  context: Context,
): TaskRequest {
  return {
    ...holderWith(context, process),
    leaseMs: leaseLength(input.leaseMs, context, defined?.queue ?? null, taskLeaseMs),
    token: input.token,
    fromReview: input.fromReview ?? false,
    force: input.force ?? false,
  }
}

/** `freed`: changes that free the task from blockers that have succeeded, if nobody has done so yet. */
type MadeClaim = TaskClaim & { readonly freed: readonly Change[] }

interface ClaimRows {
  readonly defined: DefinedQueue | null
  readonly processes: readonly Process[] | null
  readonly closed: readonly string[]
}

function claimOne(
  item: Item,
  { defined, processes, closed }: ClaimRows,
  request: TaskRequest,
  context: Context,
): MadeClaim {
  const { queue, definition, workflow } = requireQueue(defined, taskQueue)
  const rules = rulesFor(item, [{ queue, definition }], processes)
  const freed = freeing(item, { queue, definition }, closed, context)
  const claim = claimTask(freed.item, { ...rules, workflow }, request, context)
  // A task that cannot be claimed after all stays as it is.
  return { ...claim, freed: claim.outcome === 'claimed' ? freed.changes : [] }
}

function freeing(item: Item, defined: DefinedQueue, closed: readonly string[], context: Context) {
  const changes: Change[] = []
  let freed = item
  for (const blocker of closed) {
    const [change] = unblocked({ ...defined, item: freed }, blocker, context)
    if (change === undefined) continue
    changes.push(change)
    freed = change.after as Item
  }
  return { item: freed, changes }
}

/** Only a claim that takes over from a lost holder needs to know what else that holder had. */
function withProcesses<Output>(
  items: readonly (Item | null)[],
  { now }: Context,
  decide: (processes: readonly Process[] | null) => Decision<Output>,
): Step<Output> {
  const lapsed = items.filter((item) => item?.phase === 'held' && isExpired(item, now)) as Item[]
  if (lapsed.length === 0) return decide(null)
  return ask(processNeeds(lapsed), ({ processes }) => decide(processes))
}

function changesOf(claim: MadeClaim, context: Context): Change[] {
  const reclaimed =
    'reclaimed' in claim && claim.reclaimed ? [itemReclaim(claim.reclaimed, context, 'claim')] : []
  if (claim.outcome !== 'claimed') return reclaimed
  const { before, after, renewed } = claim
  const granted: Change = renewed
    ? { table: 'item', before, after }
    : itemChange(before, after, 'item.claimed', context, takenFrom(before, after))
  return [...claim.freed, ...reclaimed, granted]
}

/** Whatever else a lost holder had is reclaimed later, and must not look then as if it had been held alone. */
function lossesOf(
  claims: readonly TaskClaim[],
  processes: readonly Process[] | null,
  context: Context,
): Change[] {
  const taken = claims.flatMap((claim) => ('reclaimed' in claim && claim.reclaimed) || [])
  return lossRecords(taken, processes, context)
}

/** The audit records that a task was offered to another agent and taken by force. */
function takenFrom({ offeredTo }: Item, { agent }: Item): { offeredTo: string } | undefined {
  return offeredTo === null || offeredTo === agent ? undefined : { offeredTo }
}

function answerOf(claim: TaskClaim, now: number): Exclude<TaskClaimOutcome, { outcome: 'paused' }> {
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

function grantsOf(claim: TaskClaim): Grant[] {
  return claim.outcome === 'claimed' ? [{ kind: 'item', id: claim.after.id, token: claim.after.token }] : []
}

const claimInput = lazily(() => ({
  leaseMs: fields.leaseMs.describe(
    'Length of the lease in ms; default that of the queue, else 30 min, or 30 s if this process renews it.',
  ),
  token: fields.token,
  fromReview: z.boolean().optional().describe('Also take it back out of review.'),
  force: z.boolean().optional().describe('Take it even if it is offered to another agent. For operators.'),
}))

export const claimTaskForAgent = operation({
  name: 'tasks.claimTaskForAgent',
  summary: 'Claim a task under a lease. Your own lease is renewed; a lapsed one is taken over.',
  effect: 'write',
  introduces: 'unbound',
  claims: () => taskQueue,
  grants: 'item',
  input: () => z.strictObject({ ref: ref(), ...claimInput() }),
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
        return { changes: [], result: { outcome: 'paused', reason: queue.pauseReason } }
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
  effect: 'write',
  introduces: 'unbound',
  claims: () => taskQueue,
  waits: true,
  grants: 'item',
  input: () =>
    z.strictObject({
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
    defined: { select: 'queue', name: taskQueue } as const,
    ...candidateNeeds(filterFor(input, caller), caller),
    process: claimant(caller),
  }),
  decide({ defined, process, ...found }, input, context): Step<NextTaskOutcome> {
    if (defined?.queue.pausedAt != null)
      return { changes: [], result: { outcome: 'paused', reason: defined.queue.pauseReason } }
    const candidate = firstCandidate(found)
    if (candidate === null) {
      assertSearched(found.matching, context)
      return emptyAnswer(taskQueue)
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
      return holds === null ? claim() : { changes: [], result: { outcome: 'full', holds } }
    })
  },
})

interface HoldLimits {
  readonly maxPerAgent?: number | undefined
  readonly maxPerHost?: number | undefined
}

function heldBy(
  { agent, instance, holderHost = null }: TaskRequest,
  { maxPerAgent, maxPerHost }: HoldLimits,
) {
  return {
    select: 'heldCounts',
    queue: taskQueue,
    agent: maxPerAgent === undefined ? null : agent,
    instance: maxPerHost === undefined ? null : instance,
    host: maxPerHost === undefined ? null : holderHost,
  } as const
}

/** How many are already held if a limit is reached, otherwise null. */
function tooMany(
  held: { byAgent: number; onHost: number },
  { maxPerAgent, maxPerHost }: HoldLimits,
): number | null {
  if (maxPerAgent !== undefined && held.byAgent >= maxPerAgent) return held.byAgent
  return maxPerHost !== undefined && held.onHost >= maxPerHost ? held.onHost : null
}

const maxBatch = 100

export const batchClaim = operation({
  name: 'tasks.batchClaim',
  summary: 'Claim up to 100 tasks, all or nothing. Says why each refused one cannot be claimed.',
  effect: 'write',
  introduces: 'unbound',
  claims: () => taskQueue,
  grants: 'item',
  input: () =>
    z.strictObject({
      refs: z.array(ref()).min(1).max(maxBatch).describe('Ids or keys of the tasks.'),
      leaseMs: claimInput().leaseMs,
    }),
  output: batchOutcome,
  needs: ({ refs }, caller) => ({
    defined: { select: 'queue', name: taskQueue } as const,
    process: claimant(caller),
    closed: closedBlockers,
    ...Object.fromEntries(
      refs.map((each) => [`task ${each}`, { select: 'item', queue: taskQueue, ref: each } as const]),
    ),
  }),
  decide(rows, input, context): Step<BatchClaimOutcome> {
    const { defined, process, closed } = rows
    const request = requestOf(input, process, defined, context)
    if (defined?.queue.pausedAt != null)
      return { changes: [], result: { outcome: 'paused', reason: defined.queue.pauseReason } }
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
      if (failed.length > 0) return { changes: [], result: { outcome: 'refused', claimed: [], failed } }
      // A task named twice, by id and by key, is claimed once.
      const claims = new Map(
        tried.flatMap((each) => ('claim' in each ? [[each.claim.after.id, each.claim]] : [])),
      )
      return {
        changes: [
          ...[...claims.values()].flatMap((claim) => changesOf(claim, context)),
          ...lossesOf([...claims.values()], processes, context),
        ],
        result: {
          outcome: 'claimed',
          tasks: [...claims.values()].map(({ after }) => viewTask(viewItem(after, context.now))),
        },
        granted: [...claims.values()].flatMap(grantsOf),
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
