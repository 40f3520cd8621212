/** Named locks: acquire, wait in line, renew, release. */
import * as z from 'zod'
import type { Claimant } from '../../domain/instance.ts'
import { isHolder, renew as renewLease } from '../../domain/lease.ts'
import { assertOwn, type Lock, manualLockMs } from '../../domain/lock.ts'
import {
  decideTurn,
  isWaiterDue,
  joinLine,
  type LockLine,
  leaveLock,
  maxWaiters,
  type NamedRequest,
  type Turn,
  type Waiter,
} from '../../domain/lock-line.ts'
import { defaultQuotas } from '../../domain/quota.ts'
import { assertNotOver } from '../../domain/reservation.ts'
import { lazily } from '../../lazily.ts'
import type { Caller, Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import { claimant, holderWith, leaseLength } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { lockGrant } from '../lease/lease.ts'
import { change, type InputWith, need, type OutputOf, operation, type Step } from '../operation.ts'
import { lockView, viewLock } from '../view.ts'
import { leaving } from './line.ts'
import { endings, lockChange, lockRemark, pausing, refusedRelease } from './lock-change.ts'
import { lockName, newName, slotCount } from './name.ts'

export const user = lazily(() => fields.name.optional().describe('On whose behalf.'))

const acquireInput = lazily(() => ({
  name: newName().describe('Name of the lock.'),
  reason: fields.reason,
  user: user(),
  run: fields.name.optional().describe('The run it is held for; progress is recorded under that name.'),
  leaseMs: fields.leaseMs,
  slots: slotCount().optional().describe('How many may hold it at once; default 1.'),
  reentrant: z
    .boolean()
    .optional()
    .describe('Its holder may acquire it again, and must release it as many times.'),
  delayMs: fields.leaseMs.describe('How long nobody may acquire it after its holder is lost; default 0.'),
  token: fields.token,
  wait: z.boolean().optional().describe('Wait in line when it is held.'),
  waiter: fields.text(100).optional().describe("The waiter's id, as returned by an earlier call."),
}))

const held = lazily(() => ({
  holder: z.string().nullable(),
  since: z.number(),
  expiresAt: z.number().nullable(),
}))
const acquireOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [
    z.object({
      outcome: z.literal('acquired'),
      lock: lockView(),
      /** The previous holder, if its lock had lapsed; null when the lock was free. */
      recoveredFrom: z.object({ holder: z.string().nullable(), token: z.number() }).nullable(),
    }),
    z.object({ outcome: z.literal('held'), ...held() }),
    z.object({
      outcome: z.literal('waiting'),
      ...held(),
      waiter: z.string(),
      /** Token of the waiter. */
      ticket: z.number(),
    }),
  ]),
)
export type NamedAcquireOutcome = OutputOf<typeof acquireOutcome>

export const acquireLock = operation({
  name: 'locks.acquireLock',
  summary: 'Acquire a named lock, or say who holds it, or wait in line.',
  effect: 'write',
  introduces: 'unbound',
  waits: true,
  // Even for a caller in line: it may have lost its waiter and have to join again.
  freshIds: ({ wait }) => (wait ? 1 : 0),
  grants: 'lock',
  input: acquireInput,
  output: acquireOutcome,
  needs: turnNeeds,
  decide({ line, process, waits }, input, context): Step<NamedAcquireOutcome> {
    const turn = decideTurn(requestOf(input, process, context), line, context)
    if (turn.outcome === 'held') return keepOut(turn, { ...line, waits }, input, context)
    const { before, after } = turn
    const taken = turn.outcome === 'granted' ? before : null
    const decision: Decision<NamedAcquireOutcome> = {
      changes: [
        ...endings(turn, context),
        grantChange(before, after, context),
        ...leaving(line.own, 'it got the lock', context),
      ],
      result: {
        outcome: 'acquired',
        lock: viewLock(after, context.now),
        recoveredFrom: taken && { holder: taken.agent, token: taken.token },
      },
      granted: [lockGrant(after)],
    }
    const lost = [...(taken === null ? [] : [taken]), ...(turn.outcome === 'granted' ? turn.ended : [])]
    return pausing(lost, 'its lock was taken over', decision, context)
  },
})

function turnNeeds({ name, slots = 1, wait, waiter }: InputWith<typeof acquireInput>, caller: Caller) {
  const limit = (caller.quotas ?? defaultQuotas).lockWaits
  const isNew = wait === true && waiter === undefined
  return need({
    // A caller already in line was counted when it joined.
    waits: isNew ? { select: 'waitersOfAgent', agent: caller.agent, limit } : null,
    // For a newcomer, as many as may stand in line. Otherwise as many as may go before the caller, and at least 2, to
    // tell whether anybody else is waiting.
    line: {
      select: 'lockLine',
      name,
      waiter: waiter ?? null,
      limit: isNew ? maxWaiters : Math.max(slots, 2),
    },
    process: claimant(caller),
  })
}

