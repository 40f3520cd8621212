/** The table of error codes names the facts that the errors carry. */
import { expect, test } from 'vitest'
import { errorCodes } from '../../src/error-codes.ts'
import {
  AttemptsExhaustedError,
  closedError,
  DuplicateError,
  HeldError,
  type HoldfastError,
  IllegalMoveError,
  LeaseLostError,
  VersionMismatchError,
} from '../../src/errors.ts'

const subject = 'item i1'
const errors: HoldfastError[] = [
  new HeldError({ subject, holder: 'bob', expiresAt: 5 }),
  new DuplicateError({ field: 'key', value: 'k', existing: 'i1' }),
  new IllegalMoveError({ subject, from: 'done', to: 'pending' }, 'leave it'),
  new AttemptsExhaustedError({ subject, failures: 3, maxAttempts: 3 }),
  new VersionMismatchError({ subject, expected: 1, current: 2 }),
  new LeaseLostError({ subject, token: 1, currentToken: 2, reason: 'it was reclaimed', holder: null }),
]

test.each(errors)('the table lists the facts of $code', ({ code, facts }) => {
  expect(Object.keys(errorCodes[code].facts).sort()).toEqual(Object.keys(facts).sort())
})

test('the table includes the fact of a closed handle', () => {
  const { code, facts } = closedError('store.db')

  expect(Object.keys(errorCodes[code].facts)).toEqual(expect.arrayContaining(Object.keys(facts)))
})
