import { expect, test } from 'vitest'
import { counted } from '../../src/domain/count.ts'

test.each([
  [0, 'item', '0 items'],
  [1, 'item', '1 item'],
  [2, 'item', '2 items'],
  [1, 'delivery', '1 delivery'],
  [2, 'delivery', '2 deliveries'],
])('%i of the noun %s is "%s"', (count, noun, words) => {
  expect(counted(count, noun)).toBe(words)
})
