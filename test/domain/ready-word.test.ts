/** The words that are kept for a ready task, and the lists that a filter asks for. */
import { describe, expect, test } from 'vitest'
import type { Item } from '../../src/domain/item.ts'
import { changedWords, listsOf, readyWords, wordValue } from '../../src/domain/ready-word.ts'

const task = {
  id: 't-1',
  queue: 'tasks',
  phase: 'ready',
  priority: 5,
  addedAt: 7,
  data: { labels: ['ui', 'ui', 'db', 3], owner: 'olga' },
} as unknown as Item

const shown = (words: ReturnType<typeof readyWords>) => words.map(({ field, value }) => `${field} ${value}`)

describe('the filter words of a ready task [S5e-8]', () => {
  test('are each distinct label, its owner and its host, with a value for none', () => {
    expect(shown(readyWords(task))).toEqual(['label "ui"', 'label "db"', 'owner "olga"', 'host null'])
    expect(readyWords(task)[0]).toMatchObject({ priority: 5, addedAt: 7, item: 't-1' })
  })

  test.each([
    ['what is not ready', { phase: 'held' }],
    ['what stands in another queue', { queue: 'jobs' }],
  ])('%s has none', (_, other) => {
    expect(readyWords({ ...task, ...other } as Item)).toEqual([])
    expect(readyWords(null)).toEqual([])
  })

  test('the name null differs from none, and a long one is cut', () => {
    expect(wordValue('null')).not.toBe(wordValue(null))
    expect(wordValue('x'.repeat(1_000))).toBe(wordValue('x'.repeat(300)))
  })
})

describe('when a task changes [S5e-8]', () => {
  test('only the words that differ are written', () => {
    const after = { ...task, data: { labels: ['db', 'api'], owner: 'olga' } } as unknown as Item
    const { gone, fresh } = changedWords(task, after)

    expect([shown(gone), shown(fresh)]).toEqual([['label "ui"'], ['label "api"']])
  })

  test('another priority moves all of them', () => {
    const { gone, fresh } = changedWords(task, { ...task, priority: 1 })

    expect([gone.length, fresh.length]).toEqual([4, 4])
  })

  test('a claim removes all of them, and nothing is written for other queues', () => {
    const held = { ...task, phase: 'held' } as Item
    const job = { ...task, queue: 'jobs' }

    expect(changedWords(task, held)).toMatchObject({ gone: { length: 4 }, fresh: [] })
    expect(changedWords(job, { ...job, phase: 'held' })).toEqual({ gone: [], fresh: [] })
  })
})

describe('the lists of a filter [S5e-8]', () => {
  test('are one per thing it asks for, usually short ones first', () => {
    const lists = listsOf({ labels: ['ui', 'ui', 'db'], owner: null, host: 'attic' })

    expect(lists).toEqual([
      { field: 'label', values: ['"ui"'] },
      { field: 'label', values: ['"db"'] },
      { field: 'owner', values: ['null'] },
      { field: 'host', values: ['"attic"'] },
    ])
  })

  test('somebody’s or nobody’s is one list of two values', () => {
    expect(listsOf({ ownerOrNone: 'olga', hostOrNone: 'attic' })).toEqual([
      { field: 'owner', values: ['null', '"olga"'] },
      { field: 'host', values: ['null', '"attic"'] },
    ])
    expect(listsOf({ hostOrNone: null })).toEqual([{ field: 'host', values: ['null'] }])
    expect(listsOf({})).toEqual([])
  })
})
