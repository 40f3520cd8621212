/** Claiming work: peek, next, claimMany, nextWithLock. */
import * as z from 'zod'
import { type Clocks, compareInLine, type Item } from '../../domain/item.ts'
import { claimItem } from '../../domain/item-claim.ts'
import { assertRenewable, type Holder, lapsesAt, renew } from '../../domain/lease.ts'
import { acquireLock, type Lock } from '../../domain/lock.ts'
import { processingLockName, type Queue } from '../../domain/queue.ts'
import type { Workflow } from '../../domain/workflow.ts'
import { InvalidError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Grant } from '../../port/answer.ts'
import type { Caller, Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import type { ItemFilter } from '../../port/item.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { claimant, holderWith } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { ask, type OutputOf, operation, type Step } from '../operation.ts'
import { itemChange, workflowOf } from '../subject.ts'
import { itemView, type LeaseView, lockView, viewItem, viewLease, viewLock } from '../view.ts'

const boundLeaseMs = 30_000
const manualLeaseMs = 300_000

/** As asked, else as the queue sets it, else a default: short if a process renews the lease, long if nobody does. */
export function leaseLength(
  asked: number | undefined,
  caller: Pick<Caller, 'instance' | 'renews' | 'leaseMs'>,
  queue: Pick<Queue, 'leaseMs' | 'manualLeaseMs'> | null,
  manualMs = manualLeaseMs,
): number {
  const isRenewed = caller.instance !== null && caller.renews !== false
  if (!isRenewed) return asked ?? queue?.manualLeaseMs ?? manualMs
  const leaseMs = asked ?? queue?.leaseMs ?? caller.leaseMs ?? boundLeaseMs
  assertRenewable(leaseMs)
  return leaseMs
}

const paused = lazily(() => z.object({ outcome: z.literal('paused'), reason: z.string().nullable() }))
export const empty = lazily(() =>
  z.object({
    outcome: z.literal('empty'),
    nextDueAt: z
      .number()
      .nullable()
      .describe('When the next delayed item of the queue is due, ms since 1970.'),
  }),
)
export const held = lazily(() =>
  z.object({
    outcome: z.literal('held'),
    holder: z.string().nullable(),
    since: z.number().describe('Held since, ms since 1970.'),
    expiresAt: z.number().nullable(),
  }),
)
const claimed = lazily(() =>
  z.object({
    outcome: z.literal('claimed'),
    item: itemView(),
    lease: z.custom<LeaseView>(),
    lock: lockView().optional(),
  }),
)
const claimOutcome = lazily(() => z.discriminatedUnion('outcome', [claimed(), held(), empty(), paused()]))
export type ClaimOutcome = OutputOf<typeof claimOutcome>
const claimManyOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [
    z.object({ outcome: z.literal('claimed'), items: z.array(itemView()) }),
    empty(),
    paused(),
  ]),
)
export type ClaimManyOutcome = OutputOf<typeof claimManyOutcome>

/**
 * A process takes one suspect at a time, so that its next crash shows which item is to blame. A claim by hand may take
 * any number.
 */
export function suspectsOf(
  queue: string,
  { instance }: Caller,
  { limit, filter = null }: { limit: number; filter?: ItemFilter | null },
) {
  return { select: 'suspects', queue, filter, instance, limit: instance === null ? limit : 1 } as const
}

/** The rows that a claim on a queue chooses from. */
function lineOf(queue: string, caller: Caller, limit: number) {
  return {
    ready: { select: 'claimable', queue, limit } as const,
    suspects: suspectsOf(queue, caller, { limit }),
  }
}

function firstInLine(
  line: { ready: readonly Item[]; suspects: readonly Item[] },
  limit: number,
): readonly Item[] {
  if (line.suspects.length === 0) return line.ready
  return [...line.ready, ...line.suspects].sort(compareInLine).slice(0, limit)
}

export const peek = operation({
  name: 'queue.peek',
  summary: 'Show the item that would be claimed next.',
  effect: 'read',
  input: () => z.strictObject({ queue: fields.queue }),
  output: () => itemView().nullable(),
  needs: ({ queue }, caller) => lineOf(queue, caller, 1),
  decide(line, _input, { now }) {
    const [next] = firstInLine(line, 1)
    return { changes: [], result: next ? viewItem(next, now) : null }
  },
})

