import { describe, expect, test } from 'vitest'
import { decideSealable, isAnyOld } from '../../src/domain/sealing.ts'

/** Ages in days before now. */
const dates = { latestAt: 0, before: -90, wall: 0 }
const counted = (...ages: number[]) =>
  decideSealable(
    ages.map((at) => ({ at: -at })),
    { ...dates, latestAt: -1000 },
  )

describe('of the oldest events are removed [S5b-10]', () => {
  test.each([
    ['those that are old, up to the first that is not', [200, 100, 90, 89, 95], 3, 'young'],
    ['all, when all are old', [200, 100], 2, 'all'],
    ['none, when the first is not old', [89, 100, 100], 0, 'young'],
    ['none of none', [], 0, 'undated'],
    ['also one dated after now, when a later one is old', [200, -3650, 100, 1], 3, 'young'],
    ['not one dated after now, when those that follow are not old', [200, -3650, 1], 1, 'young'],
    ['not one dated after now that is the last', [200, -3650], 1, 'all'],
    ['not one dated too early, when those that follow are not old', [200, 500, 1], 1, 'young'],
    ['nothing because of one dated too early', [200, -3650, 500, 1], 1, 'young'],
    ['also one dated too early, when a later one is old', [200, 500, 100, 1], 3, 'young'],
    ['none, when all are dated after now', [-1, -2], 0, 'undated'],
  ] as const)('%s', (_, ages, count, end) => {
    expect(counted(...ages)).toMatchObject({ count, end })
  })

  test('the last date that counts is that of an old event, never one ahead or too early', () => {
    expect(counted(200, 100, -3650, 500, 95, 1).latestAt).toBe(-95)
    expect(counted(1).latestAt).toBe(-1000)
  })

  test('whatever follows what went before is not older than that', () => {
    expect(decideSealable([{ at: -500 }, { at: -80 }], { ...dates, latestAt: -100 })).toMatchObject({
      count: 0,
    })
  })
})

test('later events show that earlier ones are old if one of them is, by a date that counts [S5b-10]', () => {
  const at = { ...dates, latestAt: -200 }
  const shows = (...ages: number[]) =>
    isAnyOld(
      ages.map((age) => ({ at: -age })),
      at,
    )

  expect(shows(1, -3650, 100)).toBe(true)
  expect(shows(1, -3650, 201)).toBe(false)
  expect(shows()).toBe(false)
})
