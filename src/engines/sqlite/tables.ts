/** How rows of the rules lie in tables: one description a table, from which statements are made. */
import { renewalFields } from '../../domain/event.ts'
import { HoldfastError } from '../../errors.ts'
import type { Tables } from '../engine.ts'
import type { Value } from './driver.ts'

export type Kind = 'integer' | 'text' | 'json'

export interface Table {
  readonly name: string
  readonly fields: readonly string[]
  readonly columns: readonly string[]
  readonly kinds: readonly Kind[]
  /** Fields that identify a row within its namespace. */
  readonly key: readonly string[]
  /** A row of nulls: filling one in is faster than growing one field by field. */
  readonly blank: Readonly<Record<string, unknown>>
  readonly kindOf: Readonly<Record<string, Kind>>
  /** Fields a write must still find as it read them: the key, and the guards. */
  readonly asRead: readonly string[]
  readonly whereAsRead: string
  readonly insert: string
  readonly remove: string
  /** Updates by the fields they set. */
  readonly updates: UpdateBranch
}

/**
 * One step down for each field an update sets, in the order of the table's fields; the text is at the end of the
 * way. Walking there is cheaper than building a key and looking it up.
 */
interface UpdateBranch {
  readonly next: (UpdateBranch | undefined)[]
  readonly columns: readonly string[]
  text: string | null
}

function table(name: string, key: string[], guards: string[], kindOf: Record<string, Kind>): Table {
  const fields = Object.keys(kindOf)
  const columns = fields.map(snakeCase)
  const asRead = [...key, ...guards]
  const whereAsRead = `where namespace = ?\n${asRead.map((field) => `and ${snakeCase(field)} = ?`).join('\n')}`
  return {
    name,
    key,
    fields,
    columns,
    kinds: Object.values(kindOf),
    blank: Object.fromEntries(fields.map((field) => [field, null])),
    kindOf,
    asRead,
    whereAsRead,
    insert: `insert into ${name} (namespace, ${columns.join(', ')})\nvalues (?${', ?'.repeat(columns.length)})`,
    remove: `delete from ${name}\n${whereAsRead}`,
    updates: { next: [], columns: [], text: null },
  }
}

