import { describe, expect, test } from 'vitest'
import type { Lock } from '../../src/domain/lock.ts'
import {
  assertNotOver,
  covering,
  isOver,
  maxPatterns,
  maxReservations,
  maxReservedLength,
  maxReservedPatterns,
  type ReservationRequest,
  reservePaths,
} from '../../src/domain/reservation.ts'
import { aLock, at, refusalOf } from './samples.ts'

const request: ReservationRequest = {
  agent: 'bob',
  instance: 'bob-1',
  name: 'paths:1',
  leaseMs: 30_000,
  reason: null,
  holding: [],
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

  test('names everything that conflicts, and only that [L15]', () => {
    const near = reserved(['src/a.ts'], 'exclusive')
    const far = reserved(['docs/**'], 'exclusive')

    expect(reservePaths(request, [near, far], clock)).toEqual({ outcome: 'held', by: [near] })
  })

  test('does not conflict with lapsed ones [L15]', () => {
    const lapsed = reserved(['src/**'], 'exclusive', { expiresAt: at.now - 1 })

    expect(reservePaths(request, [lapsed], clock).outcome).toBe('granted')
  })

  test('conflicts with those of the same process, unless they are named [S5c-39]', () => {
    const own = reserved(['src/**'], 'exclusive', { agent: 'bob', instance: 'bob-1', token: 7 })
    const holding = (name: string, token: number) => ({ ...request, holding: [{ name, token }] })
    const outcomes = [request, holding('paths:0', 7), holding('paths:0', 8), holding('paths:2', 7)].map(
      (asked) => reservePaths(asked, [own], clock).outcome,
    )

    expect(outcomes).toEqual(['held', 'granted', 'held', 'held'])
  })

  test('conflicts with those of another agent, even if they are named [S5c-39]', () => {
    const others = reserved(['src/**'], 'exclusive', { agent: 'ada', token: 7 })

    const asked = { ...request, holding: [{ name: 'paths:0', token: 7 }] }

    expect(reservePaths(asked, [others], clock).outcome).toBe('held')
  })

  test('conflicts with those that lapsed only by a clock in doubt', () => {
    const lapsed = reserved(['src/**'], 'exclusive', { expiresAt: at.now - 1 })

    expect(reservePaths(request, [lapsed], { ...clock, isDoubtful: true })).toEqual({
      outcome: 'held',
      by: [lapsed],
    })
  })

  test('of a bad pattern is refused before anything else', () => {
    expect(refusalOf(() => reservePaths({ ...request, patterns: ['a/../b'] }, [], clock)).code).toBe(
      'INVALID',
    )
  })

  test('is limited, which is not the caller’s mistake', () => {
    const many = Array.from({ length: maxReservations }, () => reserved(['docs/**'], 'shared'))

    expect(refusalOf(() => reservePaths(request, many, clock))).toMatchObject({
      code: 'BUSY',
      facts: { limit: 'reservations', held: maxReservations, max: maxReservations },
    })
  })

  test('counts toward a total of patterns; the next is refused before it slows everybody down [L15]', () => {
    const full = fill(maxReservedPatterns, (number) => `docs/${number}/*`)
    const oneLess = [...full.slice(0, -1), reserved((full.at(-1)?.patterns ?? []).slice(1), 'exclusive')]

    expect(reservePaths(request, [...oneLess, aLock()], clock).outcome).toBe('granted')
    expect(refusalOf(() => reservePaths(request, full, clock))).toMatchObject({
      code: 'BUSY',
      facts: { limit: 'patterns', held: maxReservedPatterns, asked: 1, max: maxReservedPatterns },
    })
  })

  test('is refused when the reserved patterns are very long in total: all are read each time [L15]', () => {
    const long = fill(maxReservedLength / 500, (number) => `docs/${number}`.padEnd(500, 'x'))

    expect(refusalOf(() => reservePaths(request, long, clock))).toMatchObject({
      code: 'BUSY',
      facts: { limit: 'characters', held: maxReservedLength, max: maxReservedLength },
    })
  })

  test('that conflicts is told so, even when the limit is reached', () => {
    const full = fill(maxReservedPatterns, (number) => `src/${number}.ts`)

    expect(reservePaths(request, full, clock)).toMatchObject({ outcome: 'held' })
  })
})

