/** The processing lock of a queue: an ordinary lock named after it. */
import * as z from 'zod'
import type { Item } from '../../domain/item.ts'
import { extend, isExpired, renew as renewLease } from '../../domain/lease.ts'
import { acquireLock, assertOwn, extendLock as extendOwn, findOwn, type Lock } from '../../domain/lock.ts'
import { processingLockName } from '../../domain/queue.ts'
import { lazily } from '../../lazily.ts'
import type { Change } from '../../port/decision.ts'
import { claimant, holderWith, leaseLength } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { lockGrant, lockRef } from '../lease/lease.ts'
import { endings, lockChange } from '../lock/lock-change.ts'
import { ask, change, type OutputOf, operation, reply, type Step } from '../operation.ts'
import { type LockView, lockView, viewLock } from '../view.ts'
import { held, heldAnswer } from './claim-outcome.ts'

const input = lazily(() => ({ queue: fields.queue, token: fields.token }))
const lockNeeds = (of: { queue: string }) => ({
  locks: { select: 'lock', name: processingLockName(of.queue) } as const,
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
    const change: Change =
      acquired.outcome === 'renewed'
        ? { table: 'lock', before: acquired.before, after: acquired.after }
        : lockChange(acquired.before, acquired.after, context)
    return {
      changes: [...endings(acquired, context), change],
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
    if (own) {
      return {
        changes: [change('lock', own, null, 'lock.released', context)],
        result: true,
      }
    }
    const id = lockRef({ name: processingLockName(of.queue), slot: 0 })
    const detail = { act: 'release', holder: locks[0]?.agent ?? null, doubleUnlock: locks.length === 0 }
    return {
      changes: [],
      remarks: [
        {
          kind: 'lock.refused',
          agent: context.agent,
          subject: 'lock',
          id,
          queue: of.queue,
          token: of.token ?? null,
          detail,
        },
      ],
      result: false,
    }
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

const itemOf = (lock: Lock) => ({
  items: lock.item === null ? null : ({ select: 'itemsById', ids: [lock.item] } as const),
})

/** The item claimed with the lock, if its holder still has it. */
function companion(lock: Lock, items: readonly Item[] | null): Item | undefined {
  return items?.find(
    (item) => item.phase === 'held' && item.agent === lock.agent && item.instance === lock.instance,
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
  decide({ locks }, of, context) {
    const own = assertOwn(processingLockName(of.queue), locks, { ...context, token: of.token })
    return ask(itemOf(own), ({ items }) => {
      const lock = renewLease(own, context.now, of.leaseMs)
      const item = companion(own, items)
      const changes: Change[] = [{ table: 'lock', before: own, after: lock }]
      if (item)
        changes.push({ table: 'item', before: item, after: renewLease(item, context.now, of.leaseMs) })
      return { changes, result: viewLock(lock, context.now) }
    })
  },
})

export const extendLock = operation({
  name: 'queue.extendLock',
  summary: 'Extend the processing lock and the item claimed with it. Refused once the lock has lapsed.',
  effect: 'write',
  tokenIdentifies: 'grant',
  input: () => ({ ...input(), extraMs: fields.leaseMs.unwrap().describe('How much longer, ms.') }),
  output: () => lockView().extend({ capped: z.boolean() }),
  needs: lockNeeds,
  decide({ locks }, of, context) {
    const own = assertOwn(processingLockName(of.queue), locks, { ...context, token: of.token })
    return ask(itemOf(own), ({ items }): { changes: Change[]; result: LockView & { capped: boolean } } => {
      const { lock, capped } = extendOwn(own, of.extraMs, context.now)
      const item = companion(own, items)
      const changes: Change[] = [
        change('lock', own, { ...lock, version: own.version + 1 }, 'lock.extended', context, {
          extraMs: of.extraMs,
          capped,
        }),
      ]
      if (item) {
        const { capped: _capped, ...after } = extend(item, context.now, of.extraMs)
        changes.push(
          change('item', item, { ...after, version: item.version + 1 }, 'item.extended', context, {
            extraMs: of.extraMs,
          }),
        )
      }
      return { changes, result: { ...viewLock(lock, context.now), capped } }
    })
  },
})