function snakeCase(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

const lease = {
  agent: 'text',
  instance: 'text',
  token: 'integer',
  grantedAt: 'integer',
  renewedAt: 'integer',
  expiresAt: 'integer',
  leaseMs: 'integer',
} as const

export const tables: { readonly [Name in Exclude<keyof Tables, 'sealedEvents'>]: Table } = {
  item: table('item', ['id'], ['version', 'token'], {
    id: 'text',
    queue: 'text',
    workflow: 'text',
    state: 'text',
    standing: 'text',
    priority: 'integer',
    key: 'text',
    dedupeKey: 'text',
    parent: 'text',
    ancestors: 'json',
    blockers: 'json',
    waitingFor: 'json',
    runAt: 'integer',
    attempts: 'integer',
    failures: 'integer',
    crashes: 'integer',
    attemptsMax: 'integer',
    quarantinedAt: 'integer',
    quarantineReason: 'text',
    cancelRequestedAt: 'integer',
    submittedBy: 'text',
    addedAt: 'integer',
    startedAt: 'integer',
    stateChangedAt: 'integer',
    closedAt: 'integer',
    outcome: 'text',
    previousState: 'text',
    version: 'integer',
    ...lease,
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
    acquiredAt: 'integer',
    version: 'integer',
    ...lease,
    user: 'text',
    run: 'text',
    slots: 'integer',
    depth: 'integer',
    delayMs: 'integer',
    delayedSince: 'integer',
    patterns: 'json',
    mode: 'text',
  }),
  waiter: table('lock_waiter', ['id'], ['version', 'token'], {
    id: 'text',
    name: 'text',
    joinedAt: 'integer',
    version: 'integer',
    ...lease,
  }),
  progress: table('progress', ['run'], ['version', 'token'], {
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
    startedAt: 'integer',
    updatedAt: 'integer',
    endedAt: 'integer',
    runningSince: 'integer',
    activeMs: 'integer',
    version: 'integer',
  }),
  outcome: table('outcome', ['id'], ['version'], {
    id: 'text',
    run: 'text',
    key: 'text',
    outcome: 'text',
    error: 'text',
    at: 'integer',
    version: 'integer',
  }),
  queue: table('queue', ['name'], ['version'], {
    name: 'text',
    workflow: 'text',
    slots: 'integer',
    attemptsMax: 'integer',
    crashesMax: 'integer',
    pausedAt: 'integer',
    pausedBy: 'text',
    pauseReason: 'text',
    createdAt: 'integer',
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
    startedAt: 'integer',
    beatAt: 'integer',
    sweptAt: 'integer',
    endedAt: 'integer',
    endReason: 'text',
    registeredBy: 'text',
    version: 'integer',
  }),
  answer: table('answer', ['key'], [], {
    key: 'text',
    operation: 'text',
    requestHash: 'text',
    answer: 'text',
    grants: 'json',
    at: 'integer',
  }),
  recoveryRun: table('recovery_run', ['id'], [], {
    id: 'text',
    at: 'integer',
    trigger: 'text',
    by: 'text',
    locksCleaned: 'integer',
    entriesReclaimed: 'integer',
    quarantined: 'integer',
    messagesReclaimed: 'integer',
  }),
  // One row a namespace.
  recoveryTotal: table('recovery_total', [], ['version'], {
    locksCleaned: 'integer',
    entriesReclaimed: 'integer',
    messagesReclaimed: 'integer',
    version: 'integer',
  }),
  cascade: table('cascade', ['blocker'], [], { blocker: 'text', at: 'integer' }),
  checkpoint: table('checkpoint', ['name'], ['version'], {
    name: 'text',
    seq: 'integer',
    at: 'integer',
    digest: 'text',
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
    dueAt: 'integer',
    placeAt: 'integer',
    escalation: 'json',
    note: 'text',
    createdAt: 'integer',
    closedAt: 'integer',
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
    nextDueAt: 'integer',
    placeAt: 'integer',
    givesUpAt: 'integer',
    sentAt: 'integer',
    readAt: 'integer',
    ackedAt: 'integer',
    progressAt: 'integer',
    note: 'text',
    lastError: 'text',
    createdAt: 'integer',
    closedAt: 'integer',
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
    registeredAt: 'integer',
    version: 'integer',
  }),
  allowance: table('allowance', ['name'], ['version'], {
    name: 'text',
    marks: 'json',
    at: 'integer',
    version: 'integer',
  }),
  image: table('image', ['subject', 'id'], [], { subject: 'text', id: 'text', image: 'json' }),
  state: table('state', ['key'], ['version'], {
    key: 'text',
    version: 'integer',
    updatedAt: 'integer',
    updatedBy: 'text',
    value: 'text',
  }),
  // One row a namespace.
  stateFloor: table('state_floor', [], ['version'], { version: 'integer' }),
}

/** Integers are bound as BigInt: some drivers bind every JS number as a floating-point value. */
export function encode(kind: Kind, value: unknown): Value {
  if (value === null || value === undefined) return null
  if (kind === 'integer') return BigInt(value as number)
  if (kind === 'json') return emptyJson(value) ?? JSON.stringify(value)
  return value as string
}

function emptyJson(value: unknown): string | undefined {
  return Array.isArray(value) && value.length === 0 ? '[]' : undefined
}

const noElements: readonly never[] = Object.freeze([])
const noFields = Object.freeze({})

/** A row from its first column: a JSON array of values in the order of the table's columns. */
export function decode<Row>(table: Table, [packed]: readonly unknown[], readJson = decodeJson): Row {
  const values = JSON.parse(packed as string) as unknown[]
  try {
    return rowOf<Row>(table, values, readJson)
  } catch (cause) {
    throw damaged(table, values, cause)
  }
}

function damaged(table: Table, values: readonly unknown[], cause: unknown): HoldfastError {
  const id = table.key.map((field) => values[table.fields.indexOf(field)]).join(' ')
  return new HoldfastError('STORE_UNFIT', {
    what: `the ${table.name} ${id} was damaged in the store and cannot be read`,
    next: 'restore it from a backup; nothing was changed',
    facts: { table: table.name, id },
    cause,
  })
}

function rowOf<Row>(table: Table, values: readonly unknown[], readJson: typeof decodeJson): Row {
  const row: Record<string, unknown> = { ...table.blank }
  for (let index = 0; index < table.fields.length; index++) {
    const value = values[index]
    row[table.fields[index] as string] =
      table.kinds[index] === 'json' ? readJson(value as string | null) : value
  }
  return row as Row
}

/** The same for tables whose rules can do without: JSON that cannot be read is null. */
export function decodeDamaged<Row>(table: Table, packed: readonly unknown[]): Row {
  try {
    return decode<Row>(table, packed)
  } catch {
    return decode<Row>(table, packed, decodeJsonOrNull)
  }
}

function decodeJsonOrNull(text: string | null): unknown {
  try {
    return decodeJson(text)
  } catch {
    return null
  }
}

function decodeJson(text: string | null): unknown {
  if (text === null) return null
  if (text === '[]') return noElements
  return text === '{}' ? noFields : JSON.parse(text)
}

/** What differs between two rows of a table: the update that writes it, its values, and the same as JSON. */
export interface Difference {
  readonly update: string
  readonly values: Value[]
  /** Without renewal times, which no event tells. */
  readonly json: string
}

/** One pass over the fields, since every change of every row goes through it. Null when the rows are the same. */
export function differenceOf(table: Table, before: object, after: object): Difference | null {
  const old = before as Record<string, unknown>
  const now = after as Record<string, unknown>
  const { fields, kinds } = table
  let branch = table.updates
  let json = ''
  const values: Value[] = []
  for (let index = 0; index < fields.length; index++) {
    const field = fields[index] as string
    const value = now[field]
    if (old[field] === value) continue
    const kind = kinds[index] as Kind
    const encoded = encode(kind, value)
    if (kind === 'json' && encoded === encode(kind, old[field])) continue
    values.push(encoded)
    if (!renewalFields.has(field)) json += jsonField(json, field, kind, encoded)
    branch = branch.next[index] ?? grow(branch, table, index)
  }
  if (values.length === 0) return null
  branch.text ??= `update ${table.name}\nset ${branch.columns.map((name) => `${name} = ?`).join(', ')}\n${table.whereAsRead}`
  return { update: branch.text, values, json: `{${json}}` }
}

function jsonField(before: string, field: string, kind: Kind, encoded: Value): string {
  const value = kind === 'text' && encoded !== null ? quoted(encoded as string) : String(encoded)
  return `${before === '' ? '' : ','}"${field}":${value}`
}

const isPlain = /^[\w .:/#-]*$/

/** Names, ids and states need no escaping, and asking JSON for each costs more than looking. */
function quoted(text: string): string {
  return isPlain.test(text) ? `"${text}"` : JSON.stringify(text)
}

function grow(branch: UpdateBranch, table: Table, index: number): UpdateBranch {
  const columns = [...branch.columns, table.columns[index] as string]
  const grown = { next: [], columns, text: null }
  branch.next[index] = grown
  return grown
}

/** A new row as JSON: the fields that are set. */
export function newRowJson(table: Table, row: object): string {
  let json = ''
  for (const [index, field] of table.fields.entries()) {
    const kind = table.kinds[index] as Kind
    const encoded = encode(kind, (row as Record<string, unknown>)[field])
    if (encoded !== null && !renewalFields.has(field)) json += jsonField(json, field, kind, encoded)
  }
  return `{${json}}`
}
