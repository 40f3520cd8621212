import { expect, test } from 'vitest'
import { dueAt } from '../../src/domain/item-creation.ts'
import { refusalOf } from './samples.ts'

test.each([
  [{}, undefined],
  [{ runAt: null }, null],
  [{ runAt: 7 }, 7],
  [{ delayMs: 0 }, 1_000],
  [{ delayMs: 5 }, 1_005],
])('%o is due at %s [S6-25]', (asked, at) => {
  expect(dueAt(asked, 1_000)).toBe(at)
})

test.each([[{ runAt: 7, delayMs: 5 }], [{ runAt: null, delayMs: 5 }]])(
  '%o cannot be given together [S6-25]',
  (asked) => {
    expect(refusalOf(() => dueAt(asked, 1_000))).toMatchObject({ code: 'INVALID' })
  },
)
