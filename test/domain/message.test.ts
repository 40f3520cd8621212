import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { acknowledge, askAgain, progress, refuse } from '../../src/domain/answer.ts'
import type { Delivery } from '../../src/domain/delivery.ts'
import { escalate, giveUp, shouldEscalate } from '../../src/domain/escalation.ts'
import {
  cancel,
  changeDeliveries,
  due,
  importMessage,
  putOff,
  redrive,
  type Thread,
} from '../../src/domain/message.ts'
import { unregistered } from '../../src/domain/recipient.ts'
import { aThread, freeze, pigeonPost } from './message-samples.ts'
import { at } from './samples.ts'

const everybody = ['ada', 'bob', 'eve'].map(unregistered)
const find = (to: readonly string[] | '*') => (to === '*' ? everybody : to.map(unregistered))
const states = ({ deliveries }: Thread) => deliveries.map(({ state }) => state)
const later = (ms: number) => ({ now: at.now + ms, wall: at.wall + ms })

/** Nobody answered in time. */
function exhausted(thread: Thread): Thread {
  return freeze(giveUp(thread, later(9e9)))
}

describe('a new message', () => {
  test('is in an inbox at once, and due at once for every other way [A2]', () => {
    const byInbox = aThread(['bob'])
    const byPigeon = aThread(['bob'], { by: pigeonPost })

    expect(byInbox.deliveries).toMatchObject([
      { id: 'm/0', state: 'sent', attempts: 1, nextDueAt: at.now + 30_000, version: 1 },
    ])
    expect(byPigeon.deliveries).toMatchObject([
      { state: 'queued', attempts: 0, nextDueAt: at.now, version: 1 },
    ])
  })

  test('is deferred when its sender, or its recipient, has a limit [A7]', () => {
    const firstAt = at.now + 5_000
    const limited = (name: string) => ({ ...unregistered(name), deliveriesPerMinute: 1 })

    expect(aThread(['bob'], { firstAt }).deliveries).toMatchObject([
      { state: 'queued', nextDueAt: firstAt, givesUpAt: firstAt + 330_000 },
    ])
    expect(aThread(['bob'], { by: limited }).deliveries).toMatchObject([
      { state: 'queued', nextDueAt: at.now },
    ])
  })

  test('from another program continues where it was [A15]', () => {
    const { message } = aThread(['bob'])
    const state = { attempts: 3, dueInMs: 50, note: 'gaps', sentAt: 77 }

    const imported = importMessage(message, unregistered('bob'), state, at)

    expect(imported.message).toMatchObject({ id: 'm', note: 'gaps', createdAt: 77, version: 1 })
    expect(imported.deliveries).toMatchObject([
      { state: 'sent', attempts: 3, nextDueAt: at.now + 50, sentAt: 77, version: 1 },
    ])
  })
})

describe('an acknowledgement', () => {
  test('of a recipient settles a message that needs no other [A6]', () => {
    const { outcome, thread } = acknowledge(aThread(['bob']), 'bob', 9)

    expect(outcome).toBe('acked')
    expect(thread.message).toMatchObject({ state: 'acked', closedAt: 9, version: 2 })
    expect(states(thread)).toEqual(['acked'])
  })

  test('by anyone else, a second one, and one of a cancelled message change nothing [A6]', () => {
    const thread = aThread(['bob', 'eve'])
    const acked = acknowledge(thread, 'bob', 9).thread
    const cancelled = cancel(thread, null, 9)

    expect(acknowledge(thread, 'mallory', 9)).toEqual({ outcome: 'not_recipient', thread })
    expect(acknowledge(acked, 'bob', 9)).toEqual({ outcome: 'already_acked', thread: acked })
    expect(acknowledge(cancelled, 'bob', 9)).toEqual({ outcome: 'cancelled', thread: cancelled })
  })

  test('that completes the quorum ends what is still running; a late one is recorded [A14]', () => {
    const first = acknowledge(aThread(['bob', 'eve', 'kim'], { quorum: 2 }), 'bob', 9).thread
    const second = acknowledge(first, 'kim', 9).thread
    const third = acknowledge(second, 'eve', 10)

    expect(first.message.state).toBe('pending')
    expect(states(second)).toEqual(['acked', 'cancelled', 'acked'])
    expect(third.outcome).toBe('acked')
    expect(third.thread.message).toBe(second.message)
    expect(states(third.thread)).toEqual(['acked', 'acked', 'acked'])
  })

  test('after escalation is late, from anyone it escalated to or from the recipient [A6] [S9]', () => {
    const escalated = escalate(exhausted(aThread(['bob'])), find, at)
    const dead = escalate(due(escalated, at.now), find, at)

    expect(acknowledge(escalated, 'eve', 9).thread.message.state).toBe('acked_late')
    expect(acknowledge(escalated, 'bob', 9).thread.message.state).toBe('acked_late')
    expect(dead.message.state).toBe('dead')
    expect(acknowledge(dead, 'bob', 9).thread.message).toMatchObject({ state: 'acked_late', closedAt: 9 })
    const late = acknowledge(acknowledge(escalated, 'eve', 9).thread, 'ada', 10).thread
    expect(late.message).toMatchObject({ state: 'acked_late', closedAt: 9 })
  })
})

