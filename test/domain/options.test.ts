/** Options of `open` whose default depends on where the store is. */
import { expect, test } from 'vitest'
import { parseOptions } from '../../src/options.ts'

test('leases and patience outlast a usual failover where one can happen [S5b-16]', () => {
  expect(parseOptions({}, 'postgres')).toMatchObject({ leaseMs: 60_000, patienceMs: 35_000 })
  expect(parseOptions({}, 'sqlite')).toMatchObject({ leaseMs: 30_000, patienceMs: 20_000 })
})

test('a given value overrides either default', () => {
  const given = { leaseMs: 5_000, patienceMs: 0 }

  expect(parseOptions(given, 'postgres')).toMatchObject(given)
  expect(parseOptions(given, 'sqlite')).toMatchObject(given)
})
