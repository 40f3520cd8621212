import { describe, expect, test } from 'vitest'
import type { Item } from '../../src/domain/item.ts'
import {
  assertMayEdit,
  assertMayRemove,
  claimTask,
  editTask,
  noteTask,
  readWords,
  setOwner,
  stateOfStatus,
  statusOf,
  storeWords,
  taskStatuses,
} from '../../src/domain/task.ts'
import { ada, at, itemIn, later, newItem, refusalOf, statesOf, task } from './samples.ts'

const words = {
  title: 'write the guide',
  body: 'all of it',
  labels: ['docs'],
  paths: ['docs/guides'],
  owner: 'olga',
  host: 'here',
  metadata: { estimate: 3 },
}
const aTask = (state: string, fields: Partial<Item> = {}) =>
  itemIn(task, state, { ...storeWords(words), ...fields })
const wordsOf = (item: Item) => readWords({ ...item, payload: JSON.parse(item.payload) })
const rules = { workflow: task, maxCrashes: 3, held: { items: 1, suspects: 0 } }
const bob = { agent: 'bob', instance: null, leaseMs: 1000, fromReview: false }

test('states are shown as the source spells them, and parsed back [T2]', () => {
  const shown = statesOf(task).map(statusOf)

  expect(shown).toEqual(['Todo', 'In Progress', 'Review', 'Done'])
  expect(shown).toEqual(taskStatuses)
  expect(shown.map(stateOfStatus)).toEqual(statesOf(task))
})

describe('the texts of a task', () => {
  test('come back as they were stored [T1]', () => {
    expect(wordsOf(aTask('todo'))).toEqual({ ...words, notes: [] })
  })

  test.each([null, 'text', { body: 5 }])(
    'are filled in as far as possible for an item without them: payload %j',
    (payload) => {
      expect(readWords({ id: 'i1', data: {}, payload })).toEqual({
        title: 'i1',
        body: '',
        labels: [],
        paths: [],
        owner: null,
        host: null,
        metadata: null,
        notes: [],
      })
    },
  )

  test('change with the next version, and anything not named stays [T14] [E4]', () => {
    const edited = editTask(
      aTask('todo'),
      { title: 'write half', owner: null, body: undefined },
      'eve',
      at.wall,
    )

    expect(wordsOf(edited)).toEqual({ ...words, title: 'write half', owner: null, notes: [] })
    expect(edited).toMatchObject({ version: 2, priority: 5, progress: null })
  })

  test('may change together with priority and progress, as one version; progress clears the crashes', () => {
    const held = aTask('in_progress', { crashes: 2 })

    const edited = editTask(held, { priority: 1, progress: { done: 3 }, note: 'half way' }, 'ada', at.wall)

    expect(edited).toMatchObject({ version: 2, priority: 1, progress: { done: 3 }, crashes: 0 })
    expect(wordsOf(edited).notes).toEqual([{ at: at.wall, by: 'ada', text: 'half way' }])
  })

  test('may keep the priority they had', () => {
    expect(editTask(aTask('todo'), { priority: 5 }, 'eve', at.wall)).toMatchObject({
      version: 2,
      priority: 5,
    })
  })

  test('show progress only while somebody works on it', () => {
    const refusal = refusalOf(() => editTask(aTask('todo'), { progress: 1 }, 'eve', at.wall))

    expect(refusal.code).toBe('ILLEGAL_MOVE')
  })

  test('keep the newest 50 notes', () => {
    let item = aTask('todo')
    for (let number = 0; number < 55; number++) item = noteTask(item, `note ${number}`, 'ada', at.wall)

    const { notes } = wordsOf(item)
    expect(notes).toHaveLength(50)
    expect([notes[0]?.text, notes.at(-1)?.text]).toEqual(['note 5', 'note 54'])
    expect(noteTask(item, undefined, 'ada', at.wall)).toBe(item)
  })

  test('name an owner that is not the holder [T1] [T20]', () => {
    const item = setOwner(aTask('in_progress'), 'zoe')

    expect([wordsOf(item).owner, item.agent]).toEqual(['zoe', 'ada'])
  })
})

describe('a change of a task', () => {
  const held = aTask('in_progress')

  test.each<[string, Item, object]>([
    ['a free one', aTask('todo'), {}],
    ['one in review', aTask('review'), {}],
    ['one whose lease lapsed', aTask('in_progress', { expiresAt: at.now - 1 }), {}],
    ['a held one with force', held, { force: true }],
    ['a held one with force, whatever token it had', held, { force: true, token: held.token - 1 }],
    ['a held one by its holder', held, { token: held.token }],
  ])('is allowed on %s [T14]', (_, item, request) => {
    expect(assertMayEdit(item, { agent: 'ada', token: undefined, ...request }, at)).toEqual({
      late: false,
    })
  })

  test.each([{ manualGraceMs: 1_000 }, { isDoubtful: true }])(
    'is refused on one whose lease lapsed but is spared: %o [S5-16]',
    (sparing) => {
      const spared = aTask('in_progress', { instance: null, expiresAt: at.now - 1 })
      const stranger = { agent: 'bob', token: undefined }

      const refusal = refusalOf(() => assertMayEdit(spared, stranger, { now: at.now, ...sparing }))

      expect(refusal).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
    },
  )

  test('by a holder whose lease lapsed is marked as late', () => {
    expect(assertMayEdit(held, { agent: 'ada', token: held.token }, later(30_001))).toEqual({ late: true })
  })

  test('is refused to another agent, naming the holder, and to a former holder [T14] [E4]', () => {
    const bob = { agent: 'bob', token: undefined }
    const stranger = refusalOf(() => assertMayEdit(held, bob, at))
    const nameless = refusalOf(() => assertMayEdit({ ...held, agent: null }, bob, at))
    const former = refusalOf(() => assertMayEdit(held, { agent: 'ada', token: held.token - 1 }, at))

    expect(stranger).toMatchObject({ code: 'HELD', facts: { holder: 'ada', expiresAt: held.expiresAt } })
    expect(nameless.facts.holder).toBe('an unknown agent')
    expect(former.code).toBe('LEASE_LOST')
  })
})

