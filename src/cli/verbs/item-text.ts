/** Text for items, leases and locks. */
import type { TaskView } from '../../operations/task/view.ts'
import type { ItemView, LeaseView, LockView } from '../../operations/view.ts'
import { textLines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import type { Column, Detail } from '../layout.ts'
import type { Leased } from '../lease-file.ts'
import { brief, type View } from '../view.ts'

/** The name people use: its key, if it has one. */
export function nameOf({ id, key }: Pick<ItemView, 'id' | 'key'>): string {
  return key === null ? id : `${key} (${id})`
}

/** One line with an item's name and state. */
export function itemLine(item: ItemView): string {
  return `${nameOf(item)}  ${item.state}`
}

/** The same of a task. */
export function taskLine(task: TaskView): string {
  return `${nameOf(task)}  ${task.status}  ${task.title}`
}

/** Enough to tell payloads apart. */
const payloadShown = 60

export const itemColumns: readonly Column<ItemView>[] = [
  'id',
  'key',
  'state',
  ['phase', phaseText],
  ['pri', 'priority'],
  ['holder', ({ lease }, view) => holderText(lease, view)],
  ['payload', ({ payload }) => (payload == null ? null : brief(payload, payloadShown))],
]

/** What has to happen before the item can be claimed, and when it runs, if known. */
function phaseText({ phase, quarantine, waitingFor, runAt }: ItemView, view: View): string {
  if (quarantine) return 'quarantined'
  if (phase !== 'waiting') return phase
  if (waitingFor.length > 0) return `blocked by ${waitingFor.length}`
  if (runAt === null) return phase
  return runAt > view.now ? `delayed, in ${formatDuration(runAt - view.now)}` : 'due'
}

export function holderText(lease: LeaseView | null, view: View): string {
  if (lease === null) return ''
  return `${lease.agent ?? 'an unknown agent'}, ${view.leaseLeft(lease)}`
}

/** The lines about whoever holds something. */
export const leaseDetails: readonly Detail<Pick<ItemView, 'lease' | 'token'>>[] = [
  ['lease', ({ lease }, view) => lease && leasePeriod(lease, view)],
  ['token', ({ lease, token }) => lease && token],
]

/** Everything about one item, for `show`. */
export const itemDetails: readonly Detail<ItemView>[] = [
  'id',
  'queue',
  'key',
  ['state', ({ state, phase }) => `${state} (${phase})`],
  'priority',
  ['holder', ({ lease }, view) => holderText(lease, view)],
  ...leaseDetails,
  ['waits for', 'waitingFor'],
  ['not before', 'runAt'],
  ['quarantine', quarantineText],
  [
    'attempts',
    ({ attempts, failures, maxAttempts, crashes }) =>
      `${attempts} (${failures} of ${maxAttempts} failures, ${crashes} crashes)`,
  ],
  ['error', ({ error }) => error?.message],
  ['stack', ({ error }) => error?.stack && textLines(error.stack)],
  [
    'added',
    ({ addedAt, submittedBy }, view) => `${view.time(addedAt)} by ${submittedBy ?? 'an unknown agent'}`,
  ],
  ['closed', 'closedAt'],
  'progress',
  'result',
  ['data', ({ data }) => (Object.keys(data).length === 0 ? null : brief(data))],
  'payload',
  'version',
]

export function quarantineText({ quarantine }: Pick<ItemView, 'quarantine'>, view: View): string | null {
  return quarantine && (quarantine.reason ?? view.time(quarantine.at))
}

function leasePeriod(lease: LeaseView, view: View): string {
  const kind = lease.instance === null ? 'manual' : 'bound to its process'
  return `${lease.leaseMs === null ? '' : `${formatDuration(lease.leaseMs)}, `}until ${view.leaseTime(lease.expiresAt)} (${view.leaseLeft(lease)}), ${kind}`
}

export function heldBy(holder: string | null, expiresAt: number | null, view: View): string {
  return `held by ${holder ?? 'an unknown agent'} until ${view.leaseTime(expiresAt)}`
}

export function pausedText(reason: string | null): string {
  return reason ? `paused: ${reason}` : 'paused'
}

export function itemGrant({ id, token }: Pick<ItemView, 'id' | 'token'>): Leased & { token: number } {
  return { kind: 'item', name: id, token }
}

export function lockGrant({ name, lease }: LockView): Leased & { token: number } {
  return { kind: 'lock', name, token: lease.token }
}

export function lockLine(lock: LockView, view: View): string {
  return `${lock.name}  token ${lock.lease.token}  until ${view.leaseTime(lock.lease.expiresAt)} (${view.leaseLeft(lock.lease)})`
}