describe('a refusal', () => {
  test('that puts the quorum out of reach makes the message due now [A6]', () => {
    const thread = refuse(aThread(['bob', 'eve']), 'bob', 'no', at)

    expect(thread.message.dueAt).toBe(at.now)
    expect(thread.deliveries).toMatchObject([{ state: 'refused', note: 'no' }, { state: 'sent' }])
    expect(shouldEscalate(thread, at.now)).toBe(true)
  })

  test('that leaves it within reach, or comes after escalation, changes no time of the message [A6] [A14]', () => {
    const any = refuse(aThread(['bob', 'eve'], { quorum: 1 }), 'bob', null, at)
    const escalated = escalate(exhausted(aThread(['bob'])), find, at)

    expect(any.message.dueAt).toBeNull()
    expect(shouldEscalate(any, at.now)).toBe(false)
    expect(refuse(escalated, 'eve', null, later(1)).message).toBe(escalated.message)
  })
})

test('another attempt is given only to the one that asks, and only while it is open [A6]', () => {
  const thread = aThread(['bob', 'eve'])

  const again = askAgain(thread, 'bob', { reason: 'garbled', nextAt: at.now + 7 })

  expect(again.deliveries[0]).toMatchObject({ nextDueAt: at.now + 7, note: 'garbled' })
  expect(again.deliveries[1]).toBe(thread.deliveries[1])
  const closed = acknowledge(thread, 'bob', 9).thread
  expect(askAgain(closed, 'bob', { reason: null, nextAt: 1 }).deliveries).toEqual(closed.deliveries)
})

test('progress buys time: for the delivery, and after escalation for the level [A6]', () => {
  const thread = aThread(['bob'])
  const escalated = escalate(exhausted(thread), find, at)
  const said = { note: 'half', extendMs: 600_000 }

  expect(progress(thread, 'bob', said, at)).toMatchObject({
    message: { dueAt: null },
    deliveries: [{ nextDueAt: at.now + 600_000, progressAt: at.wall }],
  })
  const inFlight = changeDeliveries(thread, (delivery) => ({ ...delivery, nextDueAt: null }))
  expect(progress(inFlight, 'bob', said, at).deliveries).toMatchObject([{ nextDueAt: at.now + 600_000 }])
  expect(progress(escalated, 'eve', said, at).message.dueAt).toBe(at.now + 600_000)
  expect(progress(escalated, 'kim', said, at).message).toBe(escalated.message)
})

test('progress takes no time away: not its own, and not what others of the level asked for [A6]', () => {
  const thread = aThread(['bob'])
  const escalated = escalate(exhausted(thread), find, at)
  const extended = progress(escalated, 'eve', { note: null, extendMs: 600_000 }, at)
  const said = { note: null, extendMs: 1_000 }

  expect(progress(thread, 'bob', said, at).deliveries).toMatchObject([
    { nextDueAt: at.now + 30_000, givesUpAt: at.now + 330_000 },
  ])
  expect(progress(extended, 'ada', said, at).message.dueAt).toBe(at.now + 600_000)
})

test('progress shortens no wait for an answer: not after the last attempt, and not while one is sent [A6]', () => {
  const long = { note: null, extendMs: 600_000 }
  const short = { note: null, extendMs: 1_000 }
  const tried = changeDeliveries(aThread(['bob']), (delivery) => ({
    ...delivery,
    attempts: 4,
    nextDueAt: null,
  }))
  const sending = changeDeliveries(aThread(['bob']), (delivery) => ({
    ...delivery,
    agent: 'courier',
    attempts: 2,
    nextDueAt: null,
  }))

  const twice = progress(progress(tried, 'bob', long, at), 'bob', short, at)

  expect(twice.deliveries).toMatchObject([{ nextDueAt: null, givesUpAt: at.now + 720_000 }])
  expect(progress(sending, 'bob', short, at).deliveries).toMatchObject([{ nextDueAt: at.now + 120_000 }])
})

