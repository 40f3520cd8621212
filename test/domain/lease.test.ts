import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  assertHolder,
  assertLeaseMs,
  assertRenewable,
  extend,
  type Granting,
  grant,
  isExpired,
  isSameHolder,
  lastSignOfLife,
  leaseStatus,
  nextToken,
  noLease,
  renew,
  renewEveryMs,
  safetyMarginMs,
  sparedForMs,
} from '../../src/domain/lease.ts'
import { ada, at, refusalOf } from './samples.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const { now } = at

function grantToAda(options: Partial<Granting> = {}) {
  return grant(ada, { leaseMs: ada.leaseMs, now, previous: 0, floor: 0, ...options })
}

/** A lease of ada's that was granted `leaseMs` before it ends. */
function endingAt(expiresAt: number, leaseMs = hour) {
  return Object.freeze(grantToAda({ leaseMs, now: expiresAt - leaseMs }))
}

const aTime = fc.integer({ min: 0, max: 4_000_000_000_000 })
const aLength = fc.integer({ min: 0, max: 24 * hour })

describe('the length of a lease', () => {
  test.each([0, 1, 300_000, 86_400_000])('%d ms is accepted', (leaseMs) => {
    expect(() => assertLeaseMs(leaseMs)).not.toThrow()
  })

  test.each([
    -1,
    0.5,
    86_400_001,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.MAX_SAFE_INTEGER + 1,
  ])('%d ms is refused with the length that was asked for', (leaseMs) => {
    const refusal = refusalOf(() => assertLeaseMs(leaseMs))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { leaseMs } })
  })

  test('is at least 500 ms where a process renews it, and the refusal says so [S5-34]', () => {
    const refusal = refusalOf(() => assertRenewable(499))

    expect(() => assertRenewable(500)).not.toThrow()
    expect(refusal).toMatchObject({ code: 'INVALID', facts: { leaseMs: 499, leaseMsMin: 500 } })
  })

  test('no grant, renewal or extension accepts a length that is not a lease', () => {
    const row = endingAt(now)

    const refusals = [
      refusalOf(() => grantToAda({ leaseMs: -1 })),
      refusalOf(() => renew(row, now, -1)),
      refusalOf(() => extend(row, now, -1)),
    ]

    expect(refusals.map(({ code }) => code)).toEqual(['INVALID', 'INVALID', 'INVALID'])
  })
})

describe('expiry', () => {
  test('a lease holds at its very last millisecond and has lapsed at the next [EC-006] [HP-006]', () => {
    const row = endingAt(now)

    const lapsed = [now - 1, now, now + 1].map((moment) => isExpired(row, moment))

    expect(lapsed).toEqual([false, false, true])
  })

  test('a lease of 0 ms lapses at the next millisecond, not at once [EC-002]', () => {
    const row = grantToAda({ leaseMs: 0 })

    expect([isExpired(row, now), isExpired(row, now + 1)]).toEqual([false, true])
  })

  test('a held row without an expiry has lapsed, so that it is never held forever', () => {
    expect(isExpired({ expiresAt: null }, now)).toBe(true)
  })

  test('a lapsed lease does not come back by waiting', () => {
    fc.assert(
      fc.property(aTime, aTime, fc.nat(), (expiresAt, moment, wait) => {
        fc.pre(isExpired({ expiresAt }, moment))

        expect(isExpired({ expiresAt }, moment + wait)).toBe(true)
      }),
    )
  })
})

