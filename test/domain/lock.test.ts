import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isExpired } from '../../src/domain/lease.ts'
import {
  type AcquireRequest,
  acquireLock,
  assertOwn,
  extendLock,
  findOwn,
  holderOf,
  type Lock,
} from '../../src/domain/lock.ts'
import { aLock, at, refusalOf } from './samples.ts'

const clock = { ...at, floor: 0 }
const request: AcquireRequest = {
  agent: 'bob',
  instance: 'bob-1',
  name: 'press',
  slots: 1,
  leaseMs: 30_000,
  reason: 'ink',
  token: undefined,
}
const asAda = { agent: 'ada', instance: 'ada-1' }

describe('acquiring a lock', () => {
  test('that is free grants it, and records since when and why [Q7]', () => {
    const acquired = acquireLock(request, [], clock)

    expect(acquired).toMatchObject({
      outcome: 'granted',
      before: null,
      after: {
        name: 'press',
        slot: 0,
        agent: 'bob',
        instance: 'bob-1',
        reason: 'ink',
        item: null,
        acquiredAt: at.wall,
        expiresAt: at.now + 30_000,
        version: 1,
      },
    })
  })

  test('that another agent holds names the holder and when its lease ends [Q7] [C-08]', () => {
    const held = aLock({ expiresAt: at.now })

    const acquired = acquireLock(request, [held], clock)

    expect(acquired).toEqual({ outcome: 'held', by: held })
  })

  test('that lapsed takes it over under a larger token, as the next version of the row [D-17] [C-11]', () => {
    const lapsed = aLock({ token: 9e12, expiresAt: at.now - 1, item: 'i1', version: 6 })

    const acquired = acquireLock(request, [lapsed], clock)

    expect(acquired).toMatchObject({
      outcome: 'granted',
      before: lapsed,
      after: { agent: 'bob', slot: 0, token: 9e12 + 1, item: null, version: 7 },
    })
  })

  test('that lapsed only by a clock in doubt leaves it to its holder', () => {
    const lapsed = aLock({ expiresAt: at.now - 1 })

    const acquired = acquireLock(request, [lapsed], { ...clock, isDoubtful: true })

    expect(acquired).toEqual({ outcome: 'held', by: lapsed })
  })

  test('whose row was deleted exceeds the floor that the row left', () => {
    const acquired = acquireLock(request, [], { ...clock, floor: 9e12 })

    expect(acquired).toMatchObject({ outcome: 'granted', after: { token: 9e12 + 1 } })
  })

  test('that the caller holds renews it under the same token, even if it has lapsed [Q7]', () => {
    const own = aLock({ expiresAt: at.now - 1 })

    const acquired = acquireLock({ ...request, ...asAda }, [own], clock)

    expect(acquired).toEqual({
      outcome: 'renewed',
      before: own,
      after: { ...own, renewedAt: at.now, expiresAt: at.now + 30_000 },
    })
  })

  test('that the caller holds manually needs the token: the name alone is not enough', () => {
    const manual = aLock({ instance: null })
    const again = { ...request, agent: 'ada', instance: null }

    const named = acquireLock(again, [manual], clock)
    const proven = acquireLock({ ...again, token: manual.token }, [manual], clock)

    expect([named.outcome, proven.outcome]).toEqual(['held', 'renewed'])
  })

  test('by another process with the same name is refused', () => {
    const acquired = acquireLock({ ...request, agent: 'ada', instance: 'ada-2' }, [aLock()], clock)

    expect(acquired.outcome).toBe('held')
  })
})

