/** Every time of every table is on one clock or the other, and is carried from store to store accordingly. */
import { describe, expect, test } from 'vitest'
import { translator } from '../../src/copy/translate.ts'
import { type Schema, schema, type TableName } from '../../src/engines/schema.ts'
import { type TransferRow, type TransferTable, transferTables } from '../../src/engines/transfer.ts'

/** Fields that look like a time, but whose table does not say which clock they are on. */
function unclassified({ fields, leaseTimes, wallTimes }: Schema): string[] {
  return fields
    .filter((field) => field === 'at' || /(?:At|Since|Until)$/.test(field))
    .filter((field) => !leaseTimes.includes(field) && !wallTimes.includes(field))
}

const tables = Object.entries(schema) as [TableName, Schema][]
const shiftMs = 5_000

describe('the tables', () => {
  test.each(tables)('say of every time of %s which clock it is on', (_, table) => {
    expect(unclassified(table)).toEqual([])
  })

  test.each(tables.filter(([, { fields }]) => fields.includes('expiresAt')))(
    'have the lease of %s on the lease clock',
    (_, { leaseTimes }) => {
      expect(leaseTimes).toEqual(expect.arrayContaining(['grantedAt', 'renewedAt', 'expiresAt']))
    },
  )

  test('a time that is only an integer is found', () => {
    const table = { fields: ['grantedAt', 'at', 'delayedSince'], leaseTimes: ['grantedAt'], wallTimes: [] }

    expect(unclassified(table as unknown as Schema)).toEqual(['at', 'delayedSince'])
  })
})

describe('a row that is copied to another store', () => {
  test('has its lease times on the new clock, and every other value unchanged', () => {
    const row = sample('delivery', { expiresAt: 100, nextDueAt: null, sentAt: 70, token: 9 })

    expect(carried('delivery', row)).toMatchObject({
      expiresAt: 100 + shiftMs,
      nextDueAt: null,
      sentAt: 70,
      token: 9,
    })
  })

  test('has every time shifted if a field holds several', () => {
    expect(carried('allowance', sample('allowance', { marks: '[1,2]', at: 2 }))).toMatchObject({
      marks: '[5001,5002]',
      at: 5_002,
    })
  })

  test('is described by its events and images as it is afterwards', () => {
    const event = sample('event', {
      subject: 'lock',
      change: '{"grantedAt":1,"acquiredAt":2,"name":"x"}',
      detail: '{"expiresAt":3,"reason":"y"}',
      at: 4,
    })
    const image = sample('image', { subject: 'message', image: '{"dueAt":1,"createdAt":2}' })

    expect(carried('event', event)).toMatchObject({
      change: '{"grantedAt":5001,"acquiredAt":2,"name":"x"}',
      detail: '{"expiresAt":5003,"reason":"y"}',
      at: 4,
    })
    expect(carried('image', image)).toMatchObject({ image: '{"dueAt":5001,"createdAt":2}' })
  })

  test('is copied unchanged if its JSON is damaged', () => {
    const damaged = sample('event', { subject: 'lock', change: '{not json', detail: '7' })

    expect(carried('event', damaged)).toMatchObject({ change: '{not json', detail: '7' })
  })
})

function tableOf(name: string): TransferTable {
  return transferTables.find((table) => table.name === name) as TransferTable
}

function sample(name: string, values: Record<string, string | number | null>): TransferRow {
  return tableOf(name).columns.map(({ field }) => values[field] ?? null)
}

function carried(name: string, row: TransferRow): Record<string, unknown> {
  const table = tableOf(name)
  const after = translator(table, shiftMs)(row)
  return Object.fromEntries(table.columns.map(({ field }, place) => [field, after[place]]))
}
