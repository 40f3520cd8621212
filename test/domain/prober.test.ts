/** Who looks for dead holders: one process, until it is dead, stopped or late. */
import { expect, test } from 'vitest'
import { decideProber } from '../../src/domain/prober.ts'

const record = { id: 'other', pid: 100, startTime: '7', beatAt: 10_000 }
const given = { self: 'self', isAble: true, now: 10_200, probeEveryMs: 250 }

test('where nobody probes, whoever looks first does [S5e-6]', () => {
  expect(decideProber(null, given)).toBe('prober')
})

test('whoever probes goes on, also when it comes late [S5e-6]', () => {
  expect(decideProber({ ...record, id: 'self' }, { ...given, now: 60_000 })).toBe('prober')
})

test('the others leave it to the one that probes [S5e-6]', () => {
  expect(decideProber(record, given)).toBe('watcher')
  expect(decideProber(record, { ...given, now: 10_750 })).toBe('watcher')
})

test('a prober that is dead or stopped is replaced at once [S5e-6]', () => {
  expect(decideProber(record, { ...given, isAble: false })).toBe('prober')
})

test('a prober that was not heard of for 750 ms is replaced [S5e-6]', () => {
  expect(decideProber(record, { ...given, now: 10_751 })).toBe('prober')
})

test('a record from a time that has not come is not believed [S5e-6]', () => {
  expect(decideProber(record, { ...given, now: 9_000 })).toBe('prober')
})

test('whoever wants to look more often than the prober does replaces it [S5e-6]', () => {
  expect(decideProber(record, { ...given, probeEveryMs: 50 })).toBe('prober')
  expect(decideProber(record, { ...given, now: 12_000, probeEveryMs: 1_000 })).toBe('watcher')
})