describe('a lock with slots', () => {
  test('gives the lowest free slot', () => {
    const held = [aLock({ slot: 0 }), aLock({ slot: 2, instance: 'ada-3' })]

    const acquired = acquireLock({ ...request, slots: 4 }, held, clock)

    expect(acquired).toMatchObject({ outcome: 'granted', before: null, after: { slot: 1 } })
  })

  test('prefers a free slot to a lapsed one, which its holder may still finish', () => {
    const lapsed = aLock({ slot: 0, expiresAt: at.now - 1 })

    const acquired = acquireLock({ ...request, slots: 2 }, [lapsed], clock)

    expect(acquired).toMatchObject({ outcome: 'granted', before: null, after: { slot: 1 } })
  })

  test('takes over the slot that lapsed first, and of two the one listed first', () => {
    const held = [
      aLock({ slot: 0, expiresAt: at.now - 5 }),
      aLock({ slot: 1, expiresAt: at.now - 9, instance: 'ada-2' }),
      aLock({ slot: 2, expiresAt: at.now - 9, instance: 'ada-3' }),
    ]

    const acquired = acquireLock({ ...request, slots: 3 }, held, clock)

    expect(acquired).toMatchObject({ outcome: 'granted', after: { slot: 1 } })
  })

  test('takes over a damaged slot without an expiry before any other', () => {
    const damaged = aLock({ slot: 1, expiresAt: null, instance: 'ada-2' })
    const lapsed = { expiresAt: at.now - 1 }
    const held = [aLock({ slot: 0, ...lapsed }), damaged, aLock({ slot: 2, instance: 'ada-3', ...lapsed })]

    const acquired = acquireLock({ ...request, slots: 3 }, held, clock)

    expect(acquired).toMatchObject({ outcome: 'granted', before: damaged, after: { slot: 1 } })
  })

  test('names the holder whose lease ends first when all are taken', () => {
    const held = [
      aLock({ slot: 0, expiresAt: at.now + 9 }),
      aLock({ slot: 1, expiresAt: at.now + 5, agent: 'cyd', instance: 'cyd-1' }),
    ]

    const acquired = acquireLock({ ...request, slots: 2 }, held, clock)

    expect(acquired).toMatchObject({ outcome: 'held', by: { agent: 'cyd' } })
  })

  test('gives slots granted in the same millisecond different tokens, so that each names one slot', () => {
    const first = acquireLock({ ...request, slots: 2 }, [], clock)
    const rows = first.outcome === 'granted' ? [first.after] : []

    const second = acquireLock({ ...request, agent: 'cyd', instance: null, slots: 2 }, rows, clock)

    const token = second.outcome === 'granted' ? second.after.token : 0
    expect(token).toBeGreaterThan(rows[0]?.token as number)
  })

  test('reduced to fewer slots admits nobody while that many holders remain', () => {
    const live = aLock({ slot: 2 })

    const acquired = acquireLock({ ...request, slots: 1 }, [live], clock)

    expect(acquired).toEqual({ outcome: 'held', by: live })
  })

  test('reduced to fewer slots grants no lapsed one above them beside live ones', () => {
    const live = aLock({ slot: 0 })
    const lapsed = aLock({ slot: 1, expiresAt: at.now - 1, instance: 'ada-2' })

    const acquired = acquireLock({ ...request, slots: 1 }, [live, lapsed], clock)

    expect(acquired).toEqual({ outcome: 'held', by: live })
  })

  test('reduced to fewer slots takes over only a slot it still has', () => {
    const lapsed = aLock({ slot: 0, expiresAt: at.now - 1 })
    const lapsedBefore = aLock({ slot: 1, expiresAt: at.now - 9, instance: 'ada-2' })

    const acquired = acquireLock({ ...request, slots: 1 }, [lapsed, lapsedBefore], clock)

    expect(acquired).toMatchObject({ outcome: 'granted', before: lapsed, after: { slot: 0 } })
  })

  test('never has two holders of a slot, nor more live ones than slots, in any history', () => {
    const aStep = fc.record({
      agent: fc.constantFrom('ada', 'bob', 'cyd', 'dan', 'eve'),
      leaseMs: fc.nat(20),
      waitMs: fc.nat(15),
      act: fc.constantFrom('acquire', 'acquire', 'release'),
    })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3 }), fc.array(aStep, { maxLength: 60 }), (slots, steps) => {
        let now = at.now
        let rows: readonly Lock[] = []
        let floor = 0
        for (const { agent, leaseMs, waitMs, act } of steps) {
          now += waitMs
          const caller = { agent, instance: `${agent}-1`, token: undefined }
          const own = findOwn(rows, caller)
          if (act === 'release' && own) {
            floor = Math.max(floor, own.token)
            rows = rows.filter((row) => row !== own)
          }
          if (act === 'acquire') {
            const liveBefore = rows.filter((row) => !isExpired(row, now))
            const acquired = acquireLock({ ...request, ...caller, slots, leaseMs }, rows, {
              ...at,
              now,
              floor,
            })
            if (acquired.outcome === 'held') expect(liveBefore).toHaveLength(slots)
            else rows = [...rows.filter(({ slot }) => slot !== acquired.after.slot), acquired.after]
          }

          const live = rows.filter((row) => !isExpired(row, now))
          expect(live.length).toBeLessThanOrEqual(slots)
          expect(new Set(rows.map(({ slot }) => slot)).size).toBe(rows.length)
          expect(new Set(rows.map((row) => row.agent)).size).toBe(rows.length)
          expect(new Set(rows.map((row) => row.token)).size).toBe(rows.length)
        }
      }),
    )
  })
})

