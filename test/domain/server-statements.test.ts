/** What a batch sends to PostgreSQL: each statement itself says how it expects to find its rows. */
import { describe, expect, test } from 'vitest'
import { applying } from '../../src/engines/postgres/apply.ts'
import type { NetChange } from '../../src/engines/postgres/working-set.ts'
import { columnOf, schema, type TableName } from '../../src/engines/schema.ts'
import { job, newItem } from './samples.ts'

const tables = (Object.keys(schema) as TableName[]).filter((table) => table !== 'stateFloor')

/** `number` is in every field but the key. */
function rowOf(table: TableName, number: number): object {
  const { fields, kindOf, key } = schema[table]
  const valueIn = (field: string) => {
    const value = key.includes(field) ? 0 : number
    if (kindOf[field] === 'json') return [value]
    return kindOf[field] === 'integer' ? value : `text ${value}`
  }
  const row = Object.fromEntries(fields.map((field) => [field, valueIn(field)]))
  return table === 'item' ? newItem(job, { id: '0', priority: number }) : row
}

/** The statement a change is written by, without the lookup inside: a server that waited may not repeat that. */
function ownCondition(netChange: NetChange): string {
  const [{ text } = { text: '' }] = applying('n', [netChange], [], [], { bucket: 0, wall: 0 })
  return /\) found\nwhere (.*)$/m.exec(text)?.[1] ?? ''
}

describe.each(tables)('a row of %s', (table) => {
  const guards = schema[table].asRead.filter((field) => !schema[table].key.includes(field)).map(columnOf)

  test.each([
    ['changed', rowOf(table, 2)],
    ['removed', null],
  ])('is %s only as it was read, whatever was waited for meanwhile [S5b-1]', (_, after) => {
    const condition = ownCondition({ table, before: rowOf(table, 1), after })

    const expected = guards.map((guard) => ` and t.${guard} = v.old_${guard}`)
    expect(condition).toBe(`t.ctid = found.tid${expected.join('')}`)
  })
})

test('a floor is raised to the highest, not set to what was decided on [S5b-1]', () => {
  const netChange: NetChange = { table: 'stateFloor', before: { version: 1 }, after: { version: 7 } }
  const [query] = applying('n', [netChange], [], [], { bucket: 0, wall: 0 })

  expect(query?.text).toContain('greatest(f.version, excluded.version)')
  expect(query?.values).toEqual(['n', 7])
})
