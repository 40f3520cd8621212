/** Text for items, leases and locks. */
import { quotedWord } from '../../domain/shell-word.ts'
import type { ItemView, LeaseView, LockView } from '../../operations/view.ts'
import { type Drawing, lines, textLines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
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

export function itemTable(items: readonly ItemView[], view: View): Drawing {
  return view.table(
    ['id', 'key', 'state', 'phase', 'pri', 'holder', 'payload'],
    items.map((item) => [
      item.id,
      item.key ?? '',
      item.state,
      phaseText(item, view),
      item.priority,
      holderText(item.lease, view),
      item.payload == null ? null : brief(item.payload, payloadShown),
    ]),
  )
}

/** Enough to tell payloads apart. */
const payloadShown = 60

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

/** Everything about one item, for `show`. */
export function itemPairs(item: ItemView, view: View): Drawing {
  return view.pairs([
    ['id', item.id],
    ['queue', item.queue],
    ['key', item.key],
    ['state', `${item.state} (${item.phase})`],
    ['priority', item.priority],
    ['holder', item.lease && holderText(item.lease, view)],
    ['lease', item.lease && leasePeriod(item.lease, view)],
    ['token', item.lease && item.token],
    ['waits for', item.waitingFor.join(', ')],
    ['not before', item.runAt === null ? null : view.time(item.runAt)],
    ['quarantine', item.quarantine && (item.quarantine.reason ?? view.time(item.quarantine.at))],
    [
      'attempts',
      `${item.attempts} (${item.failures} of ${item.maxAttempts} failures, ${item.crashes} crashes)`,
    ],
    ['error', item.error?.message],
    ['stack', item.error?.stack && textLines(item.error.stack)],
    ['added', `${view.time(item.addedAt)} by ${item.submittedBy ?? 'an unknown agent'}`],
    ['closed', item.closedAt === null ? null : view.time(item.closedAt)],
    ['progress', item.progress == null ? null : brief(item.progress)],
    ['result', item.result == null ? null : brief(item.result)],
    ['data', Object.keys(item.data).length === 0 ? null : brief(item.data)],
    ['payload', item.payload == null ? null : brief(item.payload)],
    ['version', item.version],
  ])
}

export function leasePeriod(lease: LeaseView, view: View): string {
  const kind = lease.instance === null ? 'manual' : 'bound to its process'
  return `${lease.leaseMs === null ? '' : `${formatDuration(lease.leaseMs)}, `}until ${view.leaseTime(lease.expiresAt)} (${view.leaseLeft(lease)}), ${kind}`
}

export function heldBy(holder: string | null, expiresAt: number | null, view: View): string {
  return `held by ${holder ?? 'an unknown agent'} until ${view.leaseTime(expiresAt)}`
}

export function pausedText(reason: string | null): string {
  return reason ? `paused: ${reason}` : 'paused'
}

/** Adds how to get the next page of a list. */
export function withNext(text: Drawing, next: string | null, view: View): Drawing {
  return next === null ? text : lines([text, view.colors.dim(`more: --after ${quotedWord(next)}`)])
}

export function itemGrant({ id, token }: Pick<ItemView, 'id' | 'token'>): Leased & { token: number } {
  return { kind: 'item', name: id, token }
}

export function lockGrant({ name, lease }: LockView): Leased & { token: number } {
  return { kind: 'lock', name, token: lease.token }
}

export const isItemOver = ({ phase }: ItemView): boolean => phase !== 'held'

export function lockLine(lock: LockView, view: View): string {
  return `${lock.name}  token ${lock.lease.token}  until ${view.leaseTime(lock.lease.expiresAt)} (${view.leaseLeft(lock.lease)})`
}
