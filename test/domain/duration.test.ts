import { expect, test } from 'vitest'
import { formatDuration } from '../../src/domain/duration.ts'

test.each([
  [0, '0ms'],
  [-5, '0ms'],
  [999, '999ms'],
  [1_000, '1s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [61_500, '1m1s'],
  [3_600_000, '1h'],
  [3_605_000, '1h'],
  [5_400_000, '1h30m'],
  [90_000_000, '1d1h'],
])('%i ms is %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text)
})
