/** The processing lock of a queue: an ordinary lock named after it. */
import * as z from 'zod'
import type { Item } from '../../domain/item.ts'
import { extend, isExpired, renew as renewLease } from '../../domain/lease.ts'
import { acquireLock, assertOwn, extendLock as extendOwn, findOwn, type Lock } from '../../domain/lock.ts'
import { processingLockName } from '../../domain/queue.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import { claimant, holderWith, leaseLength } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { lockGrant } from '../lease/lease.ts'
import { endings, lockChange, refusedRelease } from '../lock/lock-change.ts'
import {
  ask,
  change,
  type InputWith,
  need,
  type OutputOf,
  operation,
  reply,
  type Step,
} from '../operation.ts'
import { lockView, viewLock } from '../view.ts'
import { held, heldAnswer } from './claim-outcome.ts'
import { isHeldWith } from './claim-under-lock.ts'

const input = lazily(() => ({ queue: fields.queue, token: fields.token }))
const lockNeeds = (of: { queue: string }) =>
  need({
    locks: { select: 'lock', name: processingLockName(of.queue) },
  })

const acquireOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [z.object({ outcome: z.literal('acquired'), lock: lockView() }), held()]),
)
export type AcquireOutcome = OutputOf<typeof acquireOutcome>

export const acquireProcessingLock = operation({
  name: 'queue.acquireProcessingLock',
  summary: "Acquire a queue's processing lock. Your own lock is renewed; a lapsed one is taken over.",
  effect: 'write',
  introduces: 'unbound',
  claims: ({ queue }) => queue,
  grants: 'lock',
  input: () => ({ ...input(), leaseMs: fields.leaseMs, reason: fields.reason }),
  output: acquireOutcome,
  needs: (of, caller) => ({
    ...lockNeeds(of),
    process: claimant(caller),
    defined: { select: 'queue', name: of.queue },
    floor: { select: 'tokenFloor' },
  }),
  decide({ locks, process, defined, floor }, of, context): Step<AcquireOutcome> {
    const request = {
      ...holderWith(context, process),
      name: processingLockName(of.queue),
      slots: defined?.queue.slots ?? 1,
      leaseMs: leaseLength(of.leaseMs, context, defined?.queue ?? null),
      reason: of.reason ?? null,
      token: of.token,
    }
    const { now, wall, isDoubtful, manualGraceMs } = context
    const acquired = acquireLock(request, locks, { now, wall, isDoubtful, manualGraceMs, floor })
    if (acquired.outcome === 'held') return reply(heldAnswer(acquired.by))
    const granted: Change =
      acquired.outcome === 'renewed'
        ? { table: 'lock', before: acquired.before, after: acquired.after }
        : lockChange(acquired.before, acquired.after, context)
    return {
      changes: [...endings(acquired, context), granted],
      result: { outcome: 'acquired', lock: viewLock(acquired.after, context.now) },
      granted: [lockGrant(acquired.after)],
    }
  },
})

export const releaseProcessingLock = operation({
  name: 'queue.releaseProcessingLock',
  summary: 'Release the processing lock, if it is yours; its item stays claimed.',
  effect: 'write',
  tokenIdentifies: 'grant',
  input,
  output: () => z.boolean(),
  needs: lockNeeds,
  decide({ locks }, of, context) {
    const own = findOwn(locks, { ...context, token: of.token })
    if (own) return { changes: [change('lock', own, null, 'lock.released', context)], result: true }
    const { queue, token } = of
    const remarks = [refusedRelease({ name: processingLockName(queue), queue }, token, locks, context)]
    return { changes: [], remarks, result: false }
  },
})

export const getProcessingLock = operation({
  name: 'queue.getProcessingLock',
  summary: 'Get the processing lock, lapsed or not, unless it is free.',
  effect: 'read',
  input: () => ({ queue: fields.queue }),
  output: () => lockView().nullable(),
  needs: lockNeeds,
  decide: ({ locks }, _of, { now }) => reply(locks[0] ? viewLock(locks[0], now) : null),
})

export const isLockStale = operation({
  name: 'queue.isLockStale',
  summary: 'Say whether the processing lock exists and has lapsed.',
  effect: 'read',
  input: () => ({ queue: fields.queue }),
  output: () => z.boolean(),
  needs: lockNeeds,
  decide: ({ locks }, _of, { now }) => reply(locks.some((lock) => isExpired(lock, now))),
})

/** The caller's own lock changes, and with it the item claimed with it, if the caller still has that. */
function withItem<Result>(
  locks: readonly Lock[],
  { queue, token }: InputWith<typeof input>,
  context: Context,
  decide: (lock: Lock, item: Item | undefined) => Decision<Result>,
): Step<Result> {
  const own = assertOwn(processingLockName(queue), locks, { ...context, token })
  const needs = need({ items: own.item === null ? null : { select: 'itemsById', ids: [own.item] } })
  return ask(needs, ({ items }) =>
    decide(
      own,
      items?.find((item) => isHeldWith(item, own)),
    ),
  )
}

export const renewLock = operation({
  name: 'queue.renewLock',
  summary: 'Renew the processing lock and the item claimed with it, both for their full length.',
  effect: 'write',
  tokenIdentifies: 'grant',
  input: () => ({ ...input(), leaseMs: fields.leaseMs }),
  output: lockView,
  needs: lockNeeds,
  decide: ({ locks }, of, context) =>
    withItem(locks, of, context, (own, item) => {
      const after = renewLease(own, context.now, of.leaseMs)
      const changes: Change[] = [{ table: 'lock', before: own, after }]
      if (item)
        changes.push({ table: 'item', before: item, after: renewLease(item, context.now, of.leaseMs) })
      return { changes, result: viewLock(after, context.now) }
    }),
})

export const extendLock = operation({
  name: 'queue.extendLock',
  summary: 'Extend the processing lock and the item claimed with it. Refused once the lock has lapsed.',
  effect: 'write',
  tokenIdentifies: 'grant',
  input: () => ({ ...input(), extraMs: fields.leaseMs.unwrap().describe('How much longer, ms.') }),
  output: () => lockView().extend({ capped: z.boolean() }),
  needs: lockNeeds,
  decide: ({ locks }, of, context) =>
    withItem(locks, of, context, (own, item) => {
      const { extraMs } = of
      const { lock, capped } = extendOwn(own, extraMs, context.now)
      const after = { ...lock, version: own.version + 1 }
      const changes: Change[] = [change('lock', own, after, 'lock.extended', context, { extraMs, capped })]
      if (item) {
        const { capped: _, ...extended } = extend(item, context.now, extraMs)
        const longer = { ...extended, version: item.version + 1 }
        changes.push(change('item', item, longer, 'item.extended', context, { extraMs }))
      }
      return { changes, result: { ...viewLock(after, context.now), capped } }
    }),
})
