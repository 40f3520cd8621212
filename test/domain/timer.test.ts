/** The timers of the real environment. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemEnvironment } from '../../src/host/system.ts'

const day = 24 * 60 * 60 * 1000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

test.each([1, 24, 25, 30, 365])(
  'a timer of %d days fires when they have passed, not before [S5c-34]',
  (days) => {
    const run = vi.fn()

    systemEnvironment.timer(days * day, run)
    vi.advanceTimersByTime(days * day - 1)
    const calls = run.mock.calls.length
    vi.advanceTimersByTime(1)

    expect(calls).toBe(0)
    expect(run).toHaveBeenCalledOnce()
  },
)

test('an infinite one never fires [S5c-34]', () => {
  const run = vi.fn()

  systemEnvironment.timer(Number.POSITIVE_INFINITY, run)
  vi.advanceTimersByTime(1000 * day)

  expect(run).not.toHaveBeenCalled()
})

test('a cancelled one does not fire, however far it has run [S5c-34]', () => {
  const run = vi.fn()

  const cancel = systemEnvironment.timer(60 * day, run)
  vi.advanceTimersByTime(40 * day)
  cancel()
  vi.advanceTimersByTime(60 * day)

  expect(run).not.toHaveBeenCalled()
})
