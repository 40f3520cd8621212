/** Code made for the rows of a table, and the loops that serve where none may be made. */
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type RowCode, rowCodeOf } from '../../src/engines/row-code.ts'

const fields = {
  all: [
    ['name', 'text'],
    ['slot', 'integer'],
    ['patterns', 'json'],
    ['renewedAt', 'integer'],
  ],
  asRead: [
    ['name', 'text'],
    ['slot', 'integer'],
  ],
  eventJson: [
    ['name', 'text'],
    ['slot', 'integer'],
    ['patterns', 'json'],
  ],
} as const

const write = {
  text: (value: string) => `"${value}"`,
  integer: (value: number) => value,
  json: (value: unknown) => JSON.stringify(value),
}
const row = { name: 'build', slot: 0, patterns: ['src/**'], renewedAt: 7 }
const bare = { name: 'build', slot: 0, patterns: null, renewedAt: 8 }
const isSame = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right)

function refusingCode(): RowCode {
  vi.stubGlobal('Function', () => {
    throw new EvalError('code generation from strings disallowed')
  })
  return rowCodeOf(fields)
}

afterEach(() => {
  vi.unstubAllGlobals()
})

describe.each([
  ['written out', () => rowCodeOf(fields)],
  ['in loops, where code may not be made from text', refusingCode],
])('a row %s', (_, make) => {
  test('is read from its values, JSON from its text', () => {
    const values = ['before', 'build', 0, '["src/**"]', 7]

    expect(make().read(values, 1, (text) => JSON.parse(text as string))).toEqual(row)
  })

  test('is written in the order of its fields, with null for what is not set', () => {
    const code = make()

    expect(code.values(row, write)).toEqual(['"build"', 0, '["src/**"]', 7])
    expect(code.values(bare, write)).toEqual(['"build"', 0, null, 8])
    expect(code.asRead(row, write)).toEqual(['"build"', 0])
  })

  test('is described by the fields that are set, without those that events omit', () => {
    const code = make()

    expect(JSON.parse(code.eventJson(row, write))).toEqual({ name: 'build', slot: 0, patterns: ['src/**'] })
    expect(code.eventJson(bare, write)).toBe('{"name":"build","slot":0}')
    expect(code.eventJson({ ...bare, name: null, slot: null }, write)).toBe('{}')
  })

  test('differs from another exactly in the fields that differ', () => {
    const code = make()

    expect(code.differing(row, bare, isSame)).toEqual([2, 3])
    expect(code.differing(row, { ...row, patterns: ['src/**'] }, isSame)).toEqual([])
  })
})
