/** What people see of an answer when its verb says little or nothing about it. */
import { expect, test } from 'vitest'
import * as z from 'zod'
import { drawAnswer } from '../../src/cli/answer.ts'
import { drawn } from '../../src/cli/drawing.ts'
import type { Verb } from '../../src/cli/verb.ts'
import { viewFor } from '../../src/cli/view.ts'
import type { AnyOperation } from '../../src/operations/operation.ts'

const view = viewFor({ hasColors: false, hasTalkColors: false, columns: null, rows: null } as never, 0)

function shown(verb: Partial<Verb>, output: z.ZodType, answer: unknown, input = z.object({})): string {
  const operation = { input, output } as unknown as AnyOperation
  return drawn(drawAnswer(verb as Verb, operation, answer, { view, input: { ref: 'T-1' } }))
}

const entry = z.object({
  name: z.string(),
  savedAt: z.number(),
  leaseMs: z.number().nullable(),
  labels: z.array(z.string()),
  value: z.unknown(),
})
const saved = { name: 'a', savedAt: 0, leaseMs: 2000, labels: ['x', 'y'], value: { max: 5 } }

test('an object that no row describes is shown whole, each field as its schema says [S6-4]', () => {
  expect(shown({}, entry, saved)).toBe(
    [
      'name      a',
      'saved at  1970-01-01T00:00:00Z',
      'lease     2s',
      'labels    x, y',
      'value     {"max":5}',
    ].join('\n'),
  )
})

test('a page is a table of the columns its row names, and says how to get the next [S6-4]', () => {
  const page = z.object({ entries: z.array(entry), next: z.string().nullable() })
  const verb = { columns: ['name', ['saved', 'savedAt']] } as unknown as Partial<Verb>

  expect(shown(verb, page, { entries: [saved], next: 'a b' })).toBe(
    "name  saved\na     1970-01-01T00:00:00Z\nmore: --after 'a b'",
  )
  expect(shown(verb, page, { entries: [saved], next: 'a' }, z.object({ before: z.string() }))).toContain(
    'more: --before a',
  )
  expect(shown(verb, page, { entries: [], next: null })).toBe('(none)')
})

test('true and false become sentences that use the command’s words [S6-4]', () => {
  const says = { yes: 'removed <ref>', no: 'there is no task "<ref>"' }

  expect(shown({ says }, z.boolean(), true)).toBe('removed T-1')
  expect(shown({ says }, z.boolean(), false)).toBe('there is no task "T-1"')
  expect(shown({}, z.boolean(), false)).toBe('no')
})
