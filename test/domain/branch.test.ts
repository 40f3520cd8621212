import { expect, test } from 'vitest'
import { admit, adoptAfterMs, type BranchFacts, chooseServer } from '../../src/domain/branch.ts'

const known = { timeline: 2, mark: 'ours' }

test.each([
  ['a higher number with our mark', { timeline: 3, marks: ['ours', 'new'] }, 0, 'known'],
  ['a higher number without our mark', { timeline: 3, marks: ['new'] }, 0, 'ahead'],
  ['the same number with our mark', { timeline: 2, marks: ['ours'] }, 0, 'known'],
  ['the same number without our mark', { timeline: 2, marks: ['theirs'] }, 0, 'refused'],
  ['a lower number with our mark, as in a restored dump', { timeline: 1, marks: ['ours'] }, 0, 'known'],
  ['a lower number without our mark', { timeline: 1, marks: [] }, adoptAfterMs - 1, 'refused'],
  ['the same when nobody else has answered for long', { timeline: 1, marks: [] }, adoptAfterMs, 'adopted'],
])('whether a branch may be followed: %s [S5b-14]', (_, met, refusedForMs, admission) => {
  expect(admit(known, met, refusedForMs)).toBe(admission)
})

test('a process that has used no branch yet may use any [S5b-14]', () => {
  expect(admit(null, { timeline: 1, marks: [] }, 0)).toBe('known')
})

const first: BranchFacts = { timeline: 2, system: 'ours', server: 'first', mark: 'one', marks: ['one'] }
const second: BranchFacts = { ...first, server: 'second', mark: 'two', marks: ['two'] }
const unused = (facts: BranchFacts) => ({ ...facts, mark: null, marks: [] })

test('of several primaries the one on the highest timeline is used, whatever others have been used [S5b-14]', () => {
  const newest = { ...unused(second), timeline: 3 }

  expect(chooseServer([first, newest])).toBe(newest)
  expect(chooseServer([newest], [first])).toBe(newest)
})

test('of two with the same number the one that the store was used on is used [S5b-14]', () => {
  expect(chooseServer([unused(first), second])).toBe(second)
  expect(chooseServer([first], [unused(second)])).toBe(first)
})

test('if that does not decide, no process continues [S5b-14]', () => {
  expect(chooseServer([first, second])).toBeNull()
  expect(chooseServer([unused(first), unused(second)])).toBeNull()
  expect(chooseServer([first], [second])).toBeNull()
})

test('one server at two addresses is one, and a server of another cluster is not a rival [S5b-14]', () => {
  const stranger = { ...second, system: 'theirs' }

  expect(chooseServer([first, { ...first }])).toBe(first)
  expect(chooseServer([first], [stranger])).toBe(first)
})
