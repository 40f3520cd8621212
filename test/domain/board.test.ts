/** The board that both threads see: what the caretaker writes is for the lease it has renewed, and for no other. */
import { expect, test } from 'vitest'
import { Board } from '../../src/runtime/lease/board.ts'

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
])('a late renewal leaves the lease that now has the slot alone, under %s [S5c-26]', (_, token) => {
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
})

test('a lease granted again has the later of both deadlines [S5c-26]', () => {
  const board = new Board()
  const slot = board.write(lease('a', 7), 2_000)

  board.extendTo(slot, 3_000)
  board.extendTo(slot, 2_500)

  expect(board.deadlineOf(slot)).toBe(3_000)
})

test('a lease that is being released keeps its slot and is not renewed until it is resumed [S5c-26]', () => {
  const board = new Board()
  const slot = board.write(lease('a', 7), 2_000)

  board.suspend(slot)
  const suspended = [...board.leases()]
  board.resume(slot)

  expect(suspended).toEqual([])
  expect([...board.leases()]).toMatchObject([{ slot, token: 7 }])
})

const shortLease = { kind: 'lock', id: 'b', token: 8, leaseMs: 600, requestedAt: 1_000 } as const

test('a sleeping caretaker is woken for a lease that is due sooner, and only once [S5e-6]', () => {
  const board = new Board()
  let woken = 0
  board.onEarlierDuty(() => woken++)
  board.sleep(60_000, board.writes)

  board.write(lease('a', 7), 2_000)
  board.write(lease('c', 9), 2_000)
  expect(woken).toBe(1)

  board.write(shortLease, 2_000)
  expect(woken).toBe(2)
})

test('a caretaker that is awake, or will wake in time, is left alone [S5e-6]', () => {
  const board = new Board()
  let woken = 0
  board.onEarlierDuty(() => woken++)

  board.write(lease('a', 7), 2_000)
  board.sleep(1_100, board.writes)
  board.write(lease('c', 9), 2_000)
  board.awake()
  board.write(shortLease, 2_000)

  expect(woken).toBe(0)
})

test('a lease whose release was refused wakes the caretaker: it is renewed again [S5e-6]', () => {
  const board = new Board()
  let woken = 0
  const slot = board.write(lease('a', 7), 2_000)
  board.suspend(slot)
  board.onEarlierDuty(() => woken++)
  board.sleep(60_000, board.writes)

  board.resume(slot)

  expect(woken).toBe(1)
})

test('a lease recorded while the caretaker falls asleep is not overlooked [S5e-6]', () => {
  const board = new Board()
  const seen = board.writes
  board.write(lease('a', 7), 2_000)

  expect(board.sleep(60_000, seen)).toBe(false)
  expect(board.sleep(60_000, board.writes)).toBe(true)
})

test('the board knows whether it is empty [S5e-6]', () => {
  const board = new Board()
  const slot = board.write(lease('a', 7), 2_000)
  const isHolding = board.isHolding

  board.strike(slot)

  expect(isHolding).toBe(true)
  expect(board.isHolding).toBe(false)
})
