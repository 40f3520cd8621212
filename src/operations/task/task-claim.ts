/** One task being claimed: the request, the rule, and the changes it makes. */
import * as z from 'zod'
import type { Claimant, Process } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import { isExpired } from '../../domain/lease.ts'
import { claimTask, type TaskClaim, type TaskRequest, taskLeaseMs, taskQueue } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import type { Grant } from '../../port/answer.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { holderWith, leaseLength } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { itemGrant } from '../lease/lease.ts'
import { ask, change, type InputWith, type Step } from '../operation.ts'
import { unblocked } from '../queue/dependents.ts'
import { itemReclaim, lossRecords, processNeeds, rulesFor } from '../recovery/reclaim.ts'
import { requireQueue } from '../subject.ts'

/**
 * Bound to the caller's process, or to the one registered for it. Only the former renews, so only its lease is short.
 */
export function requestOf(
  input: InputWith<typeof claimInput>,
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
export type MadeClaim = TaskClaim & { readonly freed: readonly Change[] }

interface ClaimRows {
  readonly defined: DefinedQueue | null
  readonly processes: readonly Process[] | null
  readonly closed: readonly string[]
}

export function claimOne(item: Item, rows: ClaimRows, request: TaskRequest, context: Context): MadeClaim {
  const { defined, processes, closed } = rows
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
export function withProcesses<Output>(
  items: readonly (Item | null)[],
  { now }: Context,
  decide: (processes: readonly Process[] | null) => Decision<Output>,
): Step<Output> {
  const lapsed = items.filter((item) => item?.phase === 'held' && isExpired(item, now)) as Item[]
  if (lapsed.length === 0) return decide(null)
  return ask(processNeeds(lapsed), ({ processes }) => decide(processes))
}

export function changesOf(claim: MadeClaim, context: Context): Change[] {
  const reclaimed =
    'reclaimed' in claim && claim.reclaimed ? [itemReclaim(claim.reclaimed, context, 'claim')] : []
  if (claim.outcome !== 'claimed') return reclaimed
  const { before, after, renewed } = claim
  const granted: Change = renewed
    ? { table: 'item', before, after }
    : change('item', before, after, 'item.claimed', context, takenFrom(before, after))
  return [...claim.freed, ...reclaimed, granted]
}

/** Whatever else a lost holder had is reclaimed later, and must not look then as if it had been held alone. */
export function lossesOf(
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

export function grantsOf(claim: TaskClaim): Grant[] {
  return claim.outcome === 'claimed' ? [itemGrant(claim.after)] : []
}

export const claimInput = lazily(() => ({
  leaseMs: fields.leaseMs.describe(
    'Length of the lease in ms; default that of the queue, else 30 min, or 30 s if this process renews it.',
  ),
  token: fields.token,
  fromReview: z.boolean().optional().describe('Also take it back out of review.'),
  force: z.boolean().optional().describe('Take it even if it is offered to another agent. For operators.'),
}))
