import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isExpired } from '../../src/domain/lease.ts'
import { type Lock, manualLockMs } from '../../src/domain/lock.ts'
import {
  decideTurn,
  isWaiterDue,
  joinLine,
  type LineHead,
  type LockLine,
  leaveLock,
  lookAtLine,
  loseLock,
  maxWaiters,
  type NamedRequest,
  renewWaiters,
  transferLock,
  type Waiter,
} from '../../src/domain/lock-line.ts'
import type { Quotas } from '../../src/domain/quota.ts'
import { aLock, at, later, refusalOf } from './samples.ts'

const request: NamedRequest = {
  agent: 'bob',
  instance: 'bob-1',
  name: 'press',
  slots: 1,
  leaseMs: 30_000,
  reason: 'ink',
  token: undefined,
  user: 'olga',
  run: 'r1',
  delayMs: 0,
  reentrant: false,
}
const empty: LockLine = { locks: [], next: null, own: null, waiting: 0, ahead: 0, last: 0, floor: 0 }
const held = (fields: Partial<Lock> = {}) => aLock({ slots: 1, ...fields })
const waiterOf = (agent: string, token: number): Waiter => ({
  ...joinLine({ agent, instance: `${agent}-1`, id: agent, name: 'press' }, empty, at),
  token,
})

describe('a turn', () => {
  test('at a free lock without a line is granted at once, with everything the caller gave [L1] [L2]', () => {
    const turn = decideTurn(request, empty, at)

    expect(turn).toMatchObject({
      outcome: 'granted',
      before: null,
      after: { agent: 'bob', user: 'olga', run: 'r1', reason: 'ink', slots: 1, depth: 1, version: 1 },
    })
  })

  test('at a held lock names the holder, its start and its end [L2]', () => {
    const lock = held()

    const turn = decideTurn(request, { ...empty, locks: [lock] }, at)

    expect(turn).toEqual({
      outcome: 'held',
      holder: 'ada',
      since: lock.acquiredAt,
      expiresAt: lock.expiresAt,
      delayed: [],
    })
  })

  test('at a lapsed lock is granted, under a larger token [L2]', () => {
    const lapsed = held({ expiresAt: at.now - 1, token: 9e12 })

    const turn = decideTurn(request, { ...empty, locks: [lapsed] }, at)

    expect(turn).toMatchObject({ outcome: 'granted', before: lapsed, after: { token: 9e12 + 1, slot: 0 } })
  })

  test('of a newcomer does not come while others wait, even if the lock is free [L16]', () => {
    const next = waiterOf('cy', 5)

    const turn = decideTurn(request, { ...empty, next, waiting: 1, ahead: 1, last: 5 }, at)

    expect(turn).toMatchObject({ outcome: 'held', holder: 'cy', since: next.joinedAt })
  })

  test('of the first in line comes when the lock is free [L16]', () => {
    const own = waiterOf('bob', 5)

    const turn = decideTurn(request, { ...empty, next: own, own, waiting: 3, ahead: 0, last: 9 }, at)

    expect(turn.outcome).toBe('granted')
  })

  test('of the second comes when two of three slots are free, of the third it does not [L16]', () => {
    const line = { ...empty, locks: [held({ slots: 3 })], next: waiterOf('cy', 5), waiting: 3 }
    const ask = (ahead: number) => decideTurn({ ...request, slots: 3 }, { ...line, ahead }, at).outcome

    expect([0, 1, 2].map(ask)).toEqual(['granted', 'granted', 'held'])
  })

  test('asked for with another number of slots is refused, naming both [L2]', () => {
    const refusal = refusalOf(() => decideTurn(request, { ...empty, locks: [held({ slots: 3 })] }, at))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { slots: 3, asked: 1 } })
  })

  test('at a lock that lapsed with another number of slots is granted, and ends its other lapsed grants [S5c-17]', () => {
    const lapsed = (slot: number) => held({ slot, slots: 3, token: 70 + slot, expiresAt: at.now - 10 + slot })
    const rows = [lapsed(2), lapsed(1), lapsed(0)]

    const fewer = decideTurn(request, { ...empty, locks: rows }, at)
    const more = decideTurn({ ...request, slots: 5 }, { ...empty, locks: rows }, at)
    const beyond = decideTurn(request, { ...empty, locks: [lapsed(2)] }, at)

    expect(fewer).toMatchObject({ outcome: 'granted', before: rows[2], ended: [rows[0], rows[1]] })
    expect(more).toMatchObject({ outcome: 'granted', before: rows[2], after: { slot: 0, slots: 5 } })
    expect(beyond).toMatchObject({ outcome: 'granted', before: null, after: { slot: 0 }, ended: [lapsed(2)] })
  })

  test('is not granted during a delay with another number of slots [S5c-17]', () => {
    const delayed = held({ slots: 3, delayedSince: at.now })
    const line = { ...empty, locks: [delayed], next: waiterOf('cy', 5), waiting: 1 }

    const turn = decideTurn({ ...request, slots: 5 }, line, at)

    expect(turn).toMatchObject({ outcome: 'held', holder: null, expiresAt: delayed.expiresAt })
  })

  test('of a lapsed holder is not a re-entry with another number of slots [S5c-17]', () => {
    const own = held({ agent: 'bob', instance: 'bob-1', slots: 3, expiresAt: at.now - 1 })

    const turn = decideTurn({ ...request, reentrant: true }, { ...empty, locks: [own] }, at)

    expect(turn).toMatchObject({ outcome: 'granted', before: own, after: { slots: 1, depth: 1 } })
  })

  test('never gives a lock to more holders than slots, in any order of callers', () => {
    const step = fc.record({
      agent: fc.constantFrom('a', 'b', 'c', 'd'),
      ms: fc.nat(20_000),
      slots: fc.constant(2),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let locks: Lock[] = []
        let now = at.now
        for (const { agent, ms, slots } of steps) {
          now += ms
          const turn = decideTurn(
            { ...request, agent, instance: agent, slots },
            { ...empty, locks },
            { now, wall: 0 },
          )
          if (turn.outcome !== 'granted') continue
          locks = [...locks.filter(({ slot }) => slot !== turn.after.slot), turn.after]
          expect(locks.filter((lock) => !isExpired(lock, now)).length).toBeLessThanOrEqual(slots)
        }
      }),
    )
  })
})

