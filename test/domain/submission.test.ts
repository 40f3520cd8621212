import { describe, expect, test } from 'vitest'
import { nothingAround, restacked } from '../../src/domain/dependency.ts'
import type { Item } from '../../src/domain/item.ts'
import { isStackedAnew, type Submission, submitAgain } from '../../src/domain/submission.ts'
import { at, itemIn, job, merge, newItem, refusalOf } from './samples.ts'

const parent = newItem(merge, { id: 'p1' })
const blocker = newItem(merge, { id: 'b1' })
const other = newItem(merge, { id: 'b2' })
const landed = itemIn(merge, 'merged', { id: 'b3' })
const open = newItem(merge, {
  parent,
  blockers: [blocker],
  payload: '{"a":1,"b":2}',
  data: { headSha: 'aaaa', bead: 'bd-1', note: { x: 1, y: 2 } },
  runAt: at.wall + 1_000,
})

function again(
  item: Item,
  given: Omit<Submission, 'headSha'> & { headSha?: string },
  dependents: string[] = [],
) {
  const headSha = given.headSha ?? (item.data.headSha as string)
  return submitAgain(
    item,
    merge,
    { ...given, headSha },
    { around: { dependents, awaited: [] }, wall: at.wall },
  )
}

describe('an open change that is submitted again', () => {
  test.each<[string, Omit<Submission, 'headSha'>]>([
    ['nothing more', {}],
    ['the same payload in another order', { payload: '{"b":2,"a":1}' }],
    ['the same facts', { data: { note: { y: 2, x: 1 }, headSha: 'ignored' } }],
    ['the same bead', { bead: 'bd-1' }],
    ['the same bead beside another among the facts', { bead: 'bd-1', data: { bead: 'bd-2' } }],
    ['the same time', { runAt: at.wall + 1_000 }],
    ['the same priority and attempts', { priority: 5, maxAttempts: 3 }],
    ['the same parent', { parent }],
    ['the same blockers', { blockers: [blocker] }],
    ['its parent among the blockers', { parent, blockers: [blocker, parent] }],
  ])('with %s stays as it is [S5c-43]', (_, given) => {
    expect(again(open, given)).toBe(open)
  })

  test.each<[string, Omit<Submission, 'headSha'> & { headSha?: string }, Partial<Item>]>([
    ['payload', { payload: '3' }, { payload: '3' }],
    ['priority', { priority: 1 }, { priority: 1 }],
    ['attempts', { maxAttempts: 9 }, { maxAttempts: 9 }],
    ['bead', { bead: null }, { data: { ...open.data, bead: null } }],
    ['facts', { data: { more: 1 } }, { data: { ...open.data, more: 1 } }],
    ['time', { runAt: at.wall + 2_000 }, { runAt: at.wall + 2_000 }],
    ['head', { headSha: 'bbbb' }, { data: { ...open.data, headSha: 'bbbb', testedAgainstSha: null } }],
  ])('takes over its %s, and nothing else changes [S5c-43]', (_, given, changed) => {
    expect(again(open, given)).toEqual({ ...open, ...changed, version: 2 })
  })

  test('takes a bead if it had none [S5c-43]', () => {
    const bare = newItem(merge, { data: { headSha: 'aaaa' } })

    expect(again(bare, { bead: null })).toBe(bare)
    expect(again(bare, { bead: 'bd-2' }).data).toMatchObject({ bead: 'bd-2' })
  })

  test.each<[string, Partial<Item>, number | null, number | null]>([
    ['a time that has passed lifts a delay', {}, at.wall, null],
    ['none lifts a delay', {}, null, null],
    ['a time that has passed leaves the wait after a failure', { failures: 1 }, at.wall, at.wall + 1_000],
    ['a time that has passed leaves the wait after a crash', { crashes: 1 }, at.wall, at.wall + 1_000],
    ['none lifts even that', { failures: 1 }, null, null],
    ['a later time is waited for', { failures: 1 }, at.wall + 9_000, at.wall + 9_000],
    ['an earlier time leaves the wait after a failure', { failures: 1 }, at.wall + 10, at.wall + 1_000],
    ['an earlier time leaves the wait after a crash', { crashes: 1 }, at.wall + 10, at.wall + 1_000],
    ['an earlier time shortens a delay', {}, at.wall + 10, at.wall + 10],
    [
      'a time delays what no longer waits after a failure',
      { failures: 1, runAt: null },
      at.wall + 10,
      at.wall + 10,
    ],
  ])('%s [S5c-43]', (_, fields, runAt, expected) => {
    const item = newItem(merge, { data: { headSha: 'aaaa' }, runAt: at.wall + 1_000 })

    const after = again({ ...item, ...fields }, { runAt })

    expect(after).toMatchObject({ runAt: expected, phase: expected === null ? 'ready' : 'waiting' })
  })

  test('a run time ends an offer [S5c-43]', () => {
    const offered = { ...open, offeredTo: 'bob' }

    expect(again(offered, { runAt: at.wall + 2_000 }).offeredTo).toBeNull()
    expect(again(offered, { priority: 1 }).offeredTo).toBe('bob')
  })

  test.each<[string, Omit<Submission, 'headSha'>, Partial<Item>]>([
    [
      'other blockers, which keep the parent',
      { blockers: [other, landed] },
      { parent: 'p1', blockers: ['p1', 'b2', 'b3'], waitingFor: ['p1', 'b2'] },
    ],
    ['no blockers', { blockers: [] }, { parent: 'p1', blockers: ['p1'], waitingFor: ['p1'] }],
    [
      'another parent, which keeps the blockers',
      { parent: other },
      { parent: 'b2', ancestors: ['b2'], blockers: ['b1', 'b2'], waitingFor: ['b1', 'b2'] },
    ],
    ['no parent', { parent: null }, { parent: null, ancestors: [], blockers: ['b1'], waitingFor: ['b1'] }],
    [
      'neither',
      { parent: null, blockers: [] },
      { parent: null, ancestors: [], blockers: [], waitingFor: [] },
    ],
  ])('waits for what it was given: %s [S5c-43]', (_, given, changed) => {
    expect(isStackedAnew(open, { headSha: 'aaaa', ...given })).toBe(true)
    expect(again(open, given)).toEqual({ ...open, ...changed, version: 2 })
  })

  test('never waits for what waits for it, nor in too deep a stack [S5c-43]', () => {
    const deep = { ...other, ancestors: Array.from({ length: 10 }, (_, level) => `a${level}`) }

    const circle = refusalOf(() => again(open, { blockers: [other] }, ['b2']))
    const depth = refusalOf(() => again(open, { parent: deep }))

    expect([circle.code, depth.code]).toEqual(['INVALID', 'INVALID'])
    expect(isStackedAnew(open, { headSha: 'bbbb' })).toBe(false)
  })
})