test('a deferred message keeps its position, and a refusal in the meantime does not advance it [A5]', () => {
  const thread = putOff(exhausted(aThread(['bob', 'eve'])), at.now + 60_000)

  expect(thread.message).toMatchObject({ dueAt: at.now + 60_000, allowedAt: at.now + 60_000, version: 2 })
  expect(refuse(thread, 'bob', null, at).message).toBe(thread.message)
})

describe('escalation', () => {
  test('happens when those still asked cannot reach the quorum [A4] [A14]', () => {
    const thread = aThread(['bob', 'eve'])

    expect(shouldEscalate(thread, at.now)).toBe(false)
    expect(shouldEscalate(giveUp(thread, later(330_000 - 1)), at.now)).toBe(false)
    expect(shouldEscalate(exhausted(thread), at.now)).toBe(true)
  })

  test('goes to everybody, names who did not answer, and happens once per level [A4] [A5]', () => {
    const acked = acknowledge(aThread(['bob', 'eve']), 'eve', 9).thread

    const escalated = escalate(exhausted(acked), find, at)

    expect(escalated.message).toMatchObject({
      state: 'escalated',
      level: 1,
      dueAt: at.now + 120_000,
      escalation: { at: at.wall, unanswered: [{ recipient: 'bob', attempts: 1 }] },
    })
    expect(escalated.deliveries.slice(2)).toMatchObject([
      { id: 'm/2', recipient: 'ada', level: 1, state: 'queued', nextDueAt: at.now, givesUpAt: null },
      { id: 'm/3', recipient: 'bob', level: 1 },
      { id: 'm/4', recipient: 'eve', level: 1 },
    ])
    expect(shouldEscalate(escalated, at.now + 119_999)).toBe(false)
    expect(shouldEscalate(escalated, at.now + 120_000)).toBe(true)
    expect(shouldEscalate(due(escalated, null), at.now + 9e9)).toBe(false)
  })

  test('goes up the ladder and ends in a dead letter [A5]', () => {
    const ladder = [
      { to: ['eve'], waitMs: 1 },
      { to: ['kim'], waitMs: 2 },
    ]
    const first = escalate(exhausted(aThread(['bob'], { ladder })), find, at)
    const second = escalate(first, find, later(1))
    const dead = escalate(second, find, later(3))

    expect(second.message).toMatchObject({
      level: 2,
      dueAt: at.now + 3,
      escalation: first.message.escalation,
    })
    expect(dead.message).toMatchObject({ state: 'dead', dueAt: null, closedAt: at.wall + 3 })
    expect(states(dead)).toEqual(['unanswered', 'unanswered', 'unanswered'])
    expect(shouldEscalate(dead, at.now + 9e9)).toBe(false)
  })

  test('with nobody to escalate to is a dead letter at once [A5]', () => {
    const nobody = escalate(exhausted(aThread(['bob'])), () => [], at)

    expect(nobody.message.state).toBe('dead')
  })

  test('of a message that was never sent ends in a letter that says why [S5c-47]', () => {
    const ladder = [{ to: ['eve'], waitMs: 1 }]
    const die = (thread: Thread) => escalate(escalate(exhausted(thread), find, at), find, later(1))
    const unsent = die(aThread(['bob', 'kim'], { by: pigeonPost, ladder }))
    const lateInbox = escalate(exhausted(aThread(['bob'], { firstAt: at.now + 1, ladder: [] })), find, at)
    const tried = die(aThread(['bob'], { ladder }))
    const lost = aThread(['bob'], { by: pigeonPost, ladder: [] })
    const byCrash = { ...lost, deliveries: lost.deliveries.map((each) => ({ ...each, crashes: 1 })) }
    const aside = { ...lost, deliveries: lost.deliveries.map((each) => ({ ...each, lastError: 'torn' })) }
    const noted = { ...lost, message: { ...lost.message, note: 'imported' } }

    expect(unsent.message.note).toBe('it was never sent: no open process had the adapter "pigeon"')
    expect(unsent.deliveries.map(({ lastError }) => lastError)).toEqual([
      'it was never sent: no open process had the adapter "pigeon"',
      'it was never sent: no open process had the adapter "pigeon"',
      'it was never sent: no process was open to do so in time',
    ])
    expect(lateInbox.message.note).toBe('it was never sent: no process was open to do so in time')
    expect([tried.message.note, escalate(exhausted(byCrash), find, at).message.note]).toEqual([null, null])
    expect(escalate(exhausted(aside), find, at).deliveries).toMatchObject([{ lastError: 'torn' }])
    expect(escalate(exhausted(noted), find, at).message.note).toBe('imported')
  })
})

