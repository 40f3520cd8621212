/**
 * The one list of which clock each stored time is on, table by table. Lease times of two stores are not comparable,
 * since each store has its own lease clock, so carrying rows from one store to another means shifting them by the
 * difference. Wall times mean the same everywhere.
 */
import type { Schema, TableName } from './schema.ts'

interface Clocks {
  readonly lease: readonly string[]
  readonly wall: readonly string[]
}

const leaseTimes = ['grantedAt', 'renewedAt', 'expiresAt'] as const

export const clocks: { readonly [Name in TableName]: Clocks } = {
  item: {
    lease: leaseTimes,
    wall: [
      'runAt',
      'suspectedAt',
      'quarantinedAt',
      'cancelRequestedAt',
      'addedAt',
      'startedAt',
      'stateChangedAt',
      'closedAt',
    ],
  },
  lock: { lease: [...leaseTimes, 'delayedSince'], wall: ['acquiredAt'] },
  waiter: { lease: leaseTimes, wall: ['joinedAt'] },
  run: { lease: ['runningSince'], wall: ['startedAt', 'updatedAt', 'endedAt', 'outcomesRemovedAt'] },
  outcome: { lease: [], wall: ['at'] },
  queue: { lease: [], wall: ['pausedAt', 'createdAt'] },
  workflow: { lease: [], wall: [] },
  instance: { lease: ['seenAt', 'lostAt'], wall: ['startedAt', 'beatAt', 'sweptAt', 'endedAt'] },
  answer: { lease: [], wall: ['at'] },
  recoveryRun: { lease: [], wall: ['at'] },
  recoveryTotal: { lease: [], wall: [] },
  recoveryFailure: { lease: [], wall: ['at'] },
  cascade: { lease: [], wall: ['at'] },
  checkpoint: { lease: [], wall: ['at'] },
  horizon: { lease: ['settledLeaseAt', 'notedLeaseAt'], wall: ['settledAt', 'notedAt'] },
  message: { lease: ['dueAt', 'allowedAt'], wall: ['createdAt', 'closedAt'] },
  delivery: {
    lease: [...leaseTimes, 'nextDueAt', 'allowedAt', 'givesUpAt'],
    wall: ['sentAt', 'readAt', 'ackedAt', 'progressAt', 'createdAt', 'closedAt'],
  },
  recipient: { lease: [], wall: ['registeredAt'] },
  addressable: { lease: [], wall: ['at'] },
  // `marks` holds many times in one field.
  allowance: { lease: ['marks', 'at'], wall: [] },
  image: { lease: [], wall: [] },
  state: { lease: ['preferredUntil'], wall: ['updatedAt'] },
  stateFloor: { lease: [], wall: [] },
}

/**
 * Fields that look like a time but are on neither list, or on both, and listed fields that do not exist. A table's
 * description is complete when this is empty.
 */
export function unclassified(table: Schema, { lease, wall }: Clocks): string[] {
  const times = table.fields.filter((field) => field === 'at' || /(?:At|Since)$/.test(field))
  const isOnOneList = (field: string) => lease.includes(field) !== wall.includes(field)
  const unknown = [...lease, ...wall].filter((field) => !table.fields.includes(field))
  return [...times.filter((field) => !isOnOneList(field)), ...unknown]
}

/** The same time on another lease clock; anything that is not a time is unchanged. */
export function moveTime(value: unknown, byMs: number): unknown {
  if (typeof value === 'number') return value + byMs
  return Array.isArray(value) ? value.map((each) => moveTime(each, byMs)) : value
}

/** A thing as recorded in events and images: fields on the lease clock are shifted, the others stay. */
export function moveTimes(subject: string, fields: object, byMs: number): object {
  const lease = subject in clocks ? clocks[subject as TableName].lease : []
  return Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [
      field,
      lease.includes(field) ? moveTime(value, byMs) : value,
    ]),
  )
}