describe('finding the lock a caller holds', () => {
  const first = aLock({ slot: 0, token: 11 })
  const second = aLock({ slot: 1, token: 12, agent: 'bob', instance: 'bob-1' })
  const held = [first, second]

  test('goes by the token where one is given', () => {
    expect(findOwn(held, { agent: 'bob', instance: 'bob-1', token: 12 })).toBe(second)
  })

  test('goes by the process where no token is given', () => {
    expect(findOwn(held, { agent: 'bob', instance: 'bob-1', token: undefined })).toBe(second)
  })

  test('finds nothing for an old token, even if its process holds the lock again [Q8]', () => {
    expect(findOwn(held, { ...asAda, token: 10 })).toBeUndefined()
  })

  test('is refused to another agent that names the token [S5-15]', () => {
    const bob = { agent: 'bob', instance: 'bob-1', token: 11 }

    expect(findOwn(held, bob)).toBeUndefined()
    expect(refusalOf(() => assertOwn('press', held, bob))).toMatchObject({
      code: 'HELD',
      facts: { subject: 'lock press', holder: 'ada' },
    })
  })

  test('returns the lock to its holder', () => {
    expect(assertOwn('press', held, { ...asAda, token: undefined })).toBe(first)
  })

  test('refuses another agent, naming the holder [A-10] [CV-005]', () => {
    const refusal = refusalOf(() => assertOwn('press', [first], { agent: 'cyd', instance: null, token: 5 }))

    expect(refusal).toMatchObject({
      code: 'LEASE_LOST',
      facts: { token: 5, currentToken: 11, holder: 'ada', reason: 'it is held by ada' },
    })
  })

  test('refuses a caller when nobody holds it', () => {
    const refusal = refusalOf(() => assertOwn('press', [], { ...asAda, token: undefined }))

    expect(refusal).toMatchObject({
      code: 'LEASE_LOST',
      facts: { token: null, currentToken: 0, holder: null, reason: 'nobody holds it' },
    })
  })
})

test('a lock in its delay after a loss has no holder [L14]', () => {
  expect(holderOf(aLock())).toBe('ada')
  expect(holderOf(aLock({ delayedSince: at.now }))).toBeNull()
})

describe('extending a lock', () => {
  test('makes its expiry later, under the same token [A-09] [Z6]', () => {
    const lock = aLock()

    const extended = extendLock(lock, 60_000, at.now)

    expect(extended).toEqual({ lock: { ...lock, expiresAt: at.now + 90_000 }, capped: false })
  })

  test('succeeds in its last millisecond and is refused in the next [Z6]', () => {
    const lock = aLock({ expiresAt: at.now })

    const inTime = extendLock(lock, 1, at.now)
    const late = refusalOf(() => extendLock(lock, 1, at.now + 1))

    expect(inTime.lock.expiresAt).toBe(at.now + 1)
    expect(late).toMatchObject({ code: 'LEASE_LOST', facts: { reason: 'its lease has lapsed' } })
  })

  test('says when it was capped', () => {
    const extended = extendLock(aLock(), 60 * 60 * 1000, at.now)

    expect(extended).toMatchObject({ lock: { expiresAt: at.now + 60 * 60 * 1000 }, capped: true })
  })

  test('is refused if the cap leaves nothing to add, so that it always lengthens [Q9] [Z6]', () => {
    const hour = 60 * 60 * 1000

    const refusals = [hour, 2 * hour].map((leftMs) =>
      refusalOf(() => extendLock(aLock({ expiresAt: at.now + leftMs }), 60_000, at.now)),
    )

    expect(refusals.map(({ code }) => code)).toEqual(['INVALID', 'INVALID'])
  })

  test('that is granted always ends later than before, whatever is left and asked for [Z6]', () => {
    const day = 24 * 60 * 60 * 1000
    fc.assert(
      fc.property(fc.integer({ min: 0, max: day }), fc.integer({ min: 1, max: day }), (leftMs, extraMs) => {
        const lock = aLock({ expiresAt: at.now + leftMs })
        let endsAt = Number.POSITIVE_INFINITY

        try {
          endsAt = extendLock(lock, extraMs, at.now).lock.expiresAt as number
        } catch {
          // Refusing keeps the promise too.
        }

        expect(endsAt).toBeGreaterThan(at.now + leftMs)
      }),
    )
  })

  test('by nothing is INVALID', () => {
    const refusal = refusalOf(() => extendLock(aLock(), 0, at.now))

    expect(refusal.code).toBe('INVALID')
  })
})
