import { describe, expect, test } from 'vitest'
import {
  claimDelivery,
  closeDelivery,
  countAttempt,
  deferDelivery,
  hasAllowance,
  hasGivenUp,
  isOpen,
  markRead,
  postpone,
  reclaimDelivery,
  recordAttempt,
  restartDelivery,
} from '../../src/domain/delivery.ts'
import { recoverDelivery } from '../../src/domain/recovery.ts'
import { makePolicy } from '../../src/domain/redelivery-policy.ts'
import { toBob } from './message-samples.ts'
import { ada, at, refusalOf } from './samples.ts'

const policy = makePolicy({})
const sent = { outcome: 'sent' } as const
const failed = { outcome: 'failed', error: 'gone' } as const
const claimed = Object.freeze(claimDelivery(toBob(), ada, 1_000, at.now))
const own = { agent: 'ada', token: claimed.token }

describe('a claim', () => {
  test('is a lease with a token, and meanwhile the delivery is not due for others [A8] [X1]', () => {
    expect(claimed).toMatchObject({
      agent: 'ada',
      instance: 'ada-1',
      token: at.now * 1000,
      expiresAt: at.now + 1_000,
      nextDueAt: null,
      attempts: 0,
      version: 2,
    })
  })

  test('has a larger token each time [A8]', () => {
    const again = claimDelivery(reclaimDelivery(claimed, at.now), ada, 1_000, at.now)

    expect(again.token).toBe(claimed.token + 1)
  })
})

describe('the record of an attempt', () => {
  test('counts it and sets the next [A3] [A8]', () => {
    const after = recordAttempt(claimed, own, policy, sent, at)

    expect(after).toMatchObject({
      state: 'sent',
      attempts: 1,
      agent: null,
      expiresAt: null,
      nextDueAt: at.now + 30_000,
      sentAt: at.wall,
      lastError: null,
      token: claimed.token,
    })
  })

  test('that failed keeps the reason and the time of the last one that succeeded [A13]', () => {
    const after = recordAttempt({ ...claimed, sentAt: 3 }, own, policy, failed, at)

    expect(after).toMatchObject({ state: 'failed', attempts: 1, sentAt: 3, lastError: 'gone' })
  })

  test('that was not made releases the claim [A8]', () => {
    const after = recordAttempt(claimed, own, policy, { outcome: 'released' }, at)

    expect(after).toMatchObject({ attempts: 0, agent: null, nextDueAt: at.now })
  })

  test('by another agent that names the token is refused, naming the holder [S5-15]', () => {
    const refusal = refusalOf(() => recordAttempt(claimed, { ...own, agent: 'bob' }, policy, sent, at))

    expect(refusal).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
  })

  test('under another token, or after an answer, is refused [A9]', () => {
    const record = (delivery: typeof claimed, token: number) =>
      refusalOf(() => recordAttempt(delivery, { agent: 'ada', token }, policy, sent, at))

    expect(record(claimed, claimed.token - 1)).toMatchObject({ code: 'LEASE_LOST' })
    expect(record(closeDelivery(claimed, 'acked', { wall: 1 }), claimed.token)).toMatchObject({
      code: 'LEASE_LOST',
      facts: { reason: 'it is acked' },
    })
    expect(record(reclaimDelivery(claimed, at.now), claimed.token)).toMatchObject({
      facts: { reason: 'it was reclaimed or answered' },
    })
  })

  test('after the last attempt leaves only the last wait [A4] [S6]', () => {
    const after = countAttempt(toBob({ attempts: 3 }), policy, sent, at)

    expect(after).toMatchObject({ attempts: 4, nextDueAt: null, givesUpAt: at.now + 120_000 })
  })

  test('of an escalation ends with the first that arrived [A5]', () => {
    const told = toBob({ level: 1, givesUpAt: null })

    expect(countAttempt(told, policy, sent, at)).toMatchObject({ nextDueAt: null, givesUpAt: null })
    expect(countAttempt(told, policy, failed, at)).toMatchObject({
      nextDueAt: at.now + 30_000,
      givesUpAt: null,
    })
  })
})