test('cancelling ends everything and keeps the reason; without one the old note stays [A11]', () => {
  const thread = aThread(['bob'])

  expect(cancel(thread, 'over', 9).message).toMatchObject({ state: 'cancelled', note: 'over', closedAt: 9 })
  const noted = { ...thread, message: { ...thread.message, note: 'imported' } }
  expect(cancel(noted, null, 9).message.note).toBe('imported')
})

test('a dead letter sent again asks those who did not answer, and nobody it escalated to [A5]', () => {
  const ladder = [{ to: ['kim'], waitMs: 1 }]
  const half = acknowledge(aThread(['bob', 'eve'], { ladder }), 'eve', 9).thread
  const dead = escalate(escalate(exhausted(half), find, at), find, later(1))

  const again = redrive(dead, null, at.now)

  expect(again.message).toMatchObject({
    state: 'pending',
    level: 0,
    dueAt: null,
    escalation: null,
    closedAt: null,
    note: null,
  })
  expect(states(again)).toEqual(['queued', 'acked', 'unanswered'])
  expect(redrive(dead, 'bob is back', at.now).message.note).toBe('bob is back')
})

const names = ['bob', 'eve', 'kim']
const step = fc.oneof(
  fc.record({
    do: fc.constantFrom('ack', 'refuse', 'again', 'progress'),
    by: fc.constantFrom('ada', ...names),
  }),
  fc.record({ do: fc.constant('pass'), ms: fc.integer({ min: 0, max: 200_000 }) }),
  fc.record({ do: fc.constant('settle') }),
)

test('in any history a message is open exactly while its state says so, versions only increase, and it ends [A1] [A17]', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 40 }), (quorum, steps) => {
      let ms = 0
      let thread = aThread(names, { quorum })
      for (const each of steps) {
        const now = later(ms)
        const before = thread
        if (each.do === 'pass') ms += 'ms' in each ? each.ms : 0
        else if (each.do === 'settle') thread = settle(thread, now)
        else thread = act(thread, each.do, 'by' in each ? each.by : '', now)
        check(before, thread)
      }
      for (let round = 0; round < 9; round++) thread = settle(thread, later(ms + (round + 1) * 4_000_000))
      expect(thread.message.closedAt).not.toBeNull()
    }),
  )
})

function act(thread: Thread, what: string, by: string, now: typeof at): Thread {
  if (what === 'ack') return acknowledge(thread, by, now.wall).thread
  if (what === 'refuse') return refuse(thread, by, null, now)
  if (what === 'again') return askAgain(thread, by, { reason: null, nextAt: now.now })
  return progress(thread, by, { note: null, extendMs: 1_000 }, now)
}

function settle(thread: Thread, now: typeof at): Thread {
  const given = giveUp(thread, now)
  return shouldEscalate(given, now.now) ? escalate(given, find, now) : given
}

function check(before: Thread, after: Thread): void {
  const { message, deliveries } = after
  expect(message.closedAt === null).toBe(message.state === 'pending' || message.state === 'escalated')
  expect(message.version).toBeGreaterThanOrEqual(before.message.version)
  if (message.closedAt !== null) expect(deliveries.every(({ closedAt }) => closedAt !== null)).toBe(true)
  for (const [index, delivery] of deliveries.entries()) {
    const isOpen = (['queued', 'sent', 'failed'] as Delivery['state'][]).includes(delivery.state)
    expect(delivery.closedAt === null).toBe(isOpen)
    expect(delivery.version).toBeGreaterThanOrEqual(before.deliveries[index]?.version ?? 0)
  }
  if (message.state === 'acked') {
    const acked = deliveries.filter(({ state, level }) => state === 'acked' && level === 0)
    expect(acked.length).toBeGreaterThanOrEqual(message.quorum)
  }
}
