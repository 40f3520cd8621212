import { expect, test } from 'vitest'
import {
  isLeftToOthers,
  maxSpreadMs,
  spreadAfterItem,
  spreadAfterNothing,
  spreadAfterSilence,
} from '../../src/domain/crowding.ts'

test('each unsuccessful look doubles the delay, up to half a second [S5e-7]', () => {
  const spans = [0]
  for (let look = 0; look < 9; look++) spans.push(spreadAfterNothing(spans.at(-1) as number))

  expect(spans).toEqual([0, 8, 16, 32, 64, 128, 256, 500, 500, 500])
  expect(maxSpreadMs).toBe(500)
})

test('getting an item, or a second of silence, halves the delay [S5e-7]', () => {
  expect(spreadAfterItem(500)).toBe(250)
  expect(spreadAfterSilence(500, 1_000)).toBe(250)
  expect(spreadAfterSilence(500, 0)).toBe(500)
  expect(spreadAfterSilence(500, 60_000)).toBeLessThan(0.001)
})

test('an item is left to others only while there are others, and for half a second [S5e-7]', () => {
  expect(isLeftToOthers(0, true)).toBe(true)
  expect(isLeftToOthers(499, true)).toBe(true)
  expect(isLeftToOthers(500, true)).toBe(false)
  expect(isLeftToOthers(0, false)).toBe(false)
})
