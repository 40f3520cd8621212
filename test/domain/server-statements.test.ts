/** What a batch sends to PostgreSQL: each statement itself says how it expects to find its rows. */
import { describe, expect, test } from 'vitest'
import { applying } from '../../src/engines/postgres/apply.ts'
import type { NetChange } from '../../src/engines/postgres/working-set.ts'
import { columnOf, schema, type TableName } from '../../src/engines/schema.ts'
import { itemIn, job, newItem } from './samples.ts'

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

test('a floor is raised to the maximum, not set to the decided value [S5b-1]', () => {
  const netChange: NetChange = { table: 'stateFloor', before: { version: 1 }, after: { version: 7 } }
  const [query] = applying('n', [netChange], [], [], { bucket: 0, wall: 0 })

  expect(query?.text).toContain('greatest(f.version, excluded.version)')
  expect(query?.values).toEqual(['n', 7])
})

describe('of items that change in one batch', () => {
  const long = 'x'.repeat(100_000)
  const written = (netChanges: readonly NetChange[]) =>
    applying('n', netChanges, [], [], { bucket: 0, wall: 0 }).map(({ values }) =>
      values.reduce<number>((sum, value) => sum + (value instanceof Buffer ? value.length : 0), 0),
    )

  test('a payload is sent only if it is new, however many others have long ones [S5c-8]', () => {
    const others = Array.from({ length: 20 }, (_, number): NetChange => {
      const words = { id: `other ${number}`, payload: long, data: { long } }
      const before = itemIn(job, 'running', words)
      return { table: 'item', before, after: itemIn(job, 'done', { ...words, version: 2 }) }
    })
    const before = newItem(job, { id: 'changed', payload: '1' })
    const changed: NetChange = { table: 'item', before, after: { ...before, payload: '2', version: 2 } }

    expect(Math.max(...written([changed, ...others]))).toBeLessThan(long.length)
    expect(Math.max(...written([...others, changed]))).toBeLessThan(long.length)
  })

  test('those that give up a key are written before those that may take it, whatever their length [S5c-8]', () => {
    const ids = ['long', 'short'].flatMap((size) => [`${size} opens`, `${size} closes`])
    const netChanges = ids.map((id): NetChange => {
      const before = itemIn(job, id.endsWith('opens') ? 'failed' : 'running', { id })
      const after = itemIn(job, id.endsWith('opens') ? 'pending' : 'done', { id })
      const payload = id.startsWith('long') ? '"new"' : before.payload
      return { table: 'item', before, after: { ...after, payload, version: 2 } }
    })

    const inOrder = applying('n', netChanges, [], [], { bucket: 0, wall: 0 })
      .filter(({ text }) => text.includes('update holdfast.item'))
      .flatMap(({ values }) => /(long|short) (opens|closes)/g[Symbol.match](String(values[2])) ?? [])

    expect(inOrder).toHaveLength(4)
    const lastClosing = inOrder.findLastIndex((id) => id.endsWith('closes'))
    const firstOpening = inOrder.findIndex((id) => id.endsWith('opens'))
    expect(lastClosing).toBeLessThan(firstOpening)
  })
})