function requestOf(input: InputWith<typeof acquireInput>, process: Claimant, context: Context): NamedRequest {
  // Field by field, because a spread in a literal of this size costs ten times as much and this runs for every lock.
  const { agent, instance } = holderWith(context, process)
  return {
    agent,
    instance,
    name: input.name,
    slots: input.slots ?? 1,
    leaseMs: leaseLength(input.leaseMs, context, null, manualLockMs(input.name)),
    reason: input.reason ?? null,
    token: input.token,
    user: input.user ?? null,
    run: input.run ?? null,
    delayMs: input.delayMs ?? 0,
    reentrant: input.reentrant ?? false,
  }
}

/** A row kept only for a delay has no holder, so taking it is not recorded as stolen. */
function grantChange(before: Lock | null, after: Lock, context: Context): Change {
  if (before?.delayedSince == null) return lockChange(before, after, context)
  const detail = { previousHolder: before.agent, previousToken: before.token }
  return change('lock', before, after, 'lock.acquired', context, detail)
}

/** Somebody else has the lock or is next. The caller joins the line or stays in it, if it wants to wait. */
function keepOut(
  turn: Extract<Turn, { outcome: 'held' }>,
  line: LockLine & { readonly waits: number | null },
  input: InputWith<typeof acquireInput>,
  context: Context,
): Step<NamedAcquireOutcome> {
  const { holder, since, expiresAt } = turn
  const delays = turn.delayed.map(
    ({ before, after }): Change => delayedLock(before, after, 'its lease had lapsed', context),
  )
  const lost = turn.delayed.map(({ before }) => before)
  if (!input.wait) {
    const result = { outcome: 'held', holder, since, expiresAt } as const
    return pausing(lost, 'its lock lapsed', { changes: delays, result }, context)
  }
  const id = line.own?.id ?? (context.ids[0] as string)
  const waiter = line.own ?? joinLine({ ...context, id, name: input.name }, line, context)
  const result = { outcome: 'waiting', holder, since, expiresAt, waiter: id, ticket: waiter.token } as const
  const changes = [...delays, ...waiterChange(line.own, waiter, context)]
  return pausing(lost, 'its lock lapsed', { changes, result }, context)
}

function waiterChange(own: Waiter | null, waiter: Waiter, context: Context): Change[] {
  if (own === null) return [change('waiter', null, waiter, 'waiter.joined', context)]
  return isWaiterDue(own, context.now)
    ? [{ table: 'waiter', before: own, after: renewLease(own, context.now) }]
    : []
}

/** The row stays, to keep others out for the delay that its holder had asked for. */
export function delayedLock(
  before: Lock,
  after: Lock,
  evidence: string,
  context: Context,
  detail: Readonly<Record<string, string | number>> = {},
): Change {
  return change('lock', before, after, 'lock.delayed', context, {
    holder: before.agent,
    token: before.token,
    evidence,
    ...detail,
  })
}

export const renewLock = operation({
  name: 'locks.renewLock',
  summary: 'Renew a lock you hold for its full length.',
  effect: 'write',
  tokenIdentifies: 'grant',
  input: () => ({ name: lockName(), token: fields.token, leaseMs: fields.leaseMs }),
  output: lockView,
  needs: ({ name }) => ({ locks: { select: 'lock', name } }),
  decide({ locks }, { name, token, leaseMs }, context) {
    const before = assertOwn(name, locks, { ...context, token })
    assertNotOver(before, context.now)
    const after = renewLease(before, context.now, leaseMs)
    return {
      changes: [{ table: 'lock', before, after }],
      remarks: [lockRemark('lock.renewed', before, context, { token: before.token })],
      result: viewLock(after, context.now),
    }
  },
})

export const releaseLock = operation({
  name: 'locks.releaseLock',
  summary: 'Give a lock back by its token. Any token but the current one changes nothing.',
  effect: 'write',
  tokenIdentifies: 'grant',
  input: () => ({ name: lockName(), token: fields.token }),
  output: () => z.object({ released: z.boolean(), depth: z.number() }),
  needs: ({ name }) => ({ line: { select: 'lockLine', name, waiter: null, limit: 1 } }),
  decide({ line }, { name, token }, context): Step<{ released: boolean; depth: number }> {
    const claimant = { agent: context.agent, token }
    const own = line.locks.find((lock) => lock.delayedSince === null && isHolder(lock, claimant))
    if (!own) {
      const remarks = [refusedRelease({ name }, token, line.locks, context)]
      return { changes: [], remarks, result: { released: false, depth: 0 } }
    }
    const after = leaveLock(own)
    const kind = after === null ? 'lock.released' : 'lock.changed'
    const decision = {
      changes: [change('lock', own, after, kind, context)],
      result: { released: true, depth: after?.depth ?? 0 },
    }
    return after === null ? pausing([own], 'its lock was released', decision, context) : decision
  },
})
