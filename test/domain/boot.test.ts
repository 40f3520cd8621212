/** Whether a process of another boot id ran before the kernel was last started. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, uptime } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isOfEarlierBoot } from '../../src/domain/boot.ts'
import { bootedAt, readClockShift } from '../../src/host/boot.ts'

const minuteMs = 60_000
const bootAt = 1_000 * minuteMs
/** Ten minutes after the start of the kernel. */
const kernel = { bootedAt: bootAt, awakeMs: 10 * minuteMs }
const longAgo = { startedAt: bootAt - 60 * minuteMs, beatAt: bootAt - 30 * minuteMs }

describe('by wall time', () => {
  test.each([
    ['all of it lies before our boot', longAgo, true],
    ['it started after our boot', { ...longAgo, startedAt: bootAt + 1 }, false],
    ['it beat after our boot', { ...longAgo, beatAt: bootAt + 1 }, false],
    ['it beat within a minute before it', { ...longAgo, beatAt: bootAt - minuteMs }, false],
    ['it beat more than a minute before it', { ...longAgo, beatAt: bootAt - minuteMs - 1 }, true],
  ])('%s [S5b-3]', (_, signs, expected) => {
    expect(isOfEarlierBoot(signs, kernel)).toBe(expected)
    expect(isOfEarlierBoot({ ...signs, awakeAt: null }, kernel)).toBe(expected)
  })

  test('proves nothing if our boot time is unknown [S5b-3]', () => {
    expect(isOfEarlierBoot(longAgo, { ...kernel, bootedAt: null })).toBe(false)
  })
})

describe('by awake time', () => {
  const justNow = { startedAt: bootAt, beatAt: bootAt }

  test.each([
    ['its machine had been awake for longer than ours is', 11 * minuteMs + 1, true],
    ['for a minute longer', 11 * minuteMs, false],
  ])('%s, whatever the dates are [S5b-3]', (_, awakeAt, expected) => {
    expect(isOfEarlierBoot({ ...justNow, awakeAt }, kernel)).toBe(expected)
    expect(isOfEarlierBoot({ ...justNow, awakeAt }, { ...kernel, bootedAt: null })).toBe(expected)
  })

  test('a process that may just have sent a heartbeat is alive, although the date was wrong then [S5b-3]', () => {
    expect(isOfEarlierBoot({ ...longAgo, awakeAt: 8 * minuteMs + 1 }, kernel)).toBe(false)
    expect(isOfEarlierBoot({ ...longAgo, awakeAt: 8 * minuteMs }, kernel)).toBe(true)
  })
})

describe.runIf(process.platform === 'linux')('what the kernel reports', () => {
  test('its start is wall time minus its uptime [S5b-3]', () => {
    expect(Math.abs((bootedAt(5e12) ?? 0) - (5e12 - uptime() * 1000))).toBeLessThan(1000)
  })

  test.each([
    ['a file of a container', () => aFile('1.00 1.00\n')],
    ['no file', () => '/nowhere'],
  ])('%s in place of the time it has run tells nothing [S5b-3]', (_, path) => {
    expect(bootedAt(5e12, path())).toBeNull()
  })

  test('how far a time namespace shifts its clocks [S5b-3]', () => {
    const shifted = aFile('monotonic       86400  500000000\nboottime            -1         0\n')

    expect(readClockShift(shifted)).toEqual({ monotonicMs: 86_400_500, boottimeMs: -1000 })
    expect(readClockShift('/nowhere')).toEqual({ monotonicMs: 0, boottimeMs: 0 })
  })
})

function aFile(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-boot-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'file')
  writeFileSync(path, content)
  return path
}