describe('the status of a lease', () => {
  test.each([
    ['live', 5 * minute],
    ['near', 5 * minute - 1],
    ['near', 0],
    ['expired', -1],
    ['expired', -5 * minute],
    ['stale', -5 * minute - 1],
  ])('an hour-long lease is %s with %d ms left', (status, leftMs) => {
    expect(leaseStatus(endingAt(now + leftMs), now)).toBe(status)
  })

  test.each([
    ['live', 30 * second],
    ['live', 10 * second],
    ['near', 10 * second - 1],
    ['near', 0],
    ['expired', -1],
  ])('a lease of 30 s is near its end only in its last third: %s with %d ms left', (status, leftMs) => {
    expect(leaseStatus(endingAt(now + leftMs, 30 * second), now)).toBe(status)
  })

  test.each([
    ['live', 100 * second],
    ['near', 100 * second - 1],
  ])('a lease of unknown length is treated as one of five minutes: %s with %d ms left', (status, leftMs) => {
    expect(leaseStatus({ ...endingAt(now + leftMs), leaseMs: null }, now)).toBe(status)
  })

  test('a lease without an expiry is stale', () => {
    expect(leaseStatus({ ...endingAt(now), expiresAt: null }, now)).toBe('stale')
  })

  test('a status is expired or stale exactly when the one rule of expiry says lapsed [X1] [X3]', () => {
    fc.assert(
      fc.property(aTime, aLength, fc.integer({ min: -hour, max: hour }), (expiresAt, leaseMs, shift) => {
        const row = endingAt(expiresAt, leaseMs)

        const status = leaseStatus(row, expiresAt + shift)

        expect(['expired', 'stale'].includes(status)).toBe(isExpired(row, expiresAt + shift))
      }),
    )
  })
})

describe('tokens', () => {
  test('a token is the clock in microseconds when nothing larger is known', () => {
    expect(nextToken(0, 0, 1_234)).toBe(1_234_000)
  })

  test('a clock that was set back does not set the token back', () => {
    expect(nextToken(9_000_000, 0, 1_234)).toBe(9_000_001)
  })

  test('a deleted row is not forgotten: new tokens exceed its floor', () => {
    expect(nextToken(0, 9_000_000, 1_234)).toBe(9_000_001)
  })

  test('tokens strictly increase through any grants, deletions and clocks going backwards', () => {
    const aStep = fc.record({ now: aTime, deletesRow: fc.boolean() })
    fc.assert(
      fc.property(fc.array(aStep, { minLength: 2, maxLength: 50 }), (steps) => {
        let floor = 0
        let previous = 0
        const tokens = steps.map((step) => {
          const { token } = grantToAda({ now: step.now, previous, floor })
          floor = step.deletesRow ? Math.max(floor, token) : floor
          previous = step.deletesRow ? 0 : token
          return token
        })

        const grows = tokens.every((token, index) => index === 0 || token > (tokens[index - 1] as number))
        expect(grows).toBe(true)
      }),
    )
  })

  test('a restored backup, with its clock further on, grants above every earlier token', () => {
    const beforeTheLoss = grantToAda()

    const afterTheRestore = grantToAda({ now: now + 1 })

    expect(afterTheRestore.token).toBeGreaterThan(beforeTheLoss.token)
  })

  test('a token is a safe integer until the year 2255', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Date.UTC(2255, 0, 1) }), (moment) => {
        expect(Number.isSafeInteger(nextToken(0, 0, moment))).toBe(true)
      }),
    )
  })
})

describe('a grant', () => {
  test('names its holder and runs for its length from now', () => {
    const row = grantToAda()

    expect(row).toEqual({
      agent: 'ada',
      instance: 'ada-1',
      token: now * 1000,
      grantedAt: now,
      renewedAt: now,
      expiresAt: now + 30_000,
      leaseMs: 30_000,
    })
  })
})

describe('renewing', () => {
  test('runs for the length of the lease from now, under the same token', () => {
    const row = endingAt(now + minute, hour)

    const renewed = renew(row, now)

    expect(renewed).toEqual({ ...row, renewedAt: now, expiresAt: now + hour })
  })

  test('with another length keeps it for later renewals', () => {
    const renewed = renew(endingAt(now + minute), now, 2 * hour)

    expect(renew(renewed, now + 1).expiresAt).toBe(now + 1 + 2 * hour)
  })

  test('a row without an expiry or a length runs until now', () => {
    const renewed = renew({ ...endingAt(now), expiresAt: null, leaseMs: null }, now)

    expect(renewed).toMatchObject({ expiresAt: now, leaseMs: 0 })
  })

  test('never shortens, whatever the clock, the length or the expiry [Q9]', () => {
    fc.assert(
      fc.property(aTime, aTime, aLength, (expiresAt, moment, leaseMs) => {
        const row = endingAt(expiresAt)

        const renewed = renew(row, moment, leaseMs)

        expect(renewed.expiresAt).toBeGreaterThanOrEqual(expiresAt)
        expect(renewed.expiresAt).toBeGreaterThanOrEqual(moment + leaseMs)
        expect(renewed.token).toBe(row.token)
      }),
    )
  })
})

