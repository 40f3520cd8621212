/**
 * How the rules' rows are stored in tables, the same in every engine: one description per table. An engine builds its
 * statements from it; its migrations create the tables themselves.
 *
 * Long because it lists every field of every table; readers look up one table.
 */
import { renewalFields } from '../domain/event.ts'
import { lazily } from '../lazily.ts'
import type { Tables } from '../port/tables.ts'
import { type Kind, type RowCode, rowCodeOf } from './row-code.ts'

/** Tables that hold the rules' rows. Sealed events are left out: they are a range of another table. */
export type TableName = Exclude<keyof Tables, 'sealedEvents'>

export interface Schema {
  readonly name: string
  readonly fields: readonly string[]
  readonly columns: readonly string[]
  readonly kinds: readonly Kind[]
  readonly kindOf: Readonly<Record<string, Kind>>
  /** Fields with times on the store's lease clock, and with wall times. */
  readonly leaseTimes: readonly string[]
  readonly wallTimes: readonly string[]
  /** Fields that identify a row within its namespace. */
  readonly key: readonly string[]
  /** Fields that a write must find as it read them: the key and the guards. */
  readonly asRead: readonly string[]
  /** Whether a new row replaces an existing one, so that the writer need not know about that one. */
  readonly replaces: boolean
  /** Many commands read its rows and few change them, so readers share a lock and whoever changes one holds it alone. */
  readonly isMostlyRead: boolean
  readonly code: () => RowCode
}

/**
 * What a field is. Every time says which clock it is on. Lease times of two stores are not comparable, since each store
 * has its own lease clock, so rows that are carried from one store to another are shifted by the difference. Wall times
 * mean the same everywhere.
 */
type FieldKind = Kind | 'lease time' | 'lease times' | 'wall time'

function storedAs(kind: FieldKind): Kind {
  if (kind === 'lease times') return 'json'
  return kind === 'lease time' || kind === 'wall time' ? 'integer' : kind
}

const mostlyRead: readonly string[] = ['queue', 'workflow', 'recipient']

function table(name: string, key: string[], guards: string[], described: Record<string, FieldKind>): Schema {
  const fields = Object.keys(described)
  const asRead = [...key, ...guards]
  const all = fields.map((field) => [field, storedAs(described[field] as FieldKind)] as const)
  const kindOf: Record<string, Kind> = Object.fromEntries(all)
  return {
    name,
    fields,
    columns: fields.map(columnOf),
    kinds: Object.values(kindOf),
    kindOf,
    leaseTimes: fields.filter((field) => described[field]?.startsWith('lease time')),
    wallTimes: fields.filter((field) => described[field] === 'wall time'),
    key,
    asRead,
    replaces: name === 'cascade',
    isMostlyRead: mostlyRead.includes(name),
    code: lazily(() =>
      rowCodeOf({
        all,
        asRead: asRead.map((field) => [field, kindOf[field] as Kind] as const),
        eventJson: all.filter(([field]) => !renewalFields.has(field)),
      }),
    ),
  }
}

/** The end of an insert statement, for tables whose new rows replace others. Both engines use the same syntax. */
export function replacing({ replaces, key, fields }: Schema): string {
  if (!replaces) return ''
  const rest = fields.filter((field) => !key.includes(field)).map(columnOf)
  const sets = rest.map((column) => `${column} = excluded.${column}`).join(', ')
  return `\non conflict (namespace, ${key.map(columnOf).join(', ')}) do update set ${sets}`
}

export function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

const lease = {
  agent: 'text',
  instance: 'text',
  token: 'integer',
  grantedAt: 'lease time',
  renewedAt: 'lease time',
  expiresAt: 'lease time',
  leaseMs: 'integer',
} as const

