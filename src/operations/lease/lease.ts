/** Leases that a process knows it has, by id and token: renewing them, and finding out how they ended. */
import * as z from 'zod'
import { endByHolder } from '../../domain/crash-pattern.ts'
import type { Delivery } from '../../domain/delivery.ts'
import { eventKinds } from '../../domain/event.ts'
import type { Item } from '../../domain/item.ts'
import { isHolder, renew as renewLease } from '../../domain/lease.ts'
import type { Lock } from '../../domain/lock.ts'
import { isOver, isReservationName } from '../../domain/reservation.ts'
import { lazily } from '../../lazily.ts'
import type { Change } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { need, type OutputOf, operation, reply } from '../operation.ts'
import { newestEvents } from '../subject.ts'

export const maxRenewals = 200

export const lease = lazily(() =>
  z.strictObject({
    kind: z.enum(['item', 'lock']),
    id: fields.text(300),
    token: z.int().nonnegative(),
  }),
)
export type LeaseRef = OutputOf<typeof lease>

const input = lazily(() => ({ leases: z.array(lease()).max(maxRenewals) }))

/** The length its holder counts on: somebody may have renewed the lease by hand with another length. */
const renewal = lazily(() => lease().extend({ leaseMs: fields.leaseMs }))

/** A lock's name and slot as one string. */
export function lockRef(lock: { name: string; slot: number }): string {
  return `${lock.name}#${lock.slot}`
}

export function lockGrant(lock: Lock): LeaseRef {
  return { kind: 'lock', id: lockRef(lock), token: lock.token }
}

export function itemGrant({ id, token }: Item): LeaseRef {
  return { kind: 'item', id, token }
}

export function lockNameOf(ref: string): string {
  return ref.slice(0, ref.lastIndexOf('#'))
}

export function isReservation({ kind, id }: LeaseRef): boolean {
  return kind === 'lock' && isReservationName(id)
}

/** What can be leased: its kind, the id that names it, and its row. */
export type Leased = { readonly id: string; readonly queue: string | null } & (
  | { readonly kind: 'item'; readonly row: Item }
  | { readonly kind: 'lock'; readonly row: Lock }
  | { readonly kind: 'delivery'; readonly row: Delivery }
)

export function leasedThings(rows: {
  readonly items: readonly Item[]
  readonly locks: readonly Lock[] | null
  readonly deliveries: readonly Delivery[] | null
}): Leased[] {
  return [
    ...rows.items.map((row) => ({ kind: 'item', id: row.id, queue: row.queue, row }) as const),
    ...(rows.locks ?? []).map((row) => ({ kind: 'lock', id: lockRef(row), queue: null, row }) as const),
    ...(rows.deliveries ?? []).map((row) => ({ kind: 'delivery', id: row.id, queue: null, row }) as const),
  ]
}

export const leaseNeeds = (leases: readonly LeaseRef[]) =>
  need({
    items: {
      select: 'itemsById',
      ids: leases.filter(({ kind }) => kind === 'item').map(({ id }) => id),
    },
    locks: {
      select: 'locksByRef',
      refs: leases.filter(({ kind }) => kind === 'lock').map(({ id }) => id),
    },
  })

export const renew = operation({
  name: 'lease.renew',
  summary: 'Renew leases by id and token, and report which are lost.',
  effect: 'write',
  class: 'client',
  isUrgent: true,
  input: () => ({ leases: z.array(renewal()).max(maxRenewals) }),
  output: () => z.object({ lost: z.array(lease()) }),
  needs: ({ leases }) => leaseNeeds(leases),
  decide({ items, locks }, { leases }, { agent, now }) {
    const changes: Change[] = []
    const lost: LeaseRef[] = []
    const itemById = new Map(items.map((item) => [item.id, item]))
    const lockById = new Map(locks.map((lock) => [lockRef(lock), lock]))
    for (const each of leases) {
      const item = each.kind === 'item' ? itemById.get(each.id) : undefined
      const lock = each.kind === 'lock' ? lockById.get(each.id) : undefined
      const claimant = { agent, token: each.token }
      if (item?.phase === 'held' && isHolder(item, claimant))
        changes.push({ table: 'item', before: item, after: renewLease(item, now, each.leaseMs) })
      else if (lock && isHolder(lock, claimant) && !isOver(lock, now))
        changes.push({ table: 'lock', before: lock, after: renewLease(lock, now, each.leaseMs) })
      else lost.push({ kind: each.kind, id: each.id, token: each.token })
    }
    return { changes, result: { lost } }
  },
})

export const check = operation({
  name: 'lease.check',
  summary: 'Report which of these leases are lost. Changes nothing.',
  effect: 'read',
  class: 'client',
  isUrgent: true,
  input,
  output: () => z.object({ lost: z.array(lease()) }),
  needs: ({ leases }) => leaseNeeds(leases),
  decide: (rows, { leases }, { now }) => reply({ lost: [...lostLeases(rows, leases, now)] }),
})

/** More events than one thing gets in the second it takes a process to learn that it no longer holds it. */
const endingWindow = 100

export const ending = operation({
  name: 'lease.ending',
  summary: 'Say how the holder ended a lease; null when it was taken away or still runs.',
  effect: 'read',
  class: 'client',
  input: () => lease().shape,
  output: () => z.object({ kind: z.enum(eventKinds), state: z.string().nullable() }).nullable(),
  needs: ({ kind, id }) => ({
    events: newestEvents({ subject: kind, id }, endingWindow),
  }),
  decide({ events }, { token }, { agent }) {
    const end = endByHolder(events, { agent, token })
    const state = end?.change?.state
    return reply(end && { kind: end.kind, state: typeof state === 'string' ? state : null })
  },
})

/** Leases that have ended or were granted again. */
export function lostLeases(
  { items, locks }: { items: readonly Item[]; locks: readonly Lock[] },
  leases: readonly LeaseRef[],
  now: number,
): readonly LeaseRef[] {
  const current = new Set([
    ...items.filter((item) => item.phase === 'held').map((item) => `item ${item.id} ${item.token}`),
    ...locks.filter((lock) => !isOver(lock, now)).map((lock) => `lock ${lockRef(lock)} ${lock.token}`),
  ])
  return leases.filter(({ kind, id, token }) => !current.has(`${kind} ${id} ${token}`))
}