export const look = operation({
  name: 'queue.look',
  summary: 'Say whether there is anything to claim, and when there may be.',
  effect: 'read',
  class: 'client',
  input: () =>
    z.strictObject({
      queue: fields.queue,
      lapses: z.boolean().optional().describe('Also report when the next lease there ends.'),
    }),
  output: () =>
    z.object({
      ready: z.boolean(),
      nextDueAt: z.number().nullable(),
      /** Time until the next lease, of an item or the processing lock, can be taken over; below 0 if it already can. */
      lapseInMs: z.number().nullable(),
    }),
  needs: ({ queue, lapses }, caller) => ({
    ...lineOf(queue, caller, 1),
    nextDueAt: { select: 'nextDueAt', queue } as const,
    offers: { select: 'offered', queue, agent: caller.agent, filter: null, limit: 1 } as const,
    held: lapses ? ({ select: 'heldItems', queue, limit: 1 } as const) : null,
    locks: lapses ? ({ select: 'lock', name: processingLockName(queue) } as const) : null,
  }),
  decide({ offers, nextDueAt, held, locks, ...line }, _input, { wall, now, manualGraceMs }) {
    const claimable = [...firstInLine(line, 1), ...offers]
    const leases = [...(held ?? []).map(({ item }) => item), ...(locks ?? [])]
    const ends = leases.map((lease) => lapsesAt(lease, { manualGraceMs }))
    return {
      changes: [],
      result: {
        // An item that is due becomes ready through the claim that finds it.
        ready: claimable.length > 0 || (nextDueAt !== null && nextDueAt <= wall),
        nextDueAt,
        lapseInMs: ends.length === 0 ? null : Math.min(...ends) - now,
      },
    }
  },
})

export const next = operation({
  name: 'queue.next',
  summary: 'Claim the next item under a lease.',
  effect: 'write',
  introduces: 'unbound',
  claims: ({ queue }) => queue,
  waits: true,
  grants: 'item',
  input: () => z.strictObject({ queue: fields.queue, leaseMs: fields.leaseMs, token: fields.token }),
  output: claimOutcome,
  needs: ({ queue }, caller) => ({
    defined: { select: 'queue', name: queue } as const,
    ...lineOf(queue, caller, 1),
    process: claimant(caller),
  }),
  decide({ defined, process, ...line }, input, context): Step<ClaimOutcome> {
    if (!defined) return emptyAnswer(input.queue)
    const [candidate] = firstInLine(line, 1)
    if (defined.queue.slots !== null)
      return claimUnderLock(defined, candidate, holderWith(context, process), input, context)
    if (defined.queue.pausedAt !== null) return pausedAnswer(defined.queue)
    if (!candidate) return emptyAnswer(input.queue)
    const leaseMs = leaseLength(input.leaseMs, context, defined.queue)
    // Field by field, because a spread costs ten times as much and this runs for every claim.
    const { agent, instance, holderHost = null } = holderWith(context, process)
    const holder = { agent, instance, holderHost, leaseMs }
    const { item, change } = claim(candidate, workflowOf(defined), holder, context)
    return {
      changes: [change],
      result: { outcome: 'claimed', item: viewItem(item, context.now), lease: viewLease(item, context.now) },
      granted: [grantOf(item)],
    }
  },
})

export const claimMany = operation({
  name: 'queue.claimMany',
  summary: 'Claim up to 100 items at once, each under its own lease.',
  effect: 'write',
  introduces: 'unbound',
  claims: ({ queue }) => queue,
  withoutLost(answer, lost) {
    if (answer.outcome !== 'claimed') return null
    const items = answer.items.filter(({ id }) => !lost.some((grant) => grant.id === id))
    return items.length === 0 ? null : { ...answer, items }
  },
  grants: 'item',
  input: () =>
    z.strictObject({
      queue: fields.queue,
      limit: z.int().min(1).max(100).describe('How many at most, up to 100.'),
      leaseMs: fields.leaseMs,
    }),
  output: claimManyOutcome,
  needs: ({ queue, limit }, caller) => ({
    defined: { select: 'queue', name: queue } as const,
    ...lineOf(queue, caller, limit),
    process: claimant(caller),
  }),
  decide({ defined, process, ...line }, input, context): Step<ClaimManyOutcome> {
    if (!defined) return emptyAnswer(input.queue)
    const candidates = firstInLine(line, input.limit)
    if (defined.queue.slots !== null) {
      throw new InvalidError({
        what: `queue ${input.queue} is claimed through its processing lock, one item per slot`,
        next: 'use next() or nextWithLock()',
        facts: { queue: input.queue, slots: defined.queue.slots },
      })
    }
    if (defined.queue.pausedAt !== null) return pausedAnswer(defined.queue)
    if (candidates.length === 0) return emptyAnswer(input.queue)
    const workflow = workflowOf(defined)
    const holder = {
      ...holderWith(context, process),
      leaseMs: leaseLength(input.leaseMs, context, defined.queue),
    }
    const claims = candidates.map((candidate) => claim(candidate, workflow, holder, context))
    return {
      changes: claims.map(({ change }) => change),
      result: { outcome: 'claimed', items: claims.map(({ item }) => viewItem(item, context.now)) },
      granted: claims.map(({ item }) => grantOf(item)),
    }
  },
})

export const nextWithLock = operation({
  name: 'queue.nextWithLock',
  summary: "Acquire the queue's processing lock and claim the next item, or return to your unfinished one.",
  effect: 'write',
  introduces: 'unbound',
  claims: ({ queue }) => queue,
  waits: true,
  grants: 'item',
  input: () => z.strictObject({ queue: fields.queue, leaseMs: fields.leaseMs, token: fields.token }),
  output: claimOutcome,
  needs: ({ queue }, caller) => ({
    defined: { select: 'queue', name: queue } as const,
    ...lineOf(queue, caller, 1),
    process: claimant(caller),
  }),
  decide({ defined, process, ...line }, input, context): Step<ClaimOutcome> {
    if (!defined) return emptyAnswer(input.queue)
    return claimUnderLock(defined, firstInLine(line, 1)[0], holderWith(context, process), input, context)
  },
})