describe('recovery of a delivery', () => {
  test('counts nothing against one whose sender ended cleanly', () => {
    const ended = new Map([['ada-1', { evidence: 'it has ended', isReboot: false, hasEnded: true }]])

    expect(recoverDelivery(claimed, ended, at.now)?.after).toMatchObject({ crashes: 0, nextDueAt: at.now })
  })

  test('takes what lapsed, or what a dead process held, and makes the same attempt due again [A8] [X1]', () => {
    const lapsed = recoverDelivery(claimed, new Map(), at.now + 1_001)
    const orphan = recoverDelivery(
      claimed,
      new Map([['ada-1', { evidence: 'process 7 is gone', isReboot: false }]]),
      at.now,
    )

    expect(lapsed).toMatchObject({
      evidence: 'its lease lapsed 1 ms ago',
      expiredForMs: 1,
      after: { agent: null, attempts: 0, crashes: 1, nextDueAt: at.now + 1_001 },
    })
    expect(orphan).toMatchObject({ evidence: 'process 7 is gone', expiredForMs: 0 })
  })

  test('leaves alone what live processes hold and what nobody holds [A8]', () => {
    expect(recoverDelivery(claimed, new Map(), at.now + 1_000)).toBeNull()
    expect(recoverDelivery(toBob(), new Map(), at.now + 9e9)).toBeNull()
  })
})

test('a deferred delivery is due later, and so is the end of its wait, if it has one [A5] [A7]', () => {
  const later = at.now + 60_000

  const deferred = deferDelivery(toBob(), later)
  expect(deferred).toMatchObject({
    nextDueAt: later,
    givesUpAt: at.now + 330_000 + 60_000,
  })
  expect(deferDelivery(toBob({ givesUpAt: null, nextDueAt: null }), later)).toMatchObject({
    nextDueAt: later,
    givesUpAt: null,
  })
  expect(hasAllowance(deferred, deferred.nextDueAt)).toBe(true)
  expect(hasAllowance(deferred, later + 1)).toBe(false)
  expect(hasAllowance(toBob({ nextDueAt: null }), null)).toBe(false)
  expect(claimDelivery(deferred, ada, 1, later).allowedAt).toBeNull()
})

describe('postponing', () => {
  const until = { nextAt: at.now + 500, note: 'soon', progressAt: 9 }

  test('moves the next attempt and everything after it, and ends a running retry [A6] [A9]', () => {
    const after = postpone({ ...claimed, attempts: 2 }, policy, until)

    expect(after).toMatchObject({
      agent: null,
      nextDueAt: at.now + 500,
      givesUpAt: at.now + 500 + 120_000 + 120_000,
      progressAt: 9,
      note: 'soon',
    })
  })

  test('after the last attempt moves the end only [A6]', () => {
    const after = postpone(toBob({ attempts: 4, note: 'old', progressAt: 1 }), policy, {
      nextAt: at.now + 500,
      note: null,
      progressAt: null,
    })

    expect(after).toMatchObject({ nextDueAt: null, givesUpAt: at.now + 120_500, note: 'old', progressAt: 1 })
  })

  test('by an agent it escalated to affects the level [A5]', () => {
    expect(postpone(toBob({ level: 1 }), policy, until)).toMatchObject({ nextDueAt: null, givesUpAt: null })
  })
})

test('closing ends the lease and all times; only an acknowledgement counts as one [A6]', () => {
  const acked = closeDelivery(claimed, 'acked', { wall: 5 })
  const refused = closeDelivery(claimed, 'refused', { wall: 5, note: 'no' })

  expect(acked).toMatchObject({ state: 'acked', ackedAt: 5, closedAt: 5, agent: null, givesUpAt: null })
  expect(refused).toMatchObject({ state: 'refused', ackedAt: null, note: 'no' })
  expect([isOpen(claimed), isOpen(acked)]).toEqual([true, false])
})

test('a delivery has given up when its wait has ended and no process is sending it [A4]', () => {
  const due = toBob({ givesUpAt: at.now })

  expect(hasGivenUp(due, at.now)).toBe(true)
  expect(hasGivenUp(due, at.now - 1)).toBe(false)
  expect(hasGivenUp({ ...claimed, givesUpAt: at.now }, at.now)).toBe(false)
  expect(hasGivenUp(toBob({ givesUpAt: null }), at.now)).toBe(false)
})

test('reading and restarting are separate changes [A11] [A5]', () => {
  const read = markRead(toBob(), 4)
  const again = restartDelivery(
    { ...closeDelivery(read, 'unanswered', { wall: 1 }), attempts: 4 },
    policy,
    at.now,
  )

  expect(read).toMatchObject({ readAt: 4, version: 2 })
  expect(again).toMatchObject({
    state: 'queued',
    attempts: 0,
    closedAt: null,
    nextDueAt: at.now,
    givesUpAt: at.now + 330_000,
    version: 4,
  })
})
