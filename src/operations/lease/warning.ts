/**
 * Warning holders in time, with an event they can listen for, once per grant. Bound leases show up here only if nobody
 * renewed them. A read, which blocks nobody, finds the leases to warn about. The write covers only those, and checks
 * each row again.
 */
import * as z from 'zod'
import { leaseStatus } from '../../domain/lease.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Remark } from '../../port/decision.ts'
import type { Loaded } from '../../port/selector.ts'
import { need, type OutputOf, operation, reply } from '../operation.ts'
import { type Leased, lease, leasedThings } from './lease.ts'

/** Leases of each kind that one read finds. */
export const maxNear = 1000
/** Leases that one transaction warns about: keeps it under 20 ms. */
export const maxWarnings = 100

const leaseRef = lazily(() => lease().extend({ kind: z.enum(['item', 'lock', 'delivery']) }))
/** A lease near its end. */
export type NearLease = OutputOf<typeof leaseRef>

export const listNear = operation({
  name: 'lease.listNear',
  summary: 'List leases close to expiry whose holders have not been warned.',
  effect: 'read',
  class: 'internal',
  input: () => ({}),
  output: () => z.array(leaseRef()),
  needs: () => nearNeeds(null),
  decide: (rows, _input, { now }) =>
    reply(nearLeases(rows, now).map(({ kind, id, row }) => ({ kind, id, token: row.token }))),
})

export const warnNear = operation({
  name: 'lease.warnNear',
  summary: 'Warn holders whose lease is close to expiry, once per grant.',
  effect: 'write',
  class: 'internal',
  input: () => ({ leases: z.array(leaseRef()).max(maxWarnings) }),
  output: () => z.number(),
  needs: ({ leases }) => nearNeeds(leases),
  decide(rows, _input, context) {
    const remarks = nearLeases(rows, context.now).map((near) => warning(near, context))
    return { changes: [], remarks, result: remarks.length }
  },
})

/** Null means all leases. */
function nearNeeds(leases: readonly NearLease[] | null) {
  const of = (wanted: NearLease['kind']) =>
    leases === null ? null : leases.filter(({ kind }) => kind === wanted).map(({ id }) => id)
  return need({
    items: { select: 'nearItems', ids: of('item'), limit: maxNear },
    locks: { select: 'nearLocks', ids: of('lock'), limit: maxNear },
    deliveries: { select: 'nearDeliveries', ids: of('delivery'), limit: maxNear },
  })
}

function nearLeases(rows: Loaded<ReturnType<typeof nearNeeds>>, now: number): Leased[] {
  return leasedThings(rows).filter(({ row }) => leaseStatus(row, now) === 'near')
}

function warning({ kind, id, queue, row }: Leased, { agent, now }: Context): Remark {
  const { expiresAt, token } = row
  const detail = { holder: row.agent, expiresAt, remainingMs: (expiresAt ?? now) - now }
  return { kind: `${kind}.expiring`, subject: kind, id, queue, token, agent, detail }
}
