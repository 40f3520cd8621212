/** How long a process that has just opened a store doubts the clock of its server. */
import { expect, test } from 'vitest'
import { type ClockCheck, decideDoubtMs } from '../../src/domain/clock-check.ts'

const now = 10_000_000
const jumpMs = 3_600_000

function doubtMs(check: Partial<ClockCheck>): number {
  return decideDoubtMs({
    now,
    checkedAt: now - 1_000,
    checkedBehindPoolerAt: 0,
    unchecked: null,
    isAnyoneThere: true,
    isServerNew: false,
    ...check,
  })
}

test('a clock that was checked a moment ago is not doubted [S5b-13]', () => {
  expect(doubtMs({})).toBe(0)
  expect(doubtMs({ checkedAt: now - 2_999 })).toBe(0)
  expect(doubtMs({ checkedAt: now + 1_999 })).toBe(0)
})

test('a mark from before a jump is old or in the future: the clock is doubted for 10 s [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - jumpMs })).toBe(10_000)
  expect(doubtMs({ checkedAt: now - 15_000 })).toBe(10_000)
  expect(doubtMs({ checkedAt: now + jumpMs })).toBe(10_000)
  expect(doubtMs({ checkedAt: 0 })).toBe(10_000)
})

test('a jump shorter than the rest of a usual lease is doubted until holders of short ones have renewed [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - 3_000 })).toBe(2_000)
  expect(doubtMs({ checkedAt: now - 14_999 })).toBe(2_000)
})

test('if no process renews, no live lease can be taken [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - jumpMs, isAnyoneThere: false })).toBe(0)
  expect(doubtMs({ checkedAt: 0, isAnyoneThere: false, isServerNew: true })).toBe(0)
})

test('after a server restart its clients may be about to come back [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - jumpMs, isAnyoneThere: false, isServerNew: true })).toBe(10_000)
})

test('behind a pooler no session is seen: a process that checked the clock lately counts as present [S5b-13]', () => {
  const unseen = { checkedAt: now - jumpMs, isAnyoneThere: false }

  expect(doubtMs({ ...unseen, checkedBehindPoolerAt: now - jumpMs })).toBe(10_000)
  expect(doubtMs({ ...unseen, checkedBehindPoolerAt: now - jumpMs - 600_000 })).toBe(10_000)
  expect(doubtMs({ ...unseen, checkedBehindPoolerAt: now - jumpMs - 600_001 })).toBe(0)
})

test('a mark that stays old is doubted for 10 s in all, whichever process looks [S5b-13]', () => {
  const checkedAt = now - jumpMs
  const since = (ms: number) => ({ checkedAt, unchecked: { since: now - ms, checkedAt } })

  expect(doubtMs(since(0))).toBe(10_000)
  expect(doubtMs(since(4_000))).toBe(6_000)
  expect(doubtMs(since(60_000))).toBe(0)
  // Of another mark, or noted before the clock was set back.
  expect(doubtMs({ checkedAt, unchecked: { since: now - 60_000, checkedAt: 1 } })).toBe(10_000)
  expect(doubtMs(since(-60_000))).toBe(10_000)
})
