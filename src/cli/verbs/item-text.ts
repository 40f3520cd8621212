/** Text for items, leases and locks. */
import { counted } from '../../domain/count.ts'
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

function heldBy(holder: string | null, expiresAt: number | null, view: View): string {
  return `held by ${holder ?? 'an unknown agent'} until ${view.leaseTime(expiresAt)}`
}

/** A claim that got nothing, of an item, a task or a lock. */
export interface NotClaimed {
  readonly outcome: string
  readonly holder?: string | null
  readonly expiresAt?: number | null
  readonly reason?: string | null
  /** The agent a task is offered to, and until when. */
  readonly to?: string | null
  readonly until?: number | null
  /** What a task waits for, or until when. */
  readonly waitingFor?: readonly string[]
  readonly runAt?: number | null
  /** When the next item of a queue is due, and whether the queue is there. */
  readonly nextDueAt?: number | null
  readonly exists?: boolean
  /** How many tasks the agent holds. */
  readonly holds?: number
}

/** Why there was nothing to claim. */
export function refusalText(answer: NotClaimed, view: View): string {
  const { outcome, reason = null, runAt = null, waitingFor = [], nextDueAt = null, exists = true } = answer
  switch (outcome) {
    case 'held':
    case 'waiting':
      return heldBy(answer.holder ?? null, answer.expiresAt ?? null, view)
    case 'paused':
      return reason ? `paused: ${reason}` : 'paused'
    case 'offered':
      return `offered to ${answer.to ?? 'an unknown agent'} until ${view.time(answer.until)}`
    case 'blocked':
      return runAt === null ? `waits for ${waitingFor.join(', ')}` : `not before ${view.time(runAt)}`
    case 'quarantined':
      return `quarantined: ${reason ?? 'no reason known'}`
    case 'full':
      return `${counted(answer.holds ?? 0, 'task')} already held, which is the limit`
    case 'empty':
      if (!exists) return 'nothing to claim: nothing has ever been added there'
      return nextDueAt === null ? 'nothing to claim' : `nothing to claim before ${view.time(nextDueAt)}`
    default:
      return outcome
  }
}

export function itemGrant({ id, token }: Pick<ItemView, 'id' | 'token'>): Leased & { token: number } {
  return { kind: 'item', name: id, token }
}

export function lockGrant({ name, lease }: LockView): Leased & { token: number } {
  return { kind: 'lock', name, token: lease.token }
}

type LockAnswer =
  | { readonly outcome: 'acquired'; readonly lock: LockView }
  | (NotClaimed & { readonly outcome: 'held' | 'waiting' })

/** Shared by verbs that acquire a lock. */
export const acquiring = {
  text: (answer: LockAnswer, view: View) =>
    answer.outcome === 'acquired' ? lockLine(answer.lock, view) : refusalText(answer, view),
  grants: (answer: LockAnswer) => (answer.outcome === 'acquired' ? [lockGrant(answer.lock)] : []),
} as const

export function lockLine(lock: LockView, view: View): string {
  return `${lock.name}  token ${lock.lease.token}  until ${view.leaseTime(lock.lease.expiresAt)} (${view.leaseLeft(lock.lease)})`
}
