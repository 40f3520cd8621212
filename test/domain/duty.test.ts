/** When the caretaker wakes: at its next duty, and in time for a lease that was granted while it slept. */
import { expect, test } from 'vitest'
import { firstDutyAt, nextDutyAt } from '../../src/domain/duty.ts'
import { renewEveryMs } from '../../src/domain/lease.ts'

test('with nothing held, the caretaker sleeps until its next duty [S5e-6]', () => {
  expect(nextDutyAt([9_000, 4_000, Number.POSITIVE_INFINITY], { now: 1_000, isHolding: false })).toBe(4_000)
})

test('while anything is held, clocks are compared every 500 ms [S5e-6]', () => {
  expect(nextDutyAt([9_000], { now: 1_000, isHolding: true })).toBe(1_500)
  expect(nextDutyAt([1_200], { now: 1_000, isHolding: true })).toBe(1_200)
})

test('a duty that is overdue is due now [S5e-6]', () => {
  expect(nextDutyAt([0, 9_000], { now: 1_000, isHolding: false })).toBe(1_000)
})

test('a new lease needs the caretaker before its first renewal, and to compare the clocks [S5e-6]', () => {
  expect(firstDutyAt({ requestedAt: 1_000, leaseMs: 30_000 })).toBe(1_500)
  expect(firstDutyAt({ requestedAt: 1_000, leaseMs: 600 })).toBe(1_000 + 0.9 * renewEveryMs(600))
})
