import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { adjustBackoff, backoffMs, retryBackoff } from '../../src/domain/backoff.ts'

const anAttempt = fc.integer({ min: 1, max: 5_000 })
const aDraw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

describe('the delay before a retry', () => {
  test.each([
    [1, 1_000],
    [2, 2_000],
    [3, 4_000],
    [9, 256_000],
    [10, 300_000],
    [5_000, 300_000],
  ])('attempt %i waits at most %i ms, and at least half of that', (attempt, longestMs) => {
    const shortest = backoffMs(retryBackoff, attempt, 0)
    const longest = backoffMs(retryBackoff, attempt, 1)

    expect([shortest, longest]).toEqual([longestMs / 2, longestMs])
  })

  test('a delay is a whole number of milliseconds, never zero and never beyond the cap [F-06]', () => {
    fc.assert(
      fc.property(anAttempt, aDraw, (attempt, draw) => {
        const wait = backoffMs(retryBackoff, attempt, draw)

        expect(Number.isSafeInteger(wait)).toBe(true)
        expect(wait).toBeGreaterThanOrEqual(500)
        expect(wait).toBeLessThanOrEqual(300_000)
      }),
    )
  })

  test('for the same draw a later attempt never waits less than an earlier one', () => {
    fc.assert(
      fc.property(anAttempt, aDraw, (attempt, draw) => {
        const earlier = backoffMs(retryBackoff, attempt, draw)
        const later = backoffMs(retryBackoff, attempt + 1, draw)

        expect(later).toBeGreaterThanOrEqual(earlier)
      }),
    )
  })

  test('without a base there is no delay, however often it failed [S5c-14]', () => {
    const none = { baseMs: 0, factor: 10, maxMs: 300_000 }

    expect([1, 309, 310, 5_000].map((attempt) => backoffMs(none, attempt, 0.5))).toEqual([0, 0, 0, 0])
  })

  test('different draws spread a herd of retries over the second half of the step', () => {
    const constant = { baseMs: 1_000, factor: 1, maxMs: 1_000 }

    const waits = [0, 0.25, 0.5, 0.75].map((draw) => backoffMs(constant, 7, draw))

    expect(waits).toEqual([500, 625, 750, 875])
  })
})

describe('a partly given backoff', () => {
  test.each([
    [undefined, retryBackoff],
    [{}, retryBackoff],
    [{ factor: 3 }, { ...retryBackoff, factor: 3 }],
    [{ maxMs: 10 }, { ...retryBackoff, maxMs: 10 }],
    [{ baseMs: 600_000 }, { ...retryBackoff, baseMs: 600_000, maxMs: 600_000 }],
    [
      { baseMs: 600_000, maxMs: 10 },
      { ...retryBackoff, baseMs: 600_000, maxMs: 10 },
    ],
  ])('%o keeps the others, and a base raises a cap that is not given [S6-25]', (given, expected) => {
    expect(adjustBackoff(retryBackoff, given)).toEqual(expected)
  })
})