describe('entering again', () => {
  const own = held({ agent: 'bob', instance: 'bob-1', token: 70 })
  const again = (fields: Partial<NamedRequest>, lock = own) =>
    decideTurn({ ...request, ...fields }, { ...empty, locks: [lock] }, at)

  test('is counted and renews, under the same token [L2]', () => {
    const turn = again({ reentrant: true, leaseMs: 90_000 })

    expect(turn).toMatchObject({
      outcome: 'entered',
      after: { depth: 2, token: 70, expiresAt: at.now + 90_000, version: own.version + 1 },
    })
  })

  test('is refused, naming the caller, unless it was asked for [L2]', () => {
    expect(again({})).toMatchObject({ outcome: 'held', holder: 'bob' })
  })

  test('needs the token of the grant if one is named, and the process [L2]', () => {
    expect(again({ reentrant: true, token: 70 }).outcome).toBe('entered')
    expect(again({ reentrant: true, token: 69 }).outcome).toBe('held')
    expect(again({ reentrant: true, instance: 'bob-2' }).outcome).toBe('held')
  })

  test('is limited', () => {
    expect(refusalOf(() => again({ reentrant: true }, { ...own, depth: 1000 })).code).toBe('INVALID')
  })

  test('must be released as often as entered; the last release frees the lock', () => {
    expect(leaveLock(held({ depth: 2, version: 4 }))).toMatchObject({ depth: 1, version: 5 })
    expect(leaveLock(held({ depth: 1 }))).toBeNull()
  })
})

