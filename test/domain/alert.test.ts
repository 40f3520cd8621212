import { expect, test } from 'vitest'
import { type AlertFacts, decideAlerts, maxStale } from '../../src/domain/alert.ts'

const quiet: AlertFacts = {
  stale: 0,
  lapsed: 0,
  lapsedForMs: 0,
  sweptAgoMs: null,
  orphaned: 0,
  unrenewed: [],
  patterns: [],
  suspects: [],
  quarantined: [],
  endings: [],
  deadLetters: 0,
  unsent: [],
  waiting: [],
}
const hour = 3_600_000

const cases: [code: string, facts: Partial<AlertFacts>][] = [
  ['stale_leases', { stale: maxStale + 1 }],
  ['recovery_late', { lapsed: 1, lapsedForMs: 15_001 }],
  ['recovery_late', { lapsed: 1, lapsedForMs: 15_001, sweptAgoMs: 15_001 }],
  ['dead_holders', { orphaned: 1 }],
  ['lease_not_renewed', { unrenewed: [{ title: 'T-1', holder: 'ada', remainingMs: 5_000 }] }],
  ['lease_not_renewed', { unrenewed: [{ title: 'T-1', holder: null, remainingMs: 5_000 }] }],
  ['crash_pattern', { patterns: [{ agent: 'ada', crashes: 3, firstAt: 0, lastAt: 1, ids: [] }] }],
  ['suspect_agent', { suspects: ['ada'] }],
  ['quarantine', { quarantined: [{ queue: 'q', count: 2 }] }],
  ['mostly_failing', { endings: [{ queue: 'q', succeeded: 2, failed: 3, failedState: 'failed' }] }],
  ['dead_letters', { deadLetters: 1 }],
  ['messages_unsent', { unsent: [{ adapter: 'chat', overdueMs: 90_000 }] }],
  ['messages_unsent', { unsent: [{ adapter: 'inbox', overdueMs: 90_000 }] }],
  ['oldest_waiting', { waiting: [{ queue: 'q', oldestReadyMs: hour + 1 }] }],
]

test.each(cases)('%s is reported, with what to do about it', (code, facts) => {
  const [alert, ...others] = decideAlerts({ ...quiet, ...facts })

  expect(alert).toMatchObject({ code, what: expect.any(String), next: expect.stringMatching(/\w/) })
  expect(others).toEqual([])
})

test('healthy things are not reported', () => {
  const inOrder: Partial<AlertFacts>[] = [
    {},
    { stale: maxStale },
    { lapsed: 1, lapsedForMs: 15_000 },
    { lapsed: 1, lapsedForMs: hour, sweptAgoMs: 15_000 },
    { waiting: [{ queue: 'q', oldestReadyMs: hour }] },
    { endings: [{ queue: 'q', succeeded: 0, failed: 2, failedState: 'failed' }] },
    { endings: [{ queue: 'q', succeeded: 3, failed: 3, failedState: 'failed' }] },
  ]

  for (const facts of inOrder) expect(decideAlerts({ ...quiet, ...facts })).toEqual([])
})
