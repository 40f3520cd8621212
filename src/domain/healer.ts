/**
 * Which process heals the namespaces that have no healing process of their own: on each machine, the oldest one that
 * heals at all. This takes no extra writes, because which processes run, beat and sweep is known anyway. Two processes
 * may briefly both take the role. That costs time and does no harm, since each thing is given back only once.
 */
import type { Instance } from './instance.ts'

/** The agent name used when a process of another namespace acts in this one. */
export const healerAgent = 'holdfast'

/** The process behind that name, recorded in the detail of each event. */
export interface Healer {
  readonly host: string
  readonly pid: number
}

/** Three heartbeats: a process that missed more may be frozen. */
export const healerSilentMs = 90_000
/** A process sweeps every 5 s by default; one that sweeps rarely leaves other namespaces to another process. */
const sweptMs = 60_000

/** Whether a process with a recent heartbeat was healing at that time. */
export function isHealing({ endedAt, seenAt, beatAt, sweptAt }: Instance, now: number): boolean {
  if (endedAt !== null || seenAt === null || sweptAt === null) return false
  return seenAt >= now - healerSilentMs && sweptAt >= beatAt - sweptMs
}

/** Whether this process is the healer, given the running processes that heal on its machine, oldest first. */
export function isHealerFor(self: string, running: readonly string[]): boolean {
  const [oldest] = running
  return oldest === undefined || oldest === self
}
