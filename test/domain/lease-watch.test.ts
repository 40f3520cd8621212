import { describe, expect, test } from 'vitest'
import { type Look, watchLease } from '../../src/domain/lease-watch.ts'
import { aLock, at } from './samples.ts'

const minute = 60_000
const leaseMs = 30 * minute
const look: Look = {
  now: at.now,
  unchangedForMs: 0,
  holderIsDead: false,
  thresholds: {},
}
/** Granted and last renewed a whole lease before its end. */
const endingIn = (ms: number) =>
  aLock({
    leaseMs,
    expiresAt: at.now + ms,
    grantedAt: at.now + ms - leaseMs,
    renewedAt: at.now + ms - leaseMs,
  })

describe('a lease seen from outside', () => {
  test.each([
    { name: 'just granted', endsIn: leaseMs, is: [] },
    { name: 'five minutes before its end', endsIn: 5 * minute, is: [] },
    { name: 'within five minutes of its end', endsIn: 5 * minute - 1, is: ['isNear'] },
    { name: 'at its end', endsIn: 0, is: ['isNear'] },
    { name: 'a millisecond later', endsIn: -1, is: ['isExpired'] },
    { name: 'overdue by five minutes', endsIn: -5 * minute, is: ['isExpired'] },
    { name: 'overdue by more', endsIn: -5 * minute - 1, is: ['isExpired', 'isStale'] },
  ])('$name is $is [T10] [T11] [E6]', ({ endsIn, is }) => {
    const seen = watchLease(endingIn(endsIn), look)

    const flags = ['isExpired', 'isNear', 'isStale', 'isOrphaned', 'isSuspect'] as const
    expect(flags.filter((flag) => seen[flag])).toEqual(is)
    expect(seen).toMatchObject({
      remainingMs: Math.max(0, endsIn),
      expiredMs: Math.max(0, -endsIn),
      elapsedMs: leaseMs - endsIn,
    })
  })

  test('is near when it ends within the given time, used unchanged [T10] [S5-13]', () => {
    const generous = { ...look, thresholds: { nearMs: leaseMs, staleMs: 0 } }

    expect(watchLease(endingIn(leaseMs - 1), generous).isNear).toBe(true)
    expect(watchLease(endingIn(leaseMs), generous).isNear).toBe(false)
    expect(watchLease(endingIn(-1), generous).isStale).toBe(true)
    expect(watchLease(endingIn(0), { ...look, thresholds: { nearMs: 0 } }).isNear).toBe(false)
  })

  test('is orphaned when its holder is dead, expired or not [T10] [T13] [S5-13]', () => {
    const dead = { ...look, holderIsDead: true }

    expect(watchLease(endingIn(-1), dead).isOrphaned).toBe(true)
    expect(watchLease(endingIn(leaseMs), dead).isOrphaned).toBe(true)
    expect(watchLease(endingIn(-1), look).isOrphaned).toBe(false)
  })

  test('is suspect after a whole lease without renewal, progress or update [T10]', () => {
    const silent = { ...endingIn(0), grantedAt: at.now - leaseMs - 1, renewedAt: at.now - leaseMs - 1 }

    expect(watchLease(silent, { ...look, unchangedForMs: leaseMs + 1 }).isSuspect).toBe(true)
    expect(watchLease(silent, { ...look, unchangedForMs: null }).isSuspect).toBe(true)
    expect(watchLease(silent, { ...look, unchangedForMs: leaseMs }).isSuspect).toBe(false)
    expect(watchLease({ ...silent, renewedAt: at.now }, { ...look, unchangedForMs: null }).isSuspect).toBe(
      false,
    )
  })

  test('that a damaged row no longer describes is stale and suspect', () => {
    const damaged = { ...endingIn(0), grantedAt: null, renewedAt: null, expiresAt: null, leaseMs: null }

    expect(watchLease(damaged, { ...look, unchangedForMs: null })).toMatchObject({
      isExpired: true,
      isStale: true,
      isSuspect: true,
      remainingMs: 0,
      expiredMs: 0,
      elapsedMs: 0,
    })
  })
})
