import { expect, test } from 'vitest'
import { isCommitted, isLost, lossOf } from '../../src/domain/commit-loss.ts'

const sent = { batch: 7, mark: 'ours' }

test.each([
  ['its row says that batch', { last: 7, marks: ['ours'] }, false],
  ['its row says a later one', { last: 8, marks: ['ours'] }, false],
  ['its row says an earlier one', { last: 6, marks: ['ours'] }, true],
  ['its row is gone', { last: null, marks: ['ours'] }, false],
  ['its row is gone, and so is its branch', { last: null, marks: ['another'] }, true],
  ['its branch is gone, and its row is from before', { last: 6, marks: [] }, true],
])('whether an acknowledged batch is lost: %s [S5b-15]', (_, found, is) => {
  expect(isLost(sent, found)).toBe(is)
})

test('a process without acknowledged commits has lost none [S5b-15]', () => {
  expect(isLost(null, { last: null, marks: [] })).toBe(false)
})

test.each([
  ['its row says so', { last: 7, marks: ['ours'] }, true],
  ['its row says another', { last: 6, marks: ['ours'] }, false],
  ['its row is gone', { last: null, marks: ['ours'] }, null],
  ['its row is gone, and so is its branch', { last: null, marks: ['another'] }, false],
])('whether a batch in doubt was committed: %s [S5b-15]', (_, found, is) => {
  expect(isCommitted(sent, found)).toBe(is)
})

test('a process with normal durability expects such losses [S5b-15]', () => {
  const event = { at: 5, agent: 'ada' }

  expect(lossOf({ ...event, detail: { durability: 'normal' } })).toEqual({ ...event, isExpected: true })
  expect(lossOf({ ...event, detail: { durability: 'full' } })).toMatchObject({ isExpected: false })
  expect(lossOf({ ...event, detail: null })).toMatchObject({ isExpected: false })
})
