/** The board that both threads see: what the caretaker writes is for the lease it has renewed, and for no other. */
import { expect, test } from 'vitest'
import { Board } from '../../src/runtime/board.ts'

const lease = (id: string, token: number) =>
  ({ kind: 'item', id, token, leaseMs: 30_000, requestedAt: 1_000 }) as const

test('a renewal moves the deadline of the lease that was renewed [S5c-26]', () => {
  const board = new Board()
  const slot = board.write(lease('a', 7), 2_000.25)
  const [read] = [...board.leases()]
  if (!read) expect.fail('it was written')

  const isExtended = board.extend(read, 3_000.5)

  expect(read).toMatchObject({ slot, id: 'a', token: 7 })
  expect(isExtended).toBe(true)
  expect(board.deadlineOf(slot)).toBe(3_000.5)
})

test.each([
  ['another token', 8],
  ['the same token, as of one millisecond', 7],
])(
  'a renewal that comes late leaves the lease alone that has the slot since, under %s [S5c-26]',
  (_, token) => {
    const board = new Board()
    const slot = board.write(lease('a', 7), 2_000)
    const [read] = [...board.leases()]
    if (!read) expect.fail('it was written')

    board.strike(slot)
    const reused = board.write(lease('b', token), 2_000)
    const isExtended = board.extend(read, 3_000)

    expect(reused).toBe(slot)
    expect(isExtended).toBe(false)
    expect(board.deadlineOf(slot)).toBe(2_000)
  },
)

test('a lease granted once more has the later of both deadlines [S5c-26]', () => {
  const board = new Board()
  const slot = board.write(lease('a', 7), 2_000)

  board.extendTo(slot, 3_000)
  board.extendTo(slot, 2_500)

  expect(board.deadlineOf(slot)).toBe(3_000)
})

test('a lease that is being given back keeps its slot and is not renewed until it is resumed [S5c-26]', () => {
  const board = new Board()
  const slot = board.write(lease('a', 7), 2_000)

  board.suspend(slot)
  const suspended = [...board.leases()]
  board.resume(slot)

  expect(suspended).toEqual([])
  expect([...board.leases()]).toMatchObject([{ slot, token: 7 }])
})
