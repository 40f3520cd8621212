/** Applies a decision: rows guarded by what was read, each with its event. Contains no rule. */
import { renewalFields, type StoredEvent, type Subject } from '../../domain/event.ts'
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import { HoldfastError } from '../../errors.ts'
import type { Change, Decision, EventDraft, SealedEvents, Tables } from '../engine.ts'
import type { Value } from './driver.ts'
import type { Source } from './rows.ts'
import { differingFields, encode, snakeCase, type Table, tables } from './tables.ts'

export function apply(place: Source, decision: Decision): void {
  for (const change of decision.changes) applyChange(place, change)
  for (const remark of decision.remarks ?? []) {
    writeEvent(place, remark, {
      subject: remark.subject,
      id: remark.id,
      queue: remark.queue,
      version: null,
      token: remark.token,
      change: null,
    })
  }
}

function applyChange(place: Source, change: Change): void {
  if (change.table === 'sealedEvents') {
    removeEvents(place, change.before as SealedEvents)
    return
  }
  const table = tables[change.table]
  const before = change.before as Record<string, unknown> | null
  const after = change.after as Record<string, unknown> | null
  const fields = before === null || after === null ? [] : differingFields(table, before, after)
  if (before === null && after !== null) insert(place, table, after)
  else if (before !== null && after === null) remove(place, table, before)
  else if (before !== null && after !== null && fields.length > 0) update(place, table, before, after, fields)
  if (change.table === 'item') indexBlockers(place, change.before, change.after)
  if (change.table === 'queue' || change.table === 'workflow') place.queues.clear()
  if (change.after === null && (change.table === 'lock' || change.table === 'item'))
    raiseFloor(place, change.before as Lock | Item)
  if (change.event) writeEvent(place, change.event, subjectOf(change, patch(before, after, fields)))
}

function insert({ connection, namespace }: Source, table: Table, row: Record<string, unknown>): void {
  const values = table.fields.map((field, index) => encode(table.kinds[index] ?? 'text', row[field]))
  connection.run(table.insert, namespace, ...values)
}

function update(
  { connection, namespace }: Source,
  table: Table,
  before: Record<string, unknown>,
  after: Record<string, unknown>,
  fields: readonly string[],
): void {
  const values = fields.map((field) => encode(table.kindOf[field] ?? 'text', after[field]))
  const changed = connection.run(updateText(table, fields), ...values, namespace, ...asRead(table, before))
  expectOne(changed, table, before)
}

/** One text for each set of columns that ever changes together: a few dozen in all. */
function updateText(table: Table, fields: readonly string[]): string {
  const key = fields.join()
  const known = table.updates.get(key)
  if (known !== undefined) return known
  const assignments = fields.map((field) => `${snakeCase(field)} = ?`).join(', ')
  const text = `update ${table.name}\nset ${assignments}\n${table.whereAsRead}`
  table.updates.set(key, text)
  return text
}

function remove({ connection, namespace }: Source, table: Table, before: Record<string, unknown>): void {
  expectOne(connection.run(table.remove, namespace, ...asRead(table, before)), table, before)
}

function asRead(table: Table, before: Record<string, unknown>): Value[] {
  return table.asRead.map((field) => encode(table.kindOf[field] ?? 'text', before[field]))
}

/** Rows are read in the same write transaction, so a missing one means a bug, not a race. */
function expectOne(changed: number, table: Table, before: Record<string, unknown>): void {
  if (changed === 1) return
  throw new HoldfastError('INTERNAL', {
    what: `${table.name} ${String(before[table.key[0] as string])} was not as it had been read (${changed} rows matched)`,
    next: 'nothing was changed; please report this',
  })
}

function removeEvents({ connection, namespace }: Source, { through, count }: SealedEvents): void {
  const removed = connection.run(
    'delete from event where namespace = ? and seq <= ?',
    namespace,
    BigInt(through),
  )
  if (removed === count) return
  throw new HoldfastError('INTERNAL', {
    what: `${removed} events up to ${through} were there, not ${count}`,
    next: 'nothing was changed; please report this',
  })
}

function indexBlockers({ connection, namespace }: Source, before: Item | null, after: Item | null): void {
  const old = before?.waitingFor ?? []
  const now = after?.waitingFor ?? []
  if (old === now || (old.length === 0 && now.length === 0)) return
  const id = (after ?? before)?.id as string
  for (const blocker of old) {
    if (!now.includes(blocker))
      connection.run(
        'delete from blocker where namespace = ? and blocker = ? and item = ?',
        namespace,
        blocker,
        id,
      )
  }
  for (const blocker of now) {
    if (!old.includes(blocker))
      connection.run(
        'insert into blocker (namespace, blocker, item) values (?, ?, ?)',
        namespace,
        blocker,
        id,
      )
  }
}

/** Only what can come back under the same name needs it: locks, and items with a key. */
function raiseFloor({ connection, namespace }: Source, row: Lock | Item): void {
  if ('key' in row && row.key === null) return
  connection.run(
    'insert into namespace (name, token_floor) values (?, ?) on conflict (name) do update set token_floor = max(token_floor, excluded.token_floor)',
    namespace,
    BigInt(row.token),
  )
}

/** The fields that are new: all that are set of a new row, the differing ones of a changed row; no renewal times. */
function patch(
  before: Record<string, unknown> | null,
  after: Record<string, unknown> | null,
  fields: readonly string[],
): Record<string, unknown> | null {
  if (after === null) return null
  const changed: Record<string, unknown> = {}
  for (const field of before === null ? Object.keys(after) : fields) {
    const isNew = before !== null || after[field] !== null
    if (isNew && !renewalFields.has(field)) changed[field] = after[field]
  }
  return changed
}

type RowChange = Exclude<Change, { table: 'sealedEvents' }>
type EventParts = Pick<StoredEvent, 'subject' | 'id' | 'queue' | 'version' | 'token' | 'change'>

function subjectOf(change: RowChange, fields: Record<string, unknown> | null): EventParts {
  const row = (change.after ?? change.before) as Tables[keyof Tables] & {
    version?: number
    token?: number
    queue?: string
  }
  const version = change.after && 'version' in change.after ? change.after.version : null
  return {
    subject: change.table as Subject,
    id: idOf(change),
    queue: row.queue ?? null,
    version,
    token: row.token ?? null,
    change: fields,
  }
}

function idOf(change: RowChange): string {
  const row = change.after ?? change.before
  if (change.table === 'lock') return `${(row as Lock).name}#${(row as Lock).slot}`
  return String((row as unknown as Record<string, unknown>)[tables[change.table].key[0] as string])
}

function writeEvent({ connection, namespace, wall }: Source, event: EventDraft, parts: EventParts): void {
  connection.run(
    'insert into event (namespace, at, kind, subject, id, queue, version, agent, token, change, detail) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    namespace,
    BigInt(wall),
    event.kind,
    parts.subject,
    parts.id,
    parts.queue,
    parts.version === null ? null : BigInt(parts.version),
    event.agent,
    parts.token === null ? null : BigInt(parts.token),
    parts.change === null ? null : JSON.stringify(parts.change),
    event.detail === undefined ? null : JSON.stringify(event.detail),
  )
}
