import { expect, test } from 'vitest'
import { lapsedInOutage } from '../../src/domain/outage.ts'
import { recoverItem } from '../../src/domain/recovery.ts'
import { ada, at, itemIn, job, later } from './samples.ts'

const item = itemIn(job, 'running')
const expiry = at.now + ada.leaseMs

test.each([
  ['there was none', null, false],
  ['it began after the lapse', { since: expiry + 1, until: expiry + 9_000 }, false],
  ['it was over for a renewal and more before the lapse', { since: at.now, until: expiry - 10_001 }, false],
  ['it was over a moment before the lapse', { since: at.now, until: expiry - 10_000 }, true],
  ['the lapse lies in it', { since: at.now, until: expiry + 5_000 }, true],
])('whether a lease lapsed because of an outage: %s [S5-1]', (_, outage, is) => {
  expect(lapsedInOutage(item, outage)).toBe(is)
})

test('a row without a lease did not lapse in an outage, and one without a length had no time to be renewed', () => {
  const outage = { since: at.now, until: expiry }

  expect(lapsedInOutage({ ...item, expiresAt: null }, outage)).toBe(false)
  expect(lapsedInOutage({ ...item, leaseMs: null }, outage)).toBe(true)
})

test('an outage excuses a bound lease, but not a manual one, which nobody would have renewed, nor a death [S5-1]', () => {
  const rules = { workflow: job, maxCrashes: 3, held: { items: 1, suspects: 0 } }
  const moment = { ...later(ada.leaseMs + 1), outage: { since: at.now, until: expiry + 1 } }
  const dead = new Map([['ada-1', { evidence: 'process 42 is gone', isReboot: false }]])

  expect(recoverItem(item, rules, new Map(), moment)).toMatchObject({ blame: 'none', after: { crashes: 0 } })
  expect(recoverItem({ ...item, instance: null }, rules, new Map(), moment)).toMatchObject({ blame: 'own' })
  expect(recoverItem(item, rules, dead, moment)).toMatchObject({ blame: 'own' })
})
