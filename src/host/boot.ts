/** When the kernel was started, and how far the clocks of this process are from the kernel's. */
import { readFileSync, statfsSync } from 'node:fs'
import { uptime } from 'node:os'
import { unlessRefused } from './unless-refused.ts'

/** The statfs type of files that the kernel itself shows under /proc. */
const procfsType = 0x9fa0

/** Wall time of the kernel's start; null if it is unavailable or the value shown may be a container's own. */
export function bootedAt(now: number, uptimeFile = '/proc/uptime'): number | null {
  if (process.platform === 'linux' && !isOfKernel(uptimeFile)) return null
  return now - Math.round(uptime() * 1000 - clockShift.boottimeMs)
}

/** lxcfs mounts its own file over it, which counts from the start of the container. */
function isOfKernel(path: string): boolean {
  return Number(unlessRefused(() => statfsSync(path))?.type) === procfsType
}

/**
 * A time namespace shifts both clocks for the processes inside. We subtract the shift; otherwise processes inside and
 * outside would judge the same leases by two clocks.
 */
export const clockShift = readClockShift()

export function readClockShift(path = '/proc/self/timens_offsets'): {
  readonly monotonicMs: number
  readonly boottimeMs: number
} {
  // There is none on kernels and systems without time namespaces.
  const text = unlessRefused(() => readFileSync(path, 'utf8')) ?? ''
  return { monotonicMs: shiftOf('monotonic', text), boottimeMs: shiftOf('boottime', text) }
}

function shiftOf(clock: string, text: string): number {
  const [, seconds = '0', nanoseconds = '0'] =
    new RegExp(`^${clock}\\s+(-?\\d+)\\s+(\\d+)`, 'm').exec(text) ?? []
  return Number(seconds) * 1000 + Number(nanoseconds) / 1e6
}
