/** What the types of errors say. tsc checks this file; only the last test carries anything out. */
import {
  type ErrorCode,
  type ErrorFacts,
  HeldError,
  HoldfastError,
  type HoldfastErrorOf,
  InvalidError,
  isHoldfastError,
  isVersionMismatchError,
  VersionMismatchError,
} from 'holdfast'
import { expect, expectTypeOf, test } from 'vitest'

test('the facts of an error are typed by its code [S6-F3]', () => {
  const read = (error: unknown) => {
    if (!isHoldfastError(error)) return
    expectTypeOf(error).toExtend<HoldfastError>()
    if (error.code === 'HELD') expectTypeOf(error.facts.holder).toEqualTypeOf<string>()
    if (error.code === 'DUPLICATE') expectTypeOf(error.facts.existing).toEqualTypeOf<string>()
    if (error.code === 'LEASE_LOST') expectTypeOf(error.facts.currentToken).toEqualTypeOf<number | null>()
    if (error.code === 'STORE_UNAVAILABLE')
      expectTypeOf(error.facts.inDoubt).toEqualTypeOf<boolean | undefined>()
    // @ts-expect-error HELD has no such fact
    if (error.code === 'HELD') error.facts.owner
    // @ts-expect-error which facts there are depends on the code
    error.facts.holder
    if (isVersionMismatchError(error)) expectTypeOf(error.facts.current).toEqualTypeOf<number>()
    if (error instanceof HeldError) expectTypeOf(error.facts).toEqualTypeOf<ErrorFacts['HELD']>()
  }

  expectTypeOf(read).toBeFunction()
  expectTypeOf<keyof ErrorFacts>().toEqualTypeOf<ErrorCode>()
  expectTypeOf<HoldfastErrorOf<'HELD'>['facts']>().toEqualTypeOf<ErrorFacts['HELD']>()
})

test('an error cannot be created without the facts of its code [S6-F3]', () => {
  const make = () => [
    new HoldfastError('BUSY', { what: 'a', next: 'b' }),
    new HoldfastError('IDEMPOTENCY_MISMATCH', { what: 'a', next: 'b', facts: { key: 'k', operation: 'o' } }),
    // @ts-expect-error who holds it is missing
    new HoldfastError('HELD', { what: 'a', next: 'b' }),
    // @ts-expect-error the facts of another code
    new HoldfastError('DUPLICATE', { what: 'a', next: 'b', facts: { holder: 'h' } }),
    // @ts-expect-error a fact of another type
    new InvalidError({ what: 'a', next: 'b', facts: { unknown: 'x' } }),
  ]

  expectTypeOf(make).toBeFunction()
})

test('only an error of this family counts, and only the mismatch itself is one [S6-F3]', () => {
  const mismatch = new VersionMismatchError({ subject: 'item 1', expected: 1, current: 2 })
  const caused = new HoldfastError('BUSY', { what: 'it failed', next: 'wait', cause: mismatch })
  const commits = new HoldfastError('VERSION_MISMATCH', {
    what: 'the branch has moved',
    next: 'read it again',
    facts: { ref: 'main', expected: 'a', current: 'b' },
  })
  const foreign = Object.assign(new Error('busy'), { code: 'BUSY' })

  expect([mismatch, caused, commits, foreign].map(isVersionMismatchError)).toEqual([
    true,
    false,
    false,
    false,
  ])
  expect([mismatch, caused, commits, foreign].map(isHoldfastError)).toEqual([true, true, true, false])
})
