import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { assertName, isName, nearestName, nearestNames } from '../../src/domain/name.ts'
import { refusalOf } from './samples.ts'

describe('names', () => {
  test.each([
    'a',
    '_private',
    '7',
    'feature/login-2',
    'queue:press',
    'ada@host+1#2=3,4~5',
    'two words',
    'Straße',
    '東京',
    'v1.2.3',
    'a'.repeat(200),
  ])('%s is usable', (text) => {
    expect(isName(text)).toBe(true)
    expect(() => assertName('queue', text)).not.toThrow()
  })

  test.each([null, undefined, 7, {}])('%s is not a name', (given) => {
    expect(isName(given)).toBe(false)
    expect(refusalOf(() => assertName('queue', given))).toMatchObject({ code: 'INVALID' })
  })

  test.each([
    ['nothing at all', ''],
    ['only a space', ' '],
    ['a leading space', ' a'],
    ['a trailing space', 'a '],
    ['a leading dash, which a command line takes for an option', '-rf'],
    ['a leading dot, which hides a file', '.git'],
    ['a leading slash, which leaves its folder', '/etc/passwd'],
    ['a climb out of its folder', 'a/../b'],
    ['two dots anywhere', 'a..b'],
    ['a backslash', 'a\\b'],
    ['a quote', "a' or '1'='1"],
    ['a double quote', 'a"b'],
    ['a semicolon', 'a;drop table item'],
    ['a shell substitution', '$(reboot)'],
    ['a backquote', 'a`b`'],
    ['a percent sign, as in an encoded path', 'a%2e%2e'],
    ['an angle bracket', '<script>'],
    ['a line break inside', 'a\nb'],
    ['a line break at the end', 'a\n'],
    ['a carriage return', 'a\rb'],
    ['a tab', 'a\tb'],
    ['a null character', 'a\u0000'],
    ['an escape sequence of a terminal', '\u001b[31mred'],
    ['a character that turns the reading direction', 'a\u202eb'],
    ['a character that cannot be seen', 'a\u200bb'],
    ['a space that only looks like one', 'a\u00a0b'],
    ['a mark that joins the letter before it', 'e\u0301'],
    ['half of a surrogate pair', 'a\ud83d'],
    ['an emoji', 'a🙂'],
    ['a filler that counts as a letter and cannot be seen [S5d-11]', 'alice\u3164'],
    ['the same in half width', 'alice\uffa0'],
    ['the same at the beginning, of old Hangul', '\u115fa'],
    ['201 characters', 'a'.repeat(201)],
  ])('%s is refused', (_, text) => {
    const refusal = refusalOf(() => assertName('queue', text))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { queue: text } })
    expect(isName(text)).toBe(false)
  })

  test('no accepted name can break a line, climb a folder or start an option', () => {
    const hostile = fc.string({ unit: fc.constantFrom(...'ab./\\-_ \n\r\t\0"\'$`%;:é'), maxLength: 12 })
    fc.assert(
      fc.property(hostile, (text) => {
        fc.pre(isName(text))

        const forbidden = [...'\n\r\t\0\\"\'$`%;'].filter((character) => text.includes(character))

        expect(forbidden).toEqual([])
        expect(text).not.toMatch(/\.\.|^[-./ ]| $/)
      }),
    )
  })

  test('a refusal shows the beginning of a very long name, not all of it', () => {
    const refusal = refusalOf(() => assertName('lock', 'x'.repeat(100_000)))

    expect(refusal.message.length).toBeLessThan(400)
    expect(refusal.message).toContain('is not a usable lock')
  })

  test('a refusal shows control characters escaped, so that they cannot act on a terminal', () => {
    const refusal = refusalOf(() => assertName('agent', '\u001b[2J'))

    expect(refusal.message).toContain('\\u001b[2J')
    expect(refusal.message).not.toContain('\u001b')
  })
})

describe('the nearest known name', () => {
  const states = ['pending', 'running', 'failed', 'done', 'cancelled']

  test.each([
    ['runing', 'running'],
    ['RUNNING', 'running'],
    ['canceled', 'cancelled'],
    ['dnoe', 'done'],
    ['pending', 'pending'],
    ['donexy', 'done'],
    ['canc', 'cancelled'],
  ])('%s was meant as %s', (typed, meant) => {
    expect(nearestName(typed, states)).toBe(meant)
  })

  test.each(['', 'xyz', 'runnxyz', 'completely different'])('nothing is suggested for "%s"', (typed) => {
    expect(nearestName(typed, states)).toBeNull()
  })

  test.each([
    ['waitms', 'waitMs'],
    ['wait', 'waitMs'],
    ['prio', 'priority'],
    ['lease', 'leaseMs'],
    ['LIM', 'limit'],
  ])('%s, of several that are near, was meant as %s [S5-21]', (typed, meant) => {
    const known = ['leaseMs', 'limit', 'maxPriority', 'priority', 'priorityOf', 'token', 'waitMs']

    expect(nearestName(typed, known)).toBe(meant)
  })

  test('of several names with that beginning, the shortest is suggested', () => {
    expect(nearestName('max', ['maxAttempts', 'maxAge', 'maxCrashes'])).toBe('maxAge')
  })

  test('two letters are too short a beginning', () => {
    expect(nearestName('pr', ['priority'])).toBeNull()
  })

  test('up to a third of a long name may be wrong', () => {
    const known = ['failed_retryable']

    const nearest = ['failed_retryXXXXX', 'failed_retXXXXXX'].map((typed) => nearestName(typed, known))

    expect(nearest).toEqual(['failed_retryable', null])
  })

  test('of two equally near names, the first known one is suggested', () => {
    expect(nearestName('cat', ['bat', 'hat'])).toBe('bat')
  })

  test('a known name is always nearest to itself', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1 }), fc.nat(), (known, pick) => {
        const typed = known[pick % known.length] as string

        const nearest = nearestName(typed, known)

        expect(nearest?.toLowerCase()).toBe(typed.toLowerCase())
      }),
    )
  })
})

test('the nearest names come nearest first, then by name, and never more than requested [A13]', () => {
  expect(nearestNames('bbo', ['dave', 'Bob', 'carol', 'bo'], 2)).toEqual(['bo', 'Bob'])
  expect(nearestNames('x', ['b', 'a', 'c'], 3)).toEqual(['a', 'b', 'c'])
  expect(nearestNames('x', [], 3)).toEqual([])
})

test('the nearest of very many long names is found in bounded time [S5d-17]', () => {
  const known = Array.from({ length: 20_000 }, (_, number) => `${'x'.repeat(190)}${number}`)

  const before = process.cpuUsage()
  const nearest = nearestNames('worker-1', [...known, 'worker-2'], 3)
  nearestName('y'.repeat(195), known)

  expect(nearest[0]).toBe('worker-2')
  // Every name to its end took 2.8 s of processor time; by the clock, a busy machine would fail it.
  expect(process.cpuUsage(before).user / 1000).toBeLessThan(1_000)
})
