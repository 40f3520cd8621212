import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { criticalPath, type Hinted, overlaps, waves } from '../../src/domain/task-hint.ts'

const hinted = (id: string, fields: Partial<Hinted> = {}): Hinted => ({
  id,
  inProgress: true,
  labels: [],
  paths: [],
  waitingFor: [],
  ...fields,
})

describe('an overlap [T19]', () => {
  test.each<[string, Partial<Hinted>, Partial<Hinted>, object | null]>([
    ['a task and one it waits for', { waitingFor: ['b'] }, {}, { because: 'dependency', shared: [] }],
    ['a task and one that waits for it', {}, { waitingFor: ['a'] }, { because: 'dependency', shared: [] }],
    [
      'the same file',
      { paths: ['src/a.ts'] },
      { paths: ['src/a.ts'] },
      { because: 'paths', shared: ['src/a.ts'] },
    ],
    [
      'a file in a folder',
      { paths: ['src/a.ts'] },
      { paths: ['src'] },
      { because: 'paths', shared: ['src/a.ts'] },
    ],
    [
      'a folder and a file in it',
      { paths: ['src/'] },
      { paths: ['src/a.ts'] },
      { because: 'paths', shared: ['src/'] },
    ],
    [
      'a folder whose name ends in two slashes, and a file in it',
      { paths: ['src//'] },
      { paths: ['src/a.ts'] },
      { because: 'paths', shared: ['src//'] },
    ],
    ['a name that only begins alike', { paths: ['src'] }, { paths: ['srcs/a.ts'] }, null],
    ['the same label', { labels: ['db', 'ui'] }, { labels: ['ui'] }, { because: 'labels', shared: ['ui'] }],
    ['nothing in common', { labels: ['db'] }, { labels: ['ui'] }, null],
    ['one nobody works on', { labels: ['ui'], inProgress: false }, { labels: ['ui'] }, null],
  ])('%s', (_, left, right, found) => {
    const expected = found === null ? [] : [{ tasks: ['a', 'b'], ...found }]

    expect(overlaps([hinted('a', left), hinted('b', right)])).toEqual(expected)
  })

  test('stops at a bound, however much overlaps', () => {
    const many = Array.from({ length: 100 }, (_, number) => hinted(`t${number}`, { labels: ['ui'] }))

    expect(overlaps(many)).toHaveLength(1000)
  })
})

describe('hints about many tasks [S5e-11]', () => {
  test('find the overlaps that comparing every pair would find', () => {
    const path = fc
      .tuple(fc.array(fc.constantFrom('a', 'b', ''), { minLength: 1, maxLength: 3 }), fc.boolean())
      .map(([parts, isFolder]) => parts.join('/') + (isFolder ? '/' : ''))
    const one = fc.record({
      inProgress: fc.boolean(),
      labels: fc.array(fc.constantFrom('db', 'ui'), { maxLength: 1 }),
      paths: fc.array(path, { maxLength: 2 }),
      waitingFor: fc.array(
        fc.nat(8).map((number) => `t${number}`),
        { maxLength: 1 },
      ),
    })
    fc.assert(
      fc.property(fc.array(one, { maxLength: 8 }), (drawn) => {
        const tasks = drawn.map((fields, index) => hinted(`t${index}`, fields))
        const pairs = tasks.flatMap((left, index) =>
          tasks.slice(index + 1).flatMap((right) => overlaps([left, right])),
        )

        const withThemselves = overlaps(tasks)

        expect(withThemselves).toEqual(pairs)
        for (const { because, shared } of withThemselves)
          expect(because === 'dependency' || shared.length > 0).toBe(true)
      }),
    )
  })

  test('look at each task a few times, not once per other task', () => {
    let looks = 0
    const watched = (index: number): Hinted => ({
      ...hinted(`t${index}`, { labels: [`l${index}`], paths: [`src/m${index}/a.ts`] }),
      get waitingFor() {
        looks++
        return index === 0 ? [] : [`t${index - 1}`]
      },
    })
    const chain = Array.from({ length: 2_000 }, (_, index) => watched(index))

    const found = [overlaps(chain).length, waves(chain).length, criticalPath(chain).length]

    expect(found).toEqual([1_000, 2_000, 2_000])
    expect(looks).toBeLessThan(10 * chain.length)
  })
})

describe('parallel groups and the critical path [T19]', () => {
  const diamond = [
    hinted('d', { waitingFor: ['b', 'c'] }),
    hinted('b', { waitingFor: ['a'] }),
    hinted('c', { waitingFor: ['a', 'elsewhere'] }),
    hinted('a'),
    hinted('alone'),
  ]

  test('are the levels of the dependencies, and the longest chain through them', () => {
    expect(waves(diamond)).toEqual([['a', 'alone'], ['b', 'c'], ['d']])
    expect(criticalPath(diamond)).toEqual(['a', 'b', 'd'])
    expect([waves([]), criticalPath([])]).toEqual([[], []])
  })

  test('end even if a damaged store has a cycle', () => {
    const circle = [hinted('a', { waitingFor: ['b'] }), hinted('b', { waitingFor: ['a'] }), hinted('c')]

    expect(waves(circle)).toEqual([['c']])
  })

  test('place each task after everything it waits for, and a path has as many tasks as there are groups', () => {
    const graph = fc.array(fc.array(fc.nat(30), { maxLength: 4 }), { maxLength: 30 }).map((edges) =>
      edges.map((targets, index) =>
        hinted(`t${index}`, {
          waitingFor: [...new Set(targets.filter((to) => to < index).map((to) => `t${to}`))],
        }),
      ),
    )
    fc.assert(
      fc.property(graph, (tasks) => {
        const levels = waves(tasks)
        const levelOf = new Map(levels.flatMap((ids, level) => ids.map((id) => [id, level])))

        expect(levels.flat().sort()).toEqual(tasks.map(({ id }) => id).sort())
        for (const { id, waitingFor } of tasks)
          for (const before of waitingFor) expect(levelOf.get(before)).toBeLessThan(levelOf.get(id) as number)
        expect(criticalPath(tasks)).toHaveLength(levels.length)
      }),
    )
  })
})