describe('extending', () => {
  test('adds to the current expiry, not to now [A-09]', () => {
    const extended = extend(endingAt(now + 5 * minute), now, minute)

    expect(extended).toMatchObject({ expiresAt: now + 6 * minute, renewedAt: now, capped: false })
  })

  test('is uncapped up to exactly one hour from now; a millisecond more is capped and says so', () => {
    const row = endingAt(now + 59 * minute)

    const [whole, beyond] = [extend(row, now, minute), extend(row, now, minute + 1)]

    expect(whole).toMatchObject({ expiresAt: now + hour, capped: false })
    expect(beyond).toMatchObject({ expiresAt: now + hour, capped: true })
  })

  test('by more than an hour reaches that far from now and no further', () => {
    const extended = extend(endingAt(now + minute), now, 3 * hour)

    expect(extended).toMatchObject({ expiresAt: now + 3 * hour, capped: true })
  })

  test('a row without an expiry counts from now', () => {
    const extended = extend({ ...endingAt(now), expiresAt: null }, now, minute)

    expect(extended).toMatchObject({ expiresAt: now + minute, capped: false })
  })

  test('adds exactly what was asked if uncapped; if capped it says so and never shortens [Q9]', () => {
    fc.assert(
      fc.property(aTime, aLength, fc.integer({ min: 1, max: 24 * hour }), (moment, leftMs, extraMs) => {
        const row = endingAt(moment + leftMs)

        const extended = extend(row, moment, extraMs)

        const gainedMs = (extended.expiresAt ?? 0) - moment - leftMs
        expect(gainedMs).toBeGreaterThanOrEqual(0)
        expect(gainedMs === extraMs).toBe(!extended.capped)
        expect(extended.expiresAt).toBeLessThanOrEqual(moment + Math.max(leftMs, extraMs, hour))
      }),
    )
  })
})

describe('the margins of a holder', () => {
  test.each([
    [30 * second, 3 * second],
    [5 * minute, 30 * second],
    [10 * second, second],
    [5 * second, second],
    [3 * second, second],
    [300, 100],
    [0, 0],
  ])('for a lease of %d ms are %d ms', (leaseMs, marginMs) => {
    expect(safetyMarginMs(leaseMs)).toBeCloseTo(marginMs)
  })

  test('a lease is renewed twice before its holder has to give up', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 24 * hour }), (leaseMs) => {
        const givesUpAfterMs = leaseMs - safetyMarginMs(leaseMs)

        expect(2 * renewEveryMs(leaseMs)).toBeLessThanOrEqual(givesUpAfterMs + 1e-6)
        expect(safetyMarginMs(leaseMs)).toBeGreaterThan(0)
      }),
    )
  })

  test('a bound lease of 30 s is renewed every 10 s', () => {
    expect(renewEveryMs(30 * second)).toBe(10 * second)
    expect(renewEveryMs(60 * second)).toBe(15 * second)
  })
})

describe('the same holder', () => {
  const bound = endingAt(now)
  const manual = Object.freeze({ ...bound, instance: null })

  test('is the same process, whatever token it names', () => {
    expect(isSameHolder(bound, { agent: 'ada', instance: 'ada-1' })).toBe(true)
  })

  test('is not another process of the same name', () => {
    expect(isSameHolder(bound, { agent: 'ada', instance: 'ada-2', token: bound.token })).toBe(false)
  })

  test('is not another name in the same process', () => {
    expect(isSameHolder(bound, { agent: 'bob', instance: 'ada-1', token: bound.token })).toBe(false)
  })

  test('of a manual lease is the caller that names its token', () => {
    expect(isSameHolder(manual, { agent: 'ada', instance: null, token: manual.token })).toBe(true)
  })

  test('of a manual lease is the caller that names its token, even with a registered process', () => {
    expect(isSameHolder(manual, { agent: 'ada', instance: 'ada-1', token: manual.token })).toBe(true)
    expect(isSameHolder(manual, { agent: 'ada', instance: 'ada-1' })).toBe(false)
  })

  test.each([undefined, 0, manual.token - 1])(
    'of a manual lease is not the caller that names the agent with token %s',
    (token) => {
      expect(isSameHolder(manual, { agent: 'ada', instance: null, token })).toBe(false)
    },
  )

  test('of a free row is nobody', () => {
    expect(isSameHolder({ ...noLease, token: 7 }, { agent: 'ada', instance: null, token: 7 })).toBe(false)
  })
})

