import { describe, expect, test } from 'vitest'
import {
  covers,
  type ReservationRequest,
  reservationsMax,
  reservePaths,
} from '../../src/domain/reservation.ts'
import { aLock, at, refusalOf } from './samples.ts'

const request: ReservationRequest = {
  agent: 'bob',
  instance: 'bob-1',
  name: 'paths:1',
  leaseMs: 30_000,
  reason: null,
  token: undefined,
  user: null,
  patterns: ['src/*.ts'],
  mode: 'exclusive',
}
const clock = { ...at, floor: 0 }
const reserved = (patterns: string[], mode: 'shared' | 'exclusive', fields = {}) =>
  aLock({ name: 'paths:0', patterns, mode, slots: 1, ...fields })

describe('a reservation', () => {
  test('of free paths is granted, with its patterns and mode [L15]', () => {
    expect(reservePaths(request, [], clock)).toMatchObject({
      outcome: 'granted',
      after: { name: 'paths:1', patterns: ['src/*.ts'], mode: 'exclusive', slots: 1 },
    })
  })

  test.each([
    ['exclusive', 'exclusive', 'held'],
    ['exclusive', 'shared', 'held'],
    ['shared', 'exclusive', 'held'],
    ['shared', 'shared', 'granted'],
  ] as const)('%s against one that is %s is %s [L15]', (mine, theirs, outcome) => {
    const other = reserved(['**/a.ts'], theirs)

    expect(reservePaths({ ...request, mode: mine }, [other], clock).outcome).toBe(outcome)
  })

  test('names everything in its way, and only that [L15]', () => {
    const near = reserved(['src/a.ts'], 'exclusive')
    const far = reserved(['docs/**'], 'exclusive')

    expect(reservePaths(request, [near, far], clock)).toEqual({ outcome: 'held', by: [near] })
  })

  test('is not hindered by what lapsed or by what the same process has [L15]', () => {
    const lapsed = reserved(['src/**'], 'exclusive', { expiresAt: at.now - 1 })
    const own = reserved(['src/**'], 'exclusive', { agent: 'bob', instance: 'bob-1' })

    expect(reservePaths(request, [lapsed, own], clock).outcome).toBe('granted')
  })

  test('of a bad pattern is refused before anything else', () => {
    expect(refusalOf(() => reservePaths({ ...request, patterns: ['a/../b'] }, [], clock)).code).toBe(
      'INVALID',
    )
  })

  test('has a bound', () => {
    const many = Array.from({ length: reservationsMax }, () => reserved(['docs/**'], 'shared'))

    expect(refusalOf(() => reservePaths(request, many, clock)).code).toBe('INVALID')
  })
})

test('a lock that is only a name covers no path', () => {
  expect(covers(aLock(), ['**'])).toBe(false)
})
