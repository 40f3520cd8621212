import fc from 'fast-check'
import { expect, test } from 'vitest'
import { allowanceWindowMs, keepMarks, type Marks, takeAllowance } from '../../src/domain/allowance.ts'

test('without a limit everything goes now and nothing is counted [A7]', () => {
  const marks: Marks = []

  expect(takeAllowance(marks, 0, 5)).toEqual({ at: 5, marks })
  expect(takeAllowance(marks, 0, 5).marks).toBe(marks)
})

test('up to the limit goes now, and the next when the oldest is a minute old [A5] [A7]', () => {
  const first = takeAllowance([], 2, 100)
  const second = takeAllowance(first.marks, 2, 200)
  const third = takeAllowance(second.marks, 2, 300)
  const fourth = takeAllowance(third.marks, 2, 300)

  expect([first.at, second.at, third.at, fourth.at]).toEqual([100, 200, 60_100, 60_200])
  expect(takeAllowance(second.marks, 2, 70_000).at).toBe(70_000)
})

test('no minute ever has more than the limit, whenever it is asked [A5] [A7]', () => {
  const waits = fc.array(fc.integer({ min: 0, max: 40_000 }), { maxLength: 60 })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6 }), waits, (limit, each) => {
      let now = 0
      let marks: Marks = []
      const places: number[] = []
      for (const wait of each) {
        now += wait
        const place = takeAllowance(marks, limit, now)
        marks = place.marks
        places.push(place.at)
      }

      for (const from of places) {
        const within = places.filter((at) => at >= from && at < from + allowanceWindowMs)
        expect(within.length).toBeLessThanOrEqual(limit)
      }
      expect(marks.length).toBeLessThanOrEqual(limit)
    }),
  )
})

test('counting by a smaller limit forgets nothing that a larger one needs [A5]', () => {
  let marks: Marks = [100, 100, 100, 100]
  marks = takeAllowance(marks, 2, 200).marks

  const places = [200, 201, 202].map((now) => {
    const place = takeAllowance(marks, 6, now)
    marks = place.marks
    return place.at
  })

  expect(places).toEqual([200, 201, 60_100])
})

test('counting by a larger limit does not make smaller ones forget [S5c-19]', () => {
  const first = takeAllowance([], 1, 100)
  const second = takeAllowance(first.marks, 1, 150)
  const other = takeAllowance(second.marks, 6, 200)
  const third = takeAllowance(other.marks, 1, 250)

  expect([first.at, second.at, other.at, third.at]).toEqual([100, 60_100, 200, 120_100])
})

test('no message waits for those that a smaller limit deferred [S5c-19]', () => {
  let marks: Marks = []
  for (let time = 0; time < 100; time++) marks = takeAllowance(marks, 1, 100).marks

  expect(takeAllowance(marks, 2, 200).at).toBe(200)
})

test('with any mix of limits, each is respected, and the memory is bounded [S5c-19]', () => {
  const asks = fc.array(fc.record({ limit: fc.integer({ min: 1, max: 6 }), wait: fc.nat(40_000) }), {
    maxLength: 80,
  })
  fc.assert(
    fc.property(asks, (each) => {
      let now = 0
      let marks: Marks = []
      const places: number[] = []
      for (const { limit, wait } of each) {
        now += wait
        const place = takeAllowance(marks, limit, now)
        marks = place.marks
        places.push(place.at)

        // In every minute that it lies in, those there are by now.
        const starts = places.filter((at) => at <= place.at && at > place.at - allowanceWindowMs)
        for (const from of starts) {
          const within = places.filter((at) => at >= from && at < from + allowanceWindowMs)
          expect(within.length).toBeLessThanOrEqual(limit)
        }
        expect(marks.length).toBeLessThanOrEqual(6)
      }
    }),
  )
})

test('marks are kept as a new version of their row, and only when there are new ones', () => {
  const kept = keepMarks('send:ada', null, [1, 2])

  expect(kept).toEqual({ name: 'send:ada', marks: [1, 2], at: 2, version: 1 })
  expect(keepMarks('send:ada', kept, [2, 3])).toMatchObject({ at: 3, version: 2 })
  expect(keepMarks('send:ada', kept, kept?.marks ?? [])).toBeNull()
  expect(keepMarks('send:ada', null, [])).toBeNull()
})