/** Nothing to claim now. Says when that may change, so that nobody has to guess. */
export function emptyAnswer(queue: string): Step<{ outcome: 'empty'; nextDueAt: number | null }> {
  return ask({ nextDueAt: { select: 'nextDueAt', queue } as const }, ({ nextDueAt }) => ({
    changes: [],
    result: { outcome: 'empty', nextDueAt },
  }))
}

export function heldAnswer({ agent, acquiredAt, expiresAt }: Lock): ClaimOutcome & { outcome: 'held' } {
  return { outcome: 'held', holder: agent, since: acquiredAt, expiresAt }
}

function pausedAnswer(queue: Queue): Decision<ClaimOutcome & { outcome: 'paused' }> {
  return { changes: [], result: { outcome: 'paused', reason: queue.pauseReason } }
}

function claim(
  candidate: Item,
  workflow: Workflow,
  holder: Holder & { leaseMs: number },
  context: Context & Clocks,
) {
  const item = claimItem(candidate, workflow, holder, context)
  return { item, change: itemChange(candidate, item, 'item.claimed', context) }
}

/**
 * 1. Get the lock: our own (renewed), a free one or a lapsed one. Otherwise the answer is `held`.
 * 2. If we have an unfinished item under that lock, renew it with the lock.
 * 3. Otherwise claim the next item.
 * 4. If there is none, do not take a lock that was not ours already.
 */
function claimUnderLock(
  defined: DefinedQueue,
  candidate: Item | undefined,
  holder: Holder,
  input: { leaseMs?: number | undefined; token?: number | undefined },
  context: Context,
): Step<ClaimOutcome> {
  const { queue } = defined
  const workflow = workflowOf(defined)
  const leaseMs = leaseLength(input.leaseMs, context, queue)
  const name = processingLockName(queue.name)
  const needs = {
    locks: { select: 'lock', name } as const,
    floor: { select: 'tokenFloor' } as const,
    nextDueAt: { select: 'nextDueAt', queue: queue.name } as const,
    locked: { select: 'lockedItems', name } as const,
  }
  return ask(needs, ({ locks, floor, locked, nextDueAt }): Decision<ClaimOutcome> => {
    const request = {
      ...holder,
      name,
      slots: queue.slots ?? 1,
      leaseMs,
      reason: null,
      token: input.token,
    }
    const { now, wall, isDoubtful, manualGraceMs } = context
    const acquired = acquireLock(request, locks, { now, wall, isDoubtful, manualGraceMs, floor })
    if (acquired.outcome === 'held') return { changes: [], result: heldAnswer(acquired.by) }
    const own = acquired.outcome === 'renewed' ? acquired.before : null
    const unfinished = locked.find((item) => item.id === own?.item && isHeldWith(item, own))
    if (own && unfinished) return goOn(own, acquired.after, unfinished)
    // A paused queue refuses only new claims. What is already held goes on.
    if (queue.pausedAt !== null) return pausedAnswer(queue)
    if (!candidate)
      return {
        changes: acquired.outcome === 'renewed' ? [{ table: 'lock', ...pick(acquired) }] : [],
        result: { outcome: 'empty', nextDueAt },
      }
    const { item, change } = claim(candidate, workflow, { ...holder, leaseMs }, context)
    const lock = { ...acquired.after, item: item.id, version: (acquired.before?.version ?? 0) + 1 }
    return {
      changes: [...endings(acquired, context), lockChange(acquired.before, lock, context), change],
      result: answer(item, lock, context.now),
      granted: [grantOf(item), { kind: 'lock', id: lockRef(lock), token: lock.token }],
    }
  })

  function goOn(before: Lock, after: Lock, item: Item): Decision<ClaimOutcome> {
    const renewed = renew(item, context.now, leaseMs)
    return {
      changes: [
        { table: 'lock', before, after },
        { table: 'item', before: item, after: renewed },
      ],
      result: answer(renewed, after, context.now),
      granted: [grantOf(item), { kind: 'lock', id: lockRef(after), token: after.token }],
    }
  }
}

/** Whether the item was claimed with this lock and its holder still has it. */
function isHeldWith(item: Item, lock: Lock): boolean {
  return item.phase === 'held' && item.agent === lock.agent && item.instance === lock.instance
}

function grantOf({ id, token }: Item): Grant {
  return { kind: 'item', id, token }
}

function pick(acquired: { before: Lock | null; after: Lock }) {
  return { before: acquired.before, after: acquired.after }
}

function answer(item: Item, lock: Lock, now: number): ClaimOutcome {
  return {
    outcome: 'claimed',
    item: viewItem(item, now),
    lease: viewLease(item, now),
    lock: viewLock(lock, now),
  }
}

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
