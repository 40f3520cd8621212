/**
 * Which process heals the namespaces that no process of their own heals: on each machine, the oldest one that heals at
 * all. Nothing is written for it; who runs, beats and sweeps is known anyway. Two processes may both take themselves
 * for it for a moment: that costs time and does no harm, since each thing is given back once.
 */
import type { Instance } from './instance.ts'

/** The agent of what is done in a namespace by a process of another. */
export const healerAgent = 'holdfast'

/** The process behind that name, in the detail of each event. */
export interface Healer {
  readonly host: string
  readonly pid: number
}

/** Three beats: a process that missed more may be frozen. */
export const healerSilentMs = 90_000
/** A process sweeps every 5 s unless it is told otherwise; one that seldom does leaves the others to somebody else. */
const sweptMs = 60_000

/** Whether a process that beat lately was healing when it did. */
export function isHealing({ endedAt, seenAt, beatAt, sweptAt }: Instance, now: number): boolean {
  if (endedAt !== null || seenAt === null || sweptAt === null) return false
  return seenAt >= now - healerSilentMs && sweptAt >= beatAt - sweptMs
}

/** Whether it is up to this process, given those that heal on its machine and are known to run, oldest first. */
export function isHealerFor(self: string, running: readonly string[]): boolean {
  const [oldest] = running
  return oldest === undefined || oldest === self
}
