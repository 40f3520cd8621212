/** Messages whose rows were damaged. */
import { describe, expect, test } from 'vitest'
import { stopDelivery, strandDelivery } from '../../src/domain/delivery.ts'
import { envelopeOf } from '../../src/domain/envelope.ts'
import type { Message } from '../../src/domain/message.ts'
import { damageOf, endDamaged, escalationOf, policyOf, readContent } from '../../src/domain/message-damage.ts'
import { unregistered } from '../../src/domain/recipient.ts'
import { noPolicy } from '../../src/domain/redelivery-policy.ts'
import { aThread, toBob } from './message-samples.ts'
import { at } from './samples.ts'

const sound = aThread(['bob'], { ladder: [{ to: ['carol'], waitMs: 1 }] }).message
const withPolicy = (policy: unknown): Message => ({ ...sound, policy: policy as Message['policy'] })

test('an intact message has no damage', () => {
  expect(damageOf(sound)).toBeNull()
  expect(policyOf(sound)).toBe(sound.policy)
})

test.each([
  ['none', null],
  ['a word', 'damaged'],
  ['no delays', { ...sound.policy, delaysMs: 3 }],
  ['no ladder', { ...sound.policy, ladder: null }],
  ['a level of nobody', { ...sound.policy, ladder: [{ waitMs: 1 }] }],
  ['a level that is nothing', { ...sound.policy, ladder: [null] }],
  ['no last wait', { ...sound.policy, lastWaitMs: null }],
  ['no limit', { ...sound.policy, escalationsPerMinute: 'many' }],
])('a policy that is or has %s is damaged, and counts as none', (_, policy) => {
  expect(damageOf(withPolicy(policy))).toBe('its policy cannot be read')
  expect(policyOf(withPolicy(policy))).toBe(noPolicy)
})

test('a level may be everybody', () => {
  expect(damageOf(withPolicy({ ...sound.policy, ladder: [{ to: '*', waitMs: 1 }] }))).toBeNull()
})

test('content that is not JSON is damaged', () => {
  const message = { ...sound, content: '{no' }

  expect(damageOf(message)).toBe('its content cannot be read')
  expect(readContent(message)).toBeUndefined()
  expect(envelopeOf(message, toBob(), unregistered('bob'), 1).content).toBeNull()
})

describe('the record of an escalation', () => {
  const escalation = { at: 1, unanswered: [{ recipient: 'bob', attempts: 4 }] }

  test('is used while it can be read, else there is none', () => {
    expect(escalationOf(sound)).toBeNull()
    expect(escalationOf({ ...sound, escalation })).toBe(escalation)
    expect(escalationOf({ ...sound, escalation: 'x' as never })).toBeNull()
  })
})

test('a damaged message becomes a dead letter that says why, and its attempts end', () => {
  const thread = aThread(['bob'])

  const { message, deliveries } = endDamaged(thread, 'its policy cannot be read', at.wall)

  expect(message).toMatchObject({ state: 'dead', note: 'its policy cannot be read', closedAt: at.wall })
  expect(deliveries).toMatchObject([{ state: 'cancelled', nextDueAt: null, givesUpAt: null }])
})

test('a delivery set aside is no longer due, but looked at now', () => {
  const delivery = toBob({ nextDueAt: 5, givesUpAt: 500 })

  expect(stopDelivery(delivery, 'no', 100)).toMatchObject({
    nextDueAt: null,
    givesUpAt: 100,
    lastError: 'no',
    version: delivery.version + 1,
  })
})

test('a delivery whose message is gone is closed', () => {
  expect(strandDelivery(toBob(), at.wall)).toMatchObject({
    state: 'cancelled',
    lastError: 'its message is gone',
    closedAt: at.wall,
    nextDueAt: null,
    givesUpAt: null,
  })
})
