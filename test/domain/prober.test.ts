/** Who looks for dead holders: one process, until it is dead, stopped or late. */
import { expect, test } from 'vitest'
import { decideProber } from '../../src/domain/prober.ts'

const record = { id: 'other', pid: 100, startTime: '7', beatAt: 10_000 }
const given = { self: 'self', isAble: true, now: 10_200, probeEveryMs: 250 }

test('if there is no prober, the first process that looks becomes one [S5e-6]', () => {
  expect(decideProber(null, given)).toBe('prober')
})

test('the prober stays prober, even when it is late [S5e-6]', () => {
  expect(decideProber({ ...record, id: 'self' }, { ...given, now: 60_000 })).toBe('prober')
})

test('the others leave it to the prober [S5e-6]', () => {
  expect(decideProber(record, given)).toBe('watcher')
  expect(decideProber(record, { ...given, now: 10_750 })).toBe('watcher')
})

test('a prober that is dead or stopped is replaced at once [S5e-6]', () => {
  expect(decideProber(record, { ...given, isAble: false })).toBe('prober')
})

test('a prober that has been silent for 750 ms is replaced [S5e-6]', () => {
  expect(decideProber(record, { ...given, now: 10_751 })).toBe('prober')
})

test('a record from the future is ignored [S5e-6]', () => {
  expect(decideProber(record, { ...given, now: 9_000 })).toBe('prober')
})

test('a process that wants to look more often than the prober replaces it [S5e-6]', () => {
  expect(decideProber(record, { ...given, probeEveryMs: 50 })).toBe('prober')
  expect(decideProber(record, { ...given, now: 12_000, probeEveryMs: 1_000 })).toBe('watcher')
})
