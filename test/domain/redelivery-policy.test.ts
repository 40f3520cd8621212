import { expect, test } from 'vitest'
import { isBroadcast, makePolicy, schedule } from '../../src/domain/redelivery-policy.ts'

test('the default policy: 30, 60, 120 s, the last wait again, then everybody [A3] [A4]', () => {
  expect(makePolicy({})).toEqual({
    delaysMs: [30_000, 60_000, 120_000],
    lastWaitMs: 120_000,
    ladder: [{ to: '*', waitMs: 120_000 }],
    escalationsPerMinute: 5,
  })
})

test('each part can be set [A2] [A4]', () => {
  const ladder = [{ to: ['lead'], waitMs: 9 }]

  expect(makePolicy({ timeoutMs: 5_000 }).delaysMs).toEqual([5_000, 60_000, 120_000])
  expect(makePolicy({ delaysMs: [1], timeoutMs: 2 }).delaysMs).toEqual([2])
  expect(makePolicy({ delaysMs: [] })).toMatchObject({ lastWaitMs: 0, ladder: [{ waitMs: 120_000 }] })
  expect(makePolicy({ escalateImmediately: true }).lastWaitMs).toBe(0)
  expect(makePolicy({ ladder, escalationsPerMinute: 0 })).toMatchObject({ ladder, escalationsPerMinute: 0 })
})

test.each([
  [0, 0, 330_000],
  [1, 30_000, 330_000],
  [2, 60_000, 300_000],
  [3, 120_000, 240_000],
  [4, null, 120_000],
  [9, null, 120_000],
])(
  'after %i attempts the next is due in %s ms and the wait ends in %i ms [A3] [A4] [S6]',
  (attempts, dueIn, endsIn) => {
    const next = schedule(makePolicy({}), attempts, 1_000)

    expect(next).toEqual({ nextDueAt: dueIn === null ? null : 1_000 + dueIn, givesUpAt: 1_000 + endsIn })
  },
)

test('a message to several is a broadcast, and so is an escalation level with several', () => {
  const ladder = [
    { to: ['ada'], waitMs: 1 },
    { to: ['ada', 'bob'], waitMs: 1 },
    { to: '*' as const, waitMs: 1 },
  ]
  const direct = makePolicy({ recipients: 1, ladder })

  expect(isBroadcast(makePolicy({ recipients: 2 }), 0)).toBe(true)
  expect([0, 1, 2, 3, 4].map((level) => isBroadcast(direct, level))).toEqual([
    false,
    false,
    true,
    true,
    false,
  ])
})
