import { expect, test } from 'vitest'
import { assertMayReach, registerRecipient, unregistered } from '../../src/domain/recipient.ts'
import { refusalOf } from './samples.ts'

test('an agent that was never registered has an inbox and the usual limits [A7] [A13]', () => {
  expect(unregistered('ada')).toMatchObject({
    adapter: 'inbox',
    sendsPerMinute: 10,
    acksPerMinute: 100,
    deliveriesPerMinute: 0,
  })
})

test('registering creates version 1, a change the next, and no change none [A13]', () => {
  const first = registerRecipient(null, 'ada', { adapter: 'hook', address: 'a' }, 7)
  const changed = registerRecipient(first, 'ada', { address: null }, 9)

  expect(first).toMatchObject({ name: 'ada', adapter: 'hook', address: 'a', registeredAt: 7, version: 1 })
  expect(changed).toEqual({ ...first, address: null, version: 2 })
  expect(registerRecipient(changed, 'ada', { adapter: 'hook' }, 9)).toBeNull()
})

test('only a recipient changes its own adapter and address [S5d-12]', () => {
  const bob = { ...unregistered('bob'), adapter: 'hook', address: 'a' }
  const forbidden = { code: 'FORBIDDEN', facts: { agent: 'eve', recipient: 'bob' } }

  expect(refusalOf(() => assertMayReach('eve', bob, { adapter: 'inbox' }))).toMatchObject(forbidden)
  expect(refusalOf(() => assertMayReach('eve', bob, { address: null }))).toMatchObject(forbidden)
  for (const settings of [{ adapter: 'hook', address: 'a' }, { sendsPerMinute: 1 }, {}])
    expect(() => assertMayReach('eve', bob, settings)).not.toThrow()
  expect(() => assertMayReach('bob', bob, { adapter: 'inbox', address: null })).not.toThrow()
  expect(() => assertMayReach('eve', null, { adapter: 'hook' })).not.toThrow()
})