describe('a lock lost with a delay', () => {
  const lost = held({ delayMs: 10_000, token: 9e12 })

  test('keeps everyone out for the delay, under a token its holder does not have', () => {
    const after = loseLock(lost, at.now)

    expect(after).toMatchObject({
      delayedSince: at.now,
      expiresAt: at.now + 10_000,
      instance: null,
      token: 9e12 + 1,
      version: lost.version + 1,
    })
  })

  test('is free at once without a delay, and after it', () => {
    expect(loseLock(held(), at.now)).toBeNull()
    expect(loseLock({ ...lost, delayedSince: at.now }, at.now + 10_001)).toBeNull()
  })

  test('begins its delay when it is found lapsed, and names no holder', () => {
    const lapsed = { ...lost, expiresAt: at.now - 1 }

    const turn = decideTurn(request, { ...empty, locks: [lapsed] }, at)

    expect(turn).toMatchObject({
      outcome: 'held',
      holder: null,
      expiresAt: at.now + 10_000,
      delayed: [{ before: lapsed, after: { delayedSince: at.now } }],
    })
  })

  test('begins no delay while the clock is in doubt', () => {
    const lapsed = { ...lost, expiresAt: at.now - 1 }

    const turn = decideTurn(request, { ...empty, locks: [lapsed] }, { ...at, isDoubtful: true })

    expect(turn).toMatchObject({ outcome: 'held', holder: lapsed.agent, delayed: [] })
  })

  test('goes to the next one when its delay is over', () => {
    const delayed = loseLock(lost, at.now) as Lock
    const over = later(10_001)

    expect(decideTurn(request, { ...empty, locks: [delayed] }, later(10_000))).toMatchObject({
      outcome: 'held',
      holder: null,
      delayed: [],
    })
    expect(decideTurn(request, { ...empty, locks: [delayed] }, over)).toMatchObject({
      outcome: 'granted',
      after: { delayedSince: null, agent: 'bob' },
    })
  })
})

describe('a position in line', () => {
  test('has a ticket above all others and its own short lease [L16]', () => {
    const line = { ...empty, last: 9e12, waiting: 2 }

    const waiter = joinLine({ agent: 'bob', instance: 'bob-1', id: 'w', name: 'press' }, line, at)

    expect(waiter).toMatchObject({ token: 9e12 + 1, joinedAt: at.wall, instance: 'bob-1', version: 1 })
    expect((waiter.expiresAt as number) - at.now).toBeLessThanOrEqual(10_000)
  })

  test('is refused when too many wait', () => {
    const line = { ...empty, waiting: maxWaiters }

    const refusal = refusalOf(() =>
      joinLine({ agent: 'b', instance: null, id: 'w', name: 'press' }, line, at),
    )

    expect(refusal).toMatchObject({ code: 'BUSY', retryable: true })
  })

  test('is refused to an agent that already waits in as many lines as allowed [S5d-16]', () => {
    const join = (waits: number, quotas?: Quotas) => () =>
      joinLine({ agent: 'b', instance: null, id: 'w', name: 'press', quotas }, { ...empty, waits }, at)

    expect(join(49)).not.toThrow()
    expect(refusalOf(join(50))).toMatchObject({
      code: 'BUSY',
      facts: { quota: 'lockWaits', agent: 'b', held: 50, max: 50 },
    })
    expect(refusalOf(join(2, { reservations: 1, lockWaits: 2 }))).toMatchObject({ facts: { max: 2 } })
  })

  test('is due for renewal after a third of its lease, and when it has none', () => {
    const waiter = waiterOf('bob', 5)
    const third = (waiter.leaseMs as number) / 3

    expect(isWaiterDue(waiter, at.now + third - 1)).toBe(false)
    expect(isWaiterDue(waiter, at.now + third + 1)).toBe(true)
    expect(isWaiterDue({ ...waiter, expiresAt: null }, at.now)).toBe(true)
  })
})

