import { expect, test } from 'vitest'
import { envelopeOf, letterMarker, markerOf } from '../../src/domain/envelope.ts'
import { dangersIn, hostileTexts } from '../support/hostile-text.ts'
import { aThread, pigeonPost, toBob } from './message-samples.ts'
import { at } from './samples.ts'

const { message } = aThread(['bob'])
const bob = { ...pigeonPost('bob'), address: 'loft 3' }

test('attempts are marked: first, retry, escalation [A3] [A4]', () => {
  expect([markerOf(0, 1), markerOf(0, 3), markerOf(1, 1)]).toEqual([
    '[REQUIRES-ACK]',
    '[RETRY-2]',
    '[UNACKNOWLEDGED]',
  ])
})

test('a message whose answer is no longer awaited is marked as such [S5c-47]', () => {
  const given = toBob({ state: 'unanswered', attempts: 4, level: 0 })
  const told = toBob({ state: 'unanswered', attempts: 1, level: 1 })
  const marks = [
    letterMarker({ state: 'dead' }, given),
    letterMarker({ state: 'dead' }, told),
    letterMarker({ state: 'escalated' }, given),
    letterMarker({ state: 'escalated' }, told),
    letterMarker({ state: 'acked_late' }, given),
    letterMarker({ state: 'dead' }, { ...given, state: 'acked' }),
  ]

  expect(marks).toEqual(['[DEAD]', '[DEAD]', '[ESCALATED]', '[UNACKNOWLEDGED]', '[RETRY-3]', '[RETRY-3]'])
})

test('an address is given only to the adapter it was registered with [A13]', () => {
  const moved = { ...bob, adapter: 'raven', address: 'tower 1' }

  expect(envelopeOf(message, toBob(), bob, 2).address).toBe('loft 3')
  expect(envelopeOf(message, toBob(), moved, 2).address).toBeNull()
})

test('every attempt carries the id of the message and its own [A1] [A3]', () => {
  const envelope = envelopeOf(message, toBob(), bob, 2)

  expect(envelope).toMatchObject({
    id: 'm',
    attemptId: 'm.2',
    recipient: 'bob',
    address: 'loft 3',
    content: 'hello',
    escalation: null,
    text: '[RETRY-1] INFO from ada: hello',
  })
})

test('an escalation names who did not answer and after how many attempts [A4]', () => {
  const unanswered = [
    { recipient: 'bob', attempts: 1 },
    { recipient: 'eve', attempts: 4 },
  ]
  const escalated = { ...message, content: '{"a":1}', escalation: { at: at.wall, unanswered } }

  const envelope = envelopeOf(escalated, toBob({ level: 1 }), bob, 1)

  expect(envelope.escalation).toEqual({ at: at.wall, unanswered })
  expect(envelope.text).toBe(
    '[UNACKNOWLEDGED] INFO from ada, not answered by bob (1 attempt), eve (4 attempts): {"a":1}',
  )
})

test.each(Object.entries(hostileTexts))(
  'for people it is one clean line, also where a sender %s [S5d-12]',
  (_, text) => {
    const [plain, inJson] = [text, { [text]: text }].map((content) =>
      envelopeOf({ ...message, content: JSON.stringify(content) }, toBob(), bob, 1),
    )

    for (const line of [plain?.text, inJson?.text]) {
      expect(dangersIn(line as string)).toEqual([])
      expect(line).toMatch(/^\[REQUIRES-ACK\] INFO from ada: [^\n\r\t]+$/)
    }
    expect(plain?.content).toBe(text)
  },
)

test('line breaks from the sender become blanks, and a long text is cut [S5d-12]', () => {
  const said = (content: string) =>
    envelopeOf({ ...message, content: JSON.stringify(content) }, toBob(), bob, 1).text

  expect(said('one\n\n  two\tthree\u2028four')).toBe('[REQUIRES-ACK] INFO from ada: one two three four')
  expect(said('x'.repeat(5_000))).toHaveLength(1000)
})