describe('items stacked on a change that is restacked', () => {
  const moved = { ...newItem(merge, { id: 'm' }), ancestors: ['root'], parent: 'root' }
  const on = (id: string, below: string) => ({
    ...newItem(merge, { id }),
    parent: below,
    ancestors: ['old', 'm'],
  })

  test('follow, from the bottom up [S5c-43]', () => {
    const stacked = [on('c', 'b'), on('b', 'm'), on('d', 'm')]

    const after = restacked(moved, stacked).map((each) => [each.after.id, each.after.ancestors])

    expect(after).toEqual([
      ['b', ['root', 'm']],
      ['d', ['root', 'm']],
      ['c', ['root', 'm', 'b']],
    ])
    expect(restacked(moved, [on('b', 'm')])[0]?.after.version).toBe(2)
    expect(restacked(moved, [])).toEqual([])
  })

  test('are refused if they would be too deep, or are too many [S5c-43]', () => {
    const deep = { ...moved, ancestors: Array.from({ length: 9 }, (_, level) => `a${level}`) }
    const many = Array.from({ length: 101 }, (_, number) => on(`n${number}`, 'm'))

    expect(restacked(deep, [on('b', 'm')])[0]?.after.ancestors).toHaveLength(10)
    expect(refusalOf(() => restacked(deep, [on('b', 'm'), on('c', 'b')])).code).toBe('INVALID')
    expect(refusalOf(() => restacked(moved, many)).facts).toMatchObject({ maxStacked: 100 })
  })
})

describe('a held change', () => {
  const held = itemIn(merge, 'testing', { payload: '1', data: { headSha: 'aaaa' } })

  test('applies head, priority and attempts [S5c-43]', () => {
    const after = again(held, { headSha: 'bbbb', priority: 1, maxAttempts: 9 })

    expect(after).toMatchObject({ phase: 'held', agent: 'ada', priority: 1, maxAttempts: 9 })
    expect(after.data).toEqual({ headSha: 'bbbb', testedAgainstSha: null, headChangedUnder: held.token })
  })

  test.each<[string, Omit<Submission, 'headSha'>]>([
    ['payload', { payload: '2' }],
    ['data', { data: { more: 1 } }],
    ['bead', { bead: 'bd-2' }],
    ['runAt', { runAt: at.wall + 1 }],
    ['parent', { parent }],
    ['blockers', { blockers: [blocker] }],
  ])('keeps its %s [S5c-43]', (field, given) => {
    const refused = refusalOf(() => again(held, { ...given, headSha: 'bbbb' }))

    expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
    expect(refused.next).toMatch(new RegExp(`^${field} cannot change`))
  })

  test('keeps its head while it merges, and only that [S5c-43]', () => {
    const merging = itemIn(merge, 'merging', { agent: null, data: { headSha: 'aaaa' } })

    const refused = refusalOf(() => again(merging, { headSha: 'bbbb' }))

    expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'an unknown agent' } })
    expect(again(merging, { priority: 1 }).priority).toBe(1)
  })

  test('of a workflow that can always be cancelled may change its head [S5c-43]', () => {
    const running = itemIn(job, 'running', { data: { headSha: 'aaaa' } })

    const after = submitAgain(running, job, { headSha: 'bbbb' }, { around: nothingAround, wall: at.wall })

    expect(after.data.headSha).toBe('bbbb')
  })
})
