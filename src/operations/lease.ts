/** Renewal of leases a process knows it has, by id and token: one command for all of them. */
import * as z from 'zod'
import { renew as renewLease } from '../domain/lease.ts'
import type { Change } from '../engines/engine.ts'
import { operation } from './operation.ts'

export const renewalsMax = 200

const lease = z.strictObject({ kind: z.enum(['item', 'lock']), id: z.string().max(300), token: z.int() })
export type LeaseRef = z.output<typeof lease>

const input = z.strictObject({ leases: z.array(lease).max(renewalsMax) })

/** A lock's slot as one word. */
export function lockRef(lock: { name: string; slot: number }): string {
  return `${lock.name}#${lock.slot}`
}

const needs = ({ leases }: z.output<typeof input>) => ({
  items: {
    select: 'itemsById',
    ids: leases.filter(({ kind }) => kind === 'item').map(({ id }) => id),
  } as const,
  locks: {
    select: 'locksByRef',
    refs: leases.filter(({ kind }) => kind === 'lock').map(({ id }) => id),
  } as const,
})

export const renew = operation({
  name: 'lease.renew',
  summary: 'Renew leases by id and token; says which of them are lost.',
  effect: 'write',
  internal: true,
  input,
  output: z.object({ renewed: z.array(lease), lost: z.array(lease) }),
  needs,
  decide({ items, locks }, { leases }, { now }) {
    const changes: Change[] = []
    const renewed: LeaseRef[] = []
    const itemById = new Map(items.map((item) => [item.id, item]))
    const lockById = new Map(locks.map((lock) => [lockRef(lock), lock]))
    for (const each of leases) {
      const item = each.kind === 'item' ? itemById.get(each.id) : undefined
      const lock = each.kind === 'lock' ? lockById.get(each.id) : undefined
      if (item?.standing === 'held' && item.token === each.token)
        changes.push({ table: 'item', before: item, after: renewLease(item, now) })
      else if (lock?.token === each.token)
        changes.push({ table: 'lock', before: lock, after: renewLease(lock, now) })
      else continue
      renewed.push(each)
    }
    return { changes, result: { renewed, lost: leases.filter((each) => !renewed.includes(each)) } }
  },
})

export const check = operation({
  name: 'lease.check',
  summary: 'Which of these leases are lost; changes nothing.',
  effect: 'read',
  internal: true,
  input,
  output: z.object({ lost: z.array(lease) }),
  needs,
  decide({ items, locks }, { leases }) {
    const current = new Set([
      ...items.filter((item) => item.standing === 'held').map((item) => `item ${item.id} ${item.token}`),
      ...locks.map((lock) => `lock ${lockRef(lock)} ${lock.token}`),
    ])
    return {
      changes: [],
      result: { lost: leases.filter(({ kind, id, token }) => !current.has(`${kind} ${id} ${token}`)) },
    }
  },
})