export const schema: { readonly [Name in TableName]: Schema } = {
  item: table('item', ['id'], ['version', 'token'], {
    id: 'text',
    queue: 'text',
    workflow: 'text',
    state: 'text',
    phase: 'text',
    priority: 'integer',
    key: 'text',
    dedupeKey: 'text',
    parent: 'text',
    ancestors: 'json',
    blockers: 'json',
    waitingFor: 'json',
    runAt: 'wall time',
    offeredTo: 'text',
    attempts: 'integer',
    failures: 'integer',
    crashes: 'integer',
    exposures: 'integer',
    suspectedAt: 'wall time',
    progressAtLoss: 'json',
    crashResets: 'integer',
    maxAttempts: 'integer',
    quarantinedAt: 'wall time',
    quarantineReason: 'text',
    cancelRequestedAt: 'wall time',
    submittedBy: 'text',
    addedAt: 'wall time',
    startedAt: 'wall time',
    stateChangedAt: 'wall time',
    closedAt: 'wall time',
    outcome: 'text',
    previousState: 'text',
    version: 'integer',
    ...lease,
    holderHost: 'text',
    error: 'json',
    progress: 'json',
    result: 'text',
    data: 'json',
    payload: 'text',
  }),
  lock: table('lock', ['name', 'slot'], ['version', 'token'], {
    name: 'text',
    slot: 'integer',
    reason: 'text',
    item: 'text',
    itemToken: 'integer',
    acquiredAt: 'wall time',
    version: 'integer',
    ...lease,
    user: 'text',
    run: 'text',
    slots: 'integer',
    depth: 'integer',
    delayMs: 'integer',
    delayedSince: 'lease time',
    patterns: 'json',
    mode: 'text',
  }),
  waiter: table('lock_waiter', ['id'], ['version', 'token'], {
    id: 'text',
    name: 'text',
    joinedAt: 'wall time',
    version: 'integer',
    ...lease,
  }),
  run: table('run', ['run'], ['version', 'token'], {
    run: 'text',
    lock: 'text',
    token: 'integer',
    status: 'text',
    total: 'integer',
    done: 'integer',
    failed: 'integer',
    skipped: 'integer',
    cursor: 'json',
    completion: 'text',
    pauseReason: 'text',
    startedAt: 'wall time',
    updatedAt: 'wall time',
    endedAt: 'wall time',
    outcomesRemovedAt: 'wall time',
    runningSince: 'lease time',
    activeMs: 'integer',
    version: 'integer',
  }),
  outcome: table('outcome', ['id'], ['version'], {
    id: 'text',
    run: 'text',
    key: 'text',
    outcome: 'text',
    error: 'text',
    at: 'wall time',
    version: 'integer',
  }),
  queue: table('queue', ['name'], ['version'], {
    name: 'text',
    workflow: 'text',
    slots: 'integer',
    maxAttempts: 'integer',
    maxCrashes: 'integer',
    leaseMs: 'integer',
    manualLeaseMs: 'integer',
    backoff: 'json',
    pausedAt: 'wall time',
    pausedBy: 'text',
    pauseReason: 'text',
    createdAt: 'wall time',
    version: 'integer',
  }),
  workflow: table('workflow', ['name'], ['version'], {
    name: 'text',
    definition: 'json',
    version: 'integer',
  }),
  instance: table('instance', ['id'], ['version'], {
    id: 'text',
    agent: 'text',
    bootId: 'text',
    pidNamespace: 'text',
    hostName: 'text',
    pid: 'integer',
    startTime: 'text',
    startedAt: 'wall time',
    beatAt: 'wall time',
    seenAt: 'lease time',
    sweptAt: 'wall time',
    endedAt: 'wall time',
    endReason: 'text',
    registeredBy: 'text',
    lostAt: 'lease time',
    lostItems: 'integer',
    lostSuspects: 'integer',
    version: 'integer',
  }),
  answer: table('answer', ['key'], [], {
    key: 'text',
    operation: 'text',
    agent: 'text',
    requestHash: 'text',
    answer: 'text',
    grants: 'json',
    at: 'wall time',
  }),
  recoveryRun: table('recovery_run', ['id', 'queue'], [], {
    id: 'text',
    queue: 'text',
    at: 'wall time',
    trigger: 'text',
    by: 'text',
    locksCleaned: 'integer',
    entriesReclaimed: 'integer',
    quarantined: 'integer',
    messagesReclaimed: 'integer',
  }),
  recoveryTotal: table('recovery_total', ['queue'], ['version'], {
    queue: 'text',
    locksCleaned: 'integer',
    entriesReclaimed: 'integer',
    messagesReclaimed: 'integer',
    version: 'integer',
  }),
  recoveryFailure: table('recovery_failure', ['queue', 'trigger'], ['version'], {
    queue: 'text',
    trigger: 'text',
    count: 'integer',
    at: 'wall time',
    by: 'text',
    error: 'text',
    version: 'integer',
  }),
  addressable: table('addressable', ['name'], [], { name: 'text', at: 'wall time' }),
  cascade: table('cascade', ['blocker'], [], { blocker: 'text', at: 'wall time' }),
  checkpoint: table('checkpoint', ['name'], ['version'], {
    name: 'text',
    seq: 'integer',
    at: 'wall time',
    digest: 'text',
    version: 'integer',
  }),
  horizon: table('horizon', ['waitMs'], ['version'], {
    waitMs: 'integer',
    settledAt: 'wall time',
    settledLeaseAt: 'lease time',
    notedAt: 'wall time',
    notedLeaseAt: 'lease time',
    version: 'integer',
  }),
  message: table('message', ['id'], ['version'], {
    id: 'text',
    sender: 'text',
    type: 'text',
    content: 'text',
    context: 'text',
    parent: 'text',
    priority: 'integer',
    state: 'text',
    quorum: 'integer',
    level: 'integer',
    policy: 'json',
    dueAt: 'lease time',
    allowedAt: 'lease time',
    escalation: 'json',
    note: 'text',
    createdAt: 'wall time',
    closedAt: 'wall time',
    version: 'integer',
  }),
  delivery: table('delivery', ['id'], ['version', 'token'], {
    id: 'text',
    message: 'text',
    level: 'integer',
    recipient: 'text',
    adapter: 'text',
    priority: 'integer',
    state: 'text',
    attempts: 'integer',
    crashes: 'integer',
    nextDueAt: 'lease time',
    allowedAt: 'lease time',
    givesUpAt: 'lease time',
    sentAt: 'wall time',
    readAt: 'wall time',
    ackedAt: 'wall time',
    progressAt: 'wall time',
    note: 'text',
    lastError: 'text',
    createdAt: 'wall time',
    closedAt: 'wall time',
    version: 'integer',
    ...lease,
  }),
  recipient: table('recipient', ['name'], ['version'], {
    name: 'text',
    adapter: 'text',
    address: 'text',
    sendsPerMinute: 'integer',
    acksPerMinute: 'integer',
    deliveriesPerMinute: 'integer',
    registeredAt: 'wall time',
    version: 'integer',
  }),
  allowance: table('allowance', ['name'], ['version'], {
    name: 'text',
    marks: 'lease times',
    at: 'lease time',
    version: 'integer',
  }),
  image: table('image', ['subject', 'id'], [], { subject: 'text', id: 'text', image: 'json' }),
  state: table('state', ['key'], ['version'], {
    key: 'text',
    version: 'integer',
    updatedAt: 'wall time',
    updatedBy: 'text',
    preferred: 'text',
    preferredUntil: 'lease time',
    value: 'text',
  }),
  // One row per namespace.
  stateFloor: table('state_floor', [], ['version'], { version: 'integer' }),
}

const noElements: readonly never[] = Object.freeze([])
const noFields = Object.freeze({})

/** JSON is stored as text. The empty values, which most rows have, are created once and frozen. */
export function parseJson(text: string | null): unknown {
  if (text === null) return null
  if (text === '[]') return noElements
  return text === '{}' ? noFields : JSON.parse(text)
}

export function jsonText(value: unknown): string {
  return Array.isArray(value) && value.length === 0 ? '[]' : JSON.stringify(value)
}

/** The indexes of the fields in which two rows of a table differ. */
export function differing({ code }: Schema, before: object, after: object): number[] {
  return code().differing(before, after, isSameJson)
}

/** Compares two values that are not identical. */
function isSameJson(left: unknown, right: unknown): boolean {
  if (left === null || right === null) return false
  return jsonText(left) === jsonText(right)
}
