/** When a process doubts the clock of its server. */
import { expect, test } from 'vitest'
import { ServerClock } from '../../src/engines/postgres/clock.ts'
import type { Environment } from '../../src/environment.ts'

/** Each: asked and heard on the clock of the process, and what the server's clock showed. */
type Answer = readonly [askedAt: number, heardAt: number, shown: number]

function doubtsAt(...answers: Answer[]): number[] {
  let time = 0
  const doubts: number[] = []
  const clock = new ServerClock({ monotonic: () => time } as Environment, ({ byMs }) => doubts.push(byMs))
  for (const [askedAt, heardAt, shown] of answers) {
    time = heardAt
    clock.note(shown, askedAt)
  }
  return doubts
}

test('a steady clock is not doubted', () => {
  expect(doubtsAt([0, 10, 1_005], [5_000, 5_010, 6_004], [9_000, 9_100, 10_020])).toEqual([])
})

test('a slow answer is not a sign of a moved clock', () => {
  expect(doubtsAt([0, 10, 1_005], [1_000, 9_000, 2_001], [9_000, 9_010, 10_005])).toEqual([])
  expect(doubtsAt([0, 10, 1_005], [1_000, 9_000, 9_999], [9_000, 9_010, 10_005])).toEqual([])
  // Also where it was the first.
  expect(doubtsAt([0, 8_000, 1_000], [8_000, 8_010, 9_005])).toEqual([])
})

test('a clock moved by more than 2 s is doubted once, by as much as is certain', () => {
  expect(doubtsAt([0, 10, 1_010], [1_000, 1_010, 8_010], [2_000, 2_010, 9_010])).toEqual([5_990])
  expect(doubtsAt([0, 10, 9_010], [1_000, 1_010, 4_000], [2_000, 2_010, 5_000])).toEqual([-6_000])
})

test('a clock that is corrected slowly is followed', () => {
  const slewed = Array.from({ length: 50 }, (_, second): Answer => {
    const at = second * 1_000
    return [at, at + 1, 1_000 + at + second * 100]
  })

  expect(doubtsAt(...slewed)).toEqual([])
})

test('a server that takes more than 3 s to answer was unreachable since its last answer [S5-1]', () => {
  const outage = { since: 1_005, until: 9_001 }

  expect(outageAt([0, 10, 1_005], [1_000, 8_001, 9_001])).toEqual(outage)
  // Asked again and again, and answered at once when it was back.
  expect(outageAt([0, 10, 1_005], [1_000, 'missed'], [4_000, 'missed'], [8_000, 8_001, 9_001])).toEqual(
    outage,
  )
})

test('a process that asked nothing for long has seen no outage [S5-1]', () => {
  expect(outageAt([0, 10, 1_005], [60_000, 60_010, 61_005])).toBeNull()
  expect(outageAt([0, 10, 1_005], [60_000, 'missed'], [60_100, 60_110, 61_105])).toBeNull()
})

function outageAt(...answers: (Answer | readonly [askedAt: number, 'missed'])[]) {
  let time = 0
  const clock = new ServerClock({ monotonic: () => time } as Environment, () => {})
  for (const [askedAt, heardAt, shown = 0] of answers) {
    time = heardAt === 'missed' ? askedAt : heardAt
    if (heardAt === 'missed') clock.missed()
    else clock.note(shown, askedAt)
  }
  return clock.outage
}

test('it is checked only by an answer that came soon and agreed [S5b-13]', () => {
  expect(checkedAt([0, 10, 1_005])).toBe(1_005)
  expect(checkedAt([0, 10, 1_005], [5_000, 5_010, 6_004])).toBe(6_004)
  // It may have jumped while the answer was under way.
  expect(checkedAt([0, 10, 1_005], [5_000, 8_000, 7_000])).toBe(1_005)
  expect(checkedAt([0, 10, 1_005], [5_000, 5_010, 60_000])).toBe(1_005)
  // Slow or not, the next one counts again.
  expect(checkedAt([0, 10, 1_005], [5_000, 5_010, 60_000], [6_000, 6_010, 61_000])).toBe(61_000)
})

test('an unconfirmed clock is doubted, and reported once, until a process confirms it [S5b-13]', () => {
  const told: string[] = []
  let time = 0
  const clock = new ServerClock({ monotonic: () => time } as Environment, ({ reason }) => told.push(reason))
  const states = [clock.isDoubtful]

  clock.uncheckedUntil(10_000, { reason: 'nobody knows' })
  states.push(clock.isDoubtful)
  time = 1_500
  clock.uncheckedUntil(2_000, { reason: 'nobody knows' })
  clock.uncheckedUntil(10_000, { reason: 'nobody knows' })
  states.push(clock.isDoubtful)
  time = 2_000
  states.push(clock.isDoubtful)

  expect(states).toEqual([false, true, true, false])
  expect(told).toEqual(['nobody knows'])
})

function checkedAt(...answers: Answer[]): number {
  let time = 0
  const clock = new ServerClock({ monotonic: () => time } as Environment, () => {})
  for (const [askedAt, heardAt, shown] of answers) {
    time = heardAt
    clock.note(shown, askedAt)
  }
  return clock.checkedAt
}