describe('a task is removed', () => {
  const held = aTask('in_progress')

  test.each([
    ['while it is free', aTask('todo'), {}, at],
    ['from its holder, by force', held, { force: true }, at],
    ['once its lease has lapsed', held, {}, later(30_001)],
  ])('%s [S5c-48]', (_, item, how, moment) => {
    expect(() => assertMayRemove(item, how, moment)).not.toThrow()
  })

  test('but not while it is held, nor while the clock is in doubt [S5c-48]', () => {
    const refused = refusalOf(() => assertMayRemove(held, {}, at))
    const doubtful = refusalOf(() => assertMayRemove(held, {}, { ...later(30_001), isDoubtful: true }))
    const nameless = refusalOf(() => assertMayRemove({ ...held, agent: null }, {}, at))

    expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
    expect(doubtful.code).toBe('HELD')
    expect(nameless.facts.holder).toBe('an unknown agent')
  })
})

describe('a claim of a task by name', () => {
  test('takes a free one [T3]', () => {
    const claim = claimTask(aTask('todo'), rules, bob, at)

    expect(claim).toMatchObject({
      outcome: 'claimed',
      renewed: false,
      reclaimed: null,
      after: { state: 'in_progress', agent: 'bob', expiresAt: at.now + 1000 },
    })
  })

  test('renews the caller’s own under the same token, bound or manual [T3] [E8]', () => {
    const bound = aTask('in_progress')
    const manual = aTask('in_progress', { agent: 'bob', instance: null })

    const again = claimTask(bound, rules, { ...ada, fromReview: false }, later(10))
    const byToken = claimTask(manual, rules, { ...bob, leaseMs: 60_000, token: manual.token }, later(10))

    expect(again).toMatchObject({ renewed: true, after: { token: bound.token, expiresAt: at.now + 30_010 } })
    expect(byToken).toMatchObject({ renewed: true, after: { token: manual.token, version: 1 } })
  })

  test.each([
    ['another agent', bob],
    ['another instance of the same name', { ...ada, instance: 'ada-2', fromReview: false }],
    ['the same name without a process', { ...ada, instance: null, fromReview: false }],
  ])('is refused as held by %s [T3]', (_, request) => {
    expect(claimTask(aTask('in_progress'), rules, request, at)).toMatchObject({
      outcome: 'held',
      item: { agent: 'ada' },
    })
  })

  test('finds it held to the last millisecond and free in the next [E6] [T3]', () => {
    const held = aTask('in_progress', { expiresAt: at.now })

    expect(claimTask(held, rules, bob, at).outcome).toBe('held')
    expect(claimTask(held, rules, bob, later(1))).toMatchObject({
      outcome: 'claimed',
      reclaimed: { before: { agent: 'ada' }, expiredForMs: 1 },
      after: { agent: 'bob', crashes: 1 },
    })
  })

  test('takes nothing over while the clock is in doubt [E6] [T3]', () => {
    const lapsed = aTask('in_progress', { expiresAt: at.now })

    expect(claimTask(lapsed, rules, bob, { ...later(1), isDoubtful: true }).outcome).toBe('held')
  })

  test('says what holds it back [T4]', () => {
    const blocked = claimTask(aTask('todo', { waitingFor: ['b'] }), rules, bob, at)
    const delayed = claimTask(aTask('todo', { runAt: at.wall + 1 }), rules, bob, at)
    const poisoned = claimTask(aTask('in_progress', { expiresAt: at.now - 1, crashes: 2 }), rules, bob, at)

    expect([blocked.outcome, delayed.outcome, poisoned.outcome]).toEqual([
      'blocked',
      'blocked',
      'quarantined',
    ])
    expect(poisoned).toMatchObject({ reclaimed: { before: { agent: 'ada' } } })
  })

  test('takes one out of review only when asked to, and never a done one [T2] [T3]', () => {
    const refused = refusalOf(() => claimTask(aTask('review'), rules, bob, at))
    const done = refusalOf(() => claimTask(aTask('done'), rules, { ...bob, fromReview: true }, at))
    const reopened = claimTask(aTask('review'), rules, { ...bob, fromReview: true }, at)

    expect([refused.code, done.code]).toEqual(['ILLEGAL_MOVE', 'ILLEGAL_MOVE'])
    expect(reopened).toMatchObject({ outcome: 'claimed', after: { state: 'in_progress', agent: 'bob' } })
  })
})

test('a new task is an ordinary item of its queue [T1]', () => {
  expect(newItem(task, storeWords(words))).toMatchObject({
    state: 'todo',
    phase: 'ready',
    data: { title: words.title },
  })
})
