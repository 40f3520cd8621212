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

test('a mark from before a jump is old, or lies ahead: the clock is doubted for 10 s [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - jumpMs })).toBe(10_000)
  expect(doubtMs({ checkedAt: now - 15_000 })).toBe(10_000)
  expect(doubtMs({ checkedAt: now + jumpMs })).toBe(10_000)
  expect(doubtMs({ checkedAt: 0 })).toBe(10_000)
})

test('a jump by less than usual leases have left is doubted until those of short ones have renewed [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - 3_000 })).toBe(2_000)
  expect(doubtMs({ checkedAt: now - 14_999 })).toBe(2_000)
})

test('where nobody renews, nobody can be robbed [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - jumpMs, isAnyoneThere: false })).toBe(0)
  expect(doubtMs({ checkedAt: 0, isAnyoneThere: false, isServerNew: true })).toBe(0)
})

test('after a restart of the server those who were there may be about to come back [S5b-13]', () => {
  expect(doubtMs({ checkedAt: now - jumpMs, isAnyoneThere: false, isServerNew: true })).toBe(10_000)
})

test('behind a pooler nobody is seen: whoever checked the clock lately counts as there [S5b-13]', () => {
  const unseen = { checkedAt: now - jumpMs, isAnyoneThere: false }

  expect(doubtMs({ ...unseen, checkedBehindPoolerAt: now - jumpMs })).toBe(10_000)
  expect(doubtMs({ ...unseen, checkedBehindPoolerAt: now - jumpMs - 600_000 })).toBe(10_000)
  expect(doubtMs({ ...unseen, checkedBehindPoolerAt: now - jumpMs - 600_001 })).toBe(0)
})

test('a mark that stays old is doubted for 10 s in all, whoever looks [S5b-13]', () => {
  const checkedAt = now - jumpMs
  const since = (ms: number) => ({ checkedAt, unchecked: { since: now - ms, checkedAt } })

  expect(doubtMs(since(0))).toBe(10_000)
  expect(doubtMs(since(4_000))).toBe(6_000)
  expect(doubtMs(since(60_000))).toBe(0)
  // Of another mark, or noted before the clock was set back.
  expect(doubtMs({ checkedAt, unchecked: { since: now - 60_000, checkedAt: 1 } })).toBe(10_000)
  expect(doubtMs(since(-60_000))).toBe(10_000)
})