describe('a look at a line', () => {
  const [ann, ben, cleo] = [waiterOf('ann', 5), waiterOf('ben', 6), waiterOf('cleo', 7)] as const
  const head = (fields: Partial<LineHead> = {}): LineHead => ({
    locks: [],
    first: [ann, ben, cleo],
    own: cleo,
    ahead: 2,
    ...fields,
  })

  test('calls as many of the first as there are free slots, and nobody else [S5e-9]', () => {
    const one = aLock({ slots: 3 })

    expect(lookAtLine(1, head(), at)).toEqual({ called: ['ann'], asking: 'none', ahead: 2, holders: [] })
    expect(lookAtLine(3, head({ locks: [one] }), at)).toMatchObject({ called: ['ann', 'ben'] })
    expect(lookAtLine(1, head({ locks: [held()] }), at)).toEqual({
      called: [],
      asking: 'none',
      ahead: 2,
      holders: [{ agent: 'ada', token: held().token }],
    })
  })

  test('lets the caller’s first waiter ask when its position is gone or has lapsed [S5e-9]', () => {
    const locks = [held({ expiresAt: later(60_000).now })]
    const lapsedAt = later((cleo.leaseMs as number) + 1)

    expect(lookAtLine(1, head({ locks, own: null }), at)).toMatchObject({ called: [], asking: 'first' })
    expect(lookAtLine(1, head({ locks, first: [] }), lapsedAt)).toMatchObject({ asking: 'first' })
  })

  test('lets the first ask when a lock has lapsed and its delay has not begun [S5e-9]', () => {
    const lapsed = held({ delayMs: 5_000, expiresAt: at.now - 1 })

    expect(lookAtLine(1, head({ locks: [lapsed] }), at)).toEqual({
      called: [],
      asking: 'first',
      ahead: 2,
      holders: [],
    })
  })

  test('lets all ask, and be refused, when it is held with another number of slots [S5e-9]', () => {
    expect(lookAtLine(2, head({ locks: [held()] }), at)).toMatchObject({ called: [], asking: 'all' })
  })
})

describe('positions in line', () => {
  const [ann, ben] = [waiterOf('ann', 5), waiterOf('ben', 6)] as const
  const now = at.now + 2_000

  test('are renewed together while the lock is held [S5e-9]', () => {
    const renewed = renewWaiters([ann, ben], [{ locks: [held()], first: [ann] }], { now })

    expect(renewed.map(({ before, after }) => [before, after.expiresAt])).toEqual([
      [ann, now + (ann.leaseMs as number)],
      [ben, now + (ben.leaseMs as number)],
    ])
  })

  test('are no longer renewed once their turn has come [S5e-9]', () => {
    const renewed = renewWaiters([ann, ben], [{ locks: [], first: [ann] }], { now })

    expect(renewed.map(({ before }) => before)).toEqual([ben])
  })
})

describe('a transferred lock', () => {
  test('belongs to the other agent, manually, under a larger token and with a fresh count [L14]', () => {
    const lock = held({ depth: 3, token: 9e12 })

    const after = transferLock(lock, [lock], { agent: 'cy', leaseMs: 60_000, reason: 'night shift' }, at)

    expect(after).toMatchObject({
      agent: 'cy',
      instance: null,
      token: 9e12 + 1,
      depth: 1,
      reason: 'night shift',
      expiresAt: at.now + 60_000,
      version: lock.version + 1,
    })
  })
})

test('a manual lock lasts an hour, the claim of a single resource a minute [L4] [L15]', () => {
  expect(['deploy', 'file:a.ts', 'session:s1', 'bead:b1', 'filet'].map(manualLockMs)).toEqual([
    3_600_000, 60_000, 60_000, 60_000, 3_600_000,
  ])
})