describe('what one agent has reserved', () => {
  const own = (count: number) =>
    Array.from({ length: count }, (_, number) =>
      reserved([`docs/${number}`], 'shared', { agent: request.agent }),
    )

  test('is limited in number, however many others have [S5d-16]', () => {
    const others = Array.from({ length: 200 }, () => reserved(['docs/**'], 'shared'))

    expect(reservePaths(request, [...own(99), ...others], clock).outcome).toBe('granted')
    expect(refusalOf(() => reservePaths(request, [...own(100), ...others], clock))).toMatchObject({
      code: 'BUSY',
      facts: { quota: 'reservations', held: 100, max: 100 },
    })
    const quotas = { reservations: 2, lockWaits: 1 }
    expect(refusalOf(() => reservePaths({ ...request, quotas }, own(2), clock))).toMatchObject({
      code: 'BUSY',
    })
  })

  test('is refused if it would make the next one too expensive, not when that one asks [S5d-16]', () => {
    const costly = (number: number) => `{${'*a*b,'.repeat(40)}x}*${number}`
    const ask = (agent: string, patterns: readonly string[], live: readonly Lock[]) =>
      reservePaths({ ...request, agent, patterns, holding: [] }, live, clock)
    const live: Lock[] = []
    const reserveAll = () => {
      for (let number = 0; number < 100; number++) {
        const answer = ask('mallory', [costly(number)], live)
        if (answer.outcome === 'granted') live.push({ ...answer.after, mode: 'shared' })
      }
    }

    expect(refusalOf(reserveAll)).toMatchObject({ code: 'INVALID', facts: { agent: 'mallory' } })
    expect(live.length).toBeGreaterThan(0)
    expect(ask('ada', ['src/engines/**/*.test.ts'], live)).toMatchObject({ outcome: 'granted' })
  })

  test('may be many if each begins differently [S5d-16]', () => {
    const patterns = (of: number) =>
      Array.from({ length: 50 }, (_, number) => `packages/${of}/${number}/**/*.ts`)
    const live = Array.from({ length: 80 }, (_, of) =>
      reserved(patterns(of), 'shared', { agent: request.agent }),
    )

    expect(
      reservePaths({ ...request, patterns: patterns(99) }, [...live, aLock({ agent: request.agent })], clock)
        .outcome,
    ).toBe('granted')
  })
})

describe('fifty patterns against as many as may be reserved', () => {
  const ask = (patternOf: (number: number) => string): ReservationRequest => ({
    ...request,
    patterns: Array.from({ length: maxPatterns }, (_, number) => patternOf(number)),
  })
  const room = maxReservedPatterns - maxPatterns

  test.each([
    ['folders', (number: number) => `src/engines/${number}/**`],
    ['beginnings of names', (number: number) => `src/engines/module-${number}-*.ts`],
    ['single files', (number: number) => `src/engines/sqlite/loaders/file-${number}.ts`],
  ])('are told apart by their %s [L15]', (_, patternOf) => {
    const theirs = fill(room, (number) => patternOf(number + 1_000))

    expect(reservePaths(ask(patternOf), theirs, clock).outcome).toBe('granted')
    expect(
      reservePaths(
        ask((number) => patternOf(number + 970)),
        theirs,
        clock,
      ),
    ).toMatchObject({
      outcome: 'held',
      by: [{ patterns: expect.arrayContaining([patternOf(1_000)]) }],
    })
  })

  test('that only a long comparison can tell apart are refused instead of delaying everybody [L15]', () => {
    const costly = (end: string) => `{${'*a*b,'.repeat(20)}x}${'*?[a-y]'.repeat(9)}${end}`
    const theirs = fill(room, () => costly('*y'))

    expect(
      refusalOf(() =>
        reservePaths(
          ask(() => costly('*x')),
          theirs,
          clock,
        ),
      ),
    ).toMatchObject({
      code: 'INVALID',
      next: expect.stringContaining('start patterns with folder names'),
    })
  })

  test('with large classes are refused too: each character of a class is work [L15]', () => {
    const letters = (from: number) =>
      `[${Array.from({ length: 250 }, (_, number) => String.fromCharCode(from + 2 * number)).join('')}]`
    const theirs = fill(room, () => `*${letters(0x4e01)}`)

    expect(
      refusalOf(() =>
        reservePaths(
          ask(() => `*${letters(0x4e00)}`),
          theirs,
          clock,
        ),
      ).code,
    ).toBe('INVALID')
  })
})

test('a lapsed reservation is over, and a lapsed lock that is only a name is not [L15]', () => {
  const now = at.now
  const lapsed = { expiresAt: now - 1 }

  expect(isOver(reserved(['a'], 'shared', lapsed), now)).toBe(true)
  expect(isOver(reserved(['a'], 'shared', { expiresAt: now }), now)).toBe(false)
  expect(isOver(aLock(lapsed), now)).toBe(false)
})

test('one that is over cannot be continued, and the refusal says why [L15]', () => {
  const over = reserved(['a'], 'shared', { expiresAt: at.now - 1 })

  expect(() => assertNotOver(reserved(['a'], 'shared'), at.now)).not.toThrow()
  expect(refusalOf(() => assertNotOver(over, at.now))).toMatchObject({
    code: 'LEASE_LOST',
    facts: { token: over.token, reason: expect.stringContaining('lapsed') },
  })
})

describe('who has a path', () => {
  test('is the agent whose pattern matches it [L15]', () => {
    const [wide, narrow, far] = [
      reserved(['docs/*', 'src/**'], 'shared'),
      reserved(['src/[ab].ts'], 'shared'),
      reserved(['src/*/a.ts'], 'shared'),
    ]

    expect(covering('src/a.ts', [wide, narrow, far])).toEqual([wide, narrow])
  })

  test('is not a lock that is only a name', () => {
    expect(covering('a', [aLock()])).toEqual([])
  })

  test('is refused for anything that is not a path, even when nothing is reserved', () => {
    expect(refusalOf(() => covering('a/../b', [])).code).toBe('INVALID')
  })
})

/** So many reserved patterns, as few reservations as can have them. */
function fill(count: number, patternOf: (number: number) => string) {
  const patterns = Array.from({ length: count }, (_, number) => patternOf(number))
  return Array.from({ length: Math.ceil(count / maxPatterns) }, (_, number) =>
    reserved(patterns.slice(number * maxPatterns, (number + 1) * maxPatterns), 'exclusive'),
  )
}
