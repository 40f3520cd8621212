/** The order in which things that wait for one another are taken over. */
import { expect, test } from 'vitest'
import { circlesOf, inOrder } from '../../src/import/order.ts'

const things = (waits: Record<string, string[]>) =>
  Object.keys(waits).map((name) => ({ name, on: waits[name] ?? [] }))
const on = (thing: { on: string[] }) => thing.on
const names = (list: readonly { name: string }[]) => list.map(({ name }) => name).join(' ')

test('each row comes after what it waits for, and the others stay in file order', () => {
  const ordered = inOrder(things({ d: ['c'], c: ['a', 'b', 'a'], a: [], b: ['gone'], e: [] }), on)

  expect(names(ordered)).toBe('a b e c d')
})

test('a long chain in reverse order is sorted', () => {
  const chain = Array.from({ length: 20_000 }, (_, index) => ({ name: `${index}`, on: [`${index + 1}`] }))

  expect(inOrder(chain, on)[0]?.name).toBe('19999')
})

test('rows in a cycle are named, and those before and behind it are not', () => {
  const found = circlesOf(things({ a: [], b: ['a', 'd'], c: ['b'], d: ['c'], e: ['d'], f: ['f'] }), on)

  expect(found.map(({ member }) => member.name)).toEqual(['b', 'c', 'd', 'f'])
  expect(found[0]?.others).toEqual(['d'])
})

test('a large cycle is found in linear time [S5d-13]', () => {
  const spokes = Array.from({ length: 60_000 }, (_, number) => ({ name: `i${number}`, on: 'hub' }))
  const things = [{ name: 'hub', on: 'i0' }, ...spokes]

  const before = process.cpuUsage()
  const circles = circlesOf(things, ({ on }) => [on])

  expect(circles.map(({ member }) => member.name)).toEqual(['hub', 'i0'])
  // Quadratic, a file of 9 MB took more than 100 s.
  expect(process.cpuUsage(before).user / 1000).toBeLessThan(3_000)
})
