import { describe, expect, test } from 'vitest'
import { crashPatterns, patternWindowMs, suspectAgents } from '../../src/domain/crash-pattern.ts'
import { at } from './samples.ts'

const lost = (agent: string, agoMs: number, id = 'i1') => ({ agent, at: at.wall - agoMs, id })

describe('a crash pattern', () => {
  test('is three losses of one agent within an hour', () => {
    const two = [lost('ada', 1), lost('ada', 2), lost('bob', 3)]

    expect(crashPatterns(two, at.wall)).toEqual([])
    expect(crashPatterns([...two, lost('ada', patternWindowMs, 'i2')], at.wall)).toEqual([
      {
        agent: 'ada',
        crashes: 3,
        firstAt: at.wall - patternWindowMs,
        lastAt: at.wall - 1,
        ids: ['i1', 'i2'],
      },
    ])
    expect(crashPatterns([...two, lost('ada', patternWindowMs + 1)], at.wall)).toEqual([])
  })

  test('of the worst agent comes first', () => {
    const losses = [...[1, 2, 3].map((ms) => lost('ada', ms)), ...[1, 2, 3, 4].map((ms) => lost('bob', ms))]

    expect(crashPatterns(losses, at.wall).map(({ agent }) => agent)).toEqual(['bob', 'ada'])
  })
})

describe('a worker', () => {
  const ends = (...crashed: boolean[]) => crashed.map((each) => ({ agent: 'ada', crashed: each }))

  test.each([
    { last: [true, true], suspect: false },
    { last: [true, true, true], suspect: true },
    { last: [true, true, true, false], suspect: true },
    { last: [false, true, true, true], suspect: false },
    { last: [true, true, false, true], suspect: false },
  ])('whose grants ended, newest first, as crashes $last: suspect $suspect', ({ last, suspect }) => {
    expect(suspectAgents(ends(...last))).toEqual(suspect ? ['ada'] : [])
  })

  test('is judged by its own grants only', () => {
    const mixed = [...ends(true, true), { agent: 'bob', crashed: true }, ...ends(true)]

    expect(suspectAgents(mixed)).toEqual(['ada'])
  })
})
