/** Failures to heal are written to the store, whenever they are noted. */
import { expect, test } from 'vitest'
import type { Environment } from '../../src/environment.ts'
import { RecoveryFailures } from '../../src/runtime/caretaker/recovery-failures.ts'

test.each([0, 1, 2, 3, 4])('one noted %i turns after another is written too [S5-11]', async (turns) => {
  const failures = new RecoveryFailures({ now: () => 0 } as Environment, 'ada')
  const written: unknown[] = []
  failures.writeWith(async ({ queue }) => written.push(queue))
  await failures.flush()

  failures.note({ trigger: 'claim', queue: 'jobs', error: 'broken' })
  for (let turn = 0; turn < turns; turn++) await null
  failures.note({ trigger: 'claim', queue: 'letters', error: 'broken' })
  await new Promise((done) => setImmediate(done))

  expect(written).toEqual(['jobs', 'letters'])
  expect(failures.pending).toBe(0)
})
