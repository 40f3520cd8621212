/** A command that was asked to stop: did it? */
import { expect, test } from 'vitest'
import { isStopHeeded } from '../../src/domain/stop-request.ts'

const minuteMs = 60_000

test('a command that nobody asked to stop ended on its own', () => {
  expect(isStopHeeded(new Map(), 0)).toBe(false)
})

test.each(['SIGINT', 'SIGQUIT'] as const)(
  'a command that runs for more than a minute after %s ends on its own later, and its exit code counts [S5c-31]',
  (signal) => {
    const askedAt = new Map([[signal, 1_000]])

    expect(isStopHeeded(askedAt, 1_000)).toBe(true)
    expect(isStopHeeded(askedAt, 1_000 + minuteMs)).toBe(true)
    expect(isStopHeeded(askedAt, 1_001 + minuteMs)).toBe(false)
  },
)

test.each(['SIGTERM', 'SIGHUP'] as const)(
  'after %s a command was stopped, however long it took to end [S5c-31]',
  (signal) => {
    expect(isStopHeeded(new Map([[signal, 0]]), 24 * 60 * minuteMs)).toBe(true)
  },
)
