import { expect, test } from 'vitest'
import { counted, sumByName } from '../../src/domain/count.ts'

test.each([
  [0, 'item', '0 items'],
  [1, 'item', '1 item'],
  [2, 'item', '2 items'],
  [1, 'delivery', '1 delivery'],
  [2, 'delivery', '2 deliveries'],
])('%i of the noun %s is "%s"', (count, noun, words) => {
  expect(counted(count, noun)).toBe(words)
})

test('sums are kept under any name, even one that every object has [S5c-20]', () => {
  const names = ['constructor', '__proto__', 'todo']

  const sums = sumByName([...names, ...names].map((name) => [name, 2]))

  expect(Object.entries(sums)).toEqual(names.map((name) => [name, 4]))
})