describe('the last sign of life', () => {
  test.each([
    [100, 200, 200],
    [200, 100, 200],
    [100, null, 100],
    [null, 200, 200],
    [null, null, 0],
  ])('granted at %s and renewed at %s was at %i', (grantedAt, renewedAt, lastSign) => {
    expect(lastSignOfLife({ ...endingAt(now), grantedAt, renewedAt })).toBe(lastSign)
  })
})

describe('the guard of a holder', () => {
  const row = endingAt(now)
  const guard = { subject: 'lock press', held: true, agent: 'ada', token: row.token, now }

  test('accepts the current token, in time', () => {
    expect(assertHolder(row, guard)).toEqual({ late: false })
  })

  test('accepts the current token after the lapse while nobody took it, and marks it late', () => {
    expect(assertHolder(row, { ...guard, now: now + 1 })).toEqual({ late: true })
  })

  test.each([-1, 1])('refuses a token that is off by %d, naming the current one and its holder', (off) => {
    const token = row.token + off

    const refusal = refusalOf(() => assertHolder(row, { ...guard, token }))

    expect(refusal).toMatchObject({
      code: 'LEASE_LOST',
      facts: { token, currentToken: row.token, holder: 'ada', reason: 'it was granted again' },
    })
  })

  test('refuses another agent that names the current token, naming the holder [S5-15]', () => {
    const refusal = refusalOf(() => assertHolder(row, { ...guard, agent: 'bob' }))

    expect(refusal).toMatchObject({ code: 'HELD', facts: { holder: 'ada', expiresAt: now } })
  })

  test('looks at the token before the agent [S5-15]', () => {
    const refusal = refusalOf(() => assertHolder(row, { ...guard, agent: 'bob', token: row.token - 1 }))

    expect(refusal.code).toBe('LEASE_LOST')
  })

  test('accepts the token on a damaged row without a holder', () => {
    expect(assertHolder({ ...row, agent: null }, guard)).toEqual({ late: false })
  })

  test('tells a caller without a token who holds it and until when', () => {
    const refusal = refusalOf(() => assertHolder(row, { ...guard, token: undefined }))

    expect(refusal).toMatchObject({ code: 'HELD', facts: { holder: 'ada', expiresAt: now } })
  })

  test('tells a caller without a token that the holder is unknown', () => {
    const refusal = refusalOf(() => assertHolder({ ...row, agent: null }, { ...guard, token: undefined }))

    expect(refusal).toMatchObject({ code: 'HELD', facts: { holder: 'an unknown agent' } })
  })

  test('refuses the last token once the lease has ended, and names no holder', () => {
    const refusal = refusalOf(() => assertHolder({ ...row, ...noLease }, { ...guard, held: false }))

    expect(refusal).toMatchObject({
      code: 'LEASE_LOST',
      facts: { holder: null, reason: 'it was released or reclaimed' },
    })
  })

  test('says why the lease has ended where that is known', () => {
    const refusal = refusalOf(() =>
      assertHolder(row, { ...guard, held: false, token: undefined, goneBecause: 'it was cancelled' }),
    )

    expect(refusal).toMatchObject({ code: 'LEASE_LOST', facts: { token: null, reason: 'it was cancelled' } })
  })
})

describe('the grace of a lease that nobody renews', () => {
  const manual = { expiresAt: now - 1_000, instance: null }

  test('spares it after it expired, until the grace is over', () => {
    expect(sparedForMs(manual, { now, manualGraceMs: 5_000 })).toBe(4_000)
    expect(sparedForMs(manual, { now, manualGraceMs: 500 })).toBe(0)
  })

  test('is nothing to a lease that still runs, or that a process renews', () => {
    expect(sparedForMs({ ...manual, expiresAt: now }, { now, manualGraceMs: 5_000 })).toBe(0)
    expect(sparedForMs({ ...manual, instance: 'i-1' }, { now, manualGraceMs: 5_000 })).toBe(0)
  })
})
