import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { lossKinds } from '../../src/domain/crash-pattern.ts'

test.each(['sqlite', 'postgres'])(
  'the index for losses on %s has the kinds that queries ask for, in their order [S5e-2]',
  (engine) => {
    const migration = readFileSync(
      new URL(`../../src/engines/${engine}/migrations/0001_store.sql`, import.meta.url),
      'utf8',
    )

    const [, kinds = ''] = /create index event_loss .* where kind in \((.*)\);/.exec(migration) ?? []

    // Another list, or the same in another order, and the planner reads every event there is.
    expect(kinds).toBe(lossKinds.map((kind) => `'${kind}'`).join(', '))
  },
)
