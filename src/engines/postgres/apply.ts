/**
 * What a batch decided, as few statements: one for all rows of a table that change the same fields, one for all
 * that are new, one for all that go, one for all events. Each raises when it meets another number of rows than it
 * should, because COMMIT is already on its way.
 */
import type { StoredEvent, Subject } from '../../domain/event.ts'
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import { differenceJson, newRowJson } from '../difference.ts'
import type { Change, Decision, EventDraft, SealedEvents } from '../engine.ts'
import { columnOf, jsonText, type Kind, type Schema, schema } from '../schema.ts'
import type { Query } from './plan.ts'
import { columnName } from './tables.ts'
import type { Net } from './working-set.ts'

/** Events of one transaction are numbered below this; a batch is closed before it has more. */
export const eventsMax = 8192

interface EventRow
  extends Pick<StoredEvent, 'kind' | 'subject' | 'id' | 'queue' | 'version' | 'agent' | 'token'> {
  readonly change: string | null
  readonly detail: string | null
}

/** What a decision tells the audit: one event for each change that has one, and its remarks. */
export function eventsOf({ changes, remarks = [] }: Decision): EventRow[] {
  const told = changes.flatMap((change) => (change.event ? [eventOf(change, change.event)] : []))
  return [
    ...told,
    ...remarks.map((remark) => ({
      ...draft(remark),
      subject: remark.subject,
      id: remark.id,
      queue: remark.queue,
      version: null,
      token: remark.token,
      change: null,
    })),
  ]
}

function draft({ kind, agent, detail }: EventDraft): Pick<EventRow, 'kind' | 'agent' | 'detail'> {
  return { kind, agent, detail: detail === undefined ? null : JSON.stringify(detail) }
}

function eventOf(change: Change, event: EventDraft): EventRow {
  const { before, after } = change
  const row = (after ?? before) as unknown as { version?: number; token?: number; queue?: string }
  return {
    ...draft(event),
    subject: change.table as Subject,
    id: idOf(change),
    queue: row.queue ?? null,
    version: after && 'version' in after ? (after.version as number) : null,
    token: row.token ?? null,
    change: changeJson(change),
  }
}

function changeJson({ table, before, after }: Change): string | null {
  if (after === null) return null
  const of = schema[table as Net['table']]
  if (before === null) return newRowJson(of, after)
  return differenceJson(of, before, after) ?? '{}'
}

function idOf({ table, before, after }: Change): string {
  const row = (after ?? before) as unknown as Record<string, unknown>
  if (table === 'lock') return `${row.name}#${row.slot}`
  return String(row[schema[table as Net['table']].key[0] as string])
}

/** Everything to send before COMMIT. Rows that give up a unique key go first. */
export function applying(
  namespace: string,
  nets: readonly Net[],
  sealed: readonly SealedEvents[],
  events: readonly EventRow[],
  { bucket, wall }: { bucket: number; wall: number },
): Query[] {
  const changed = nets.filter(({ before, after }) => before !== null && after !== null)
  const removed = nets.filter(({ before, after }) => before !== null && after === null)
  const added = nets.filter(({ before, after }) => before === null && after !== null)
  return [
    ...removals(namespace, removed),
    ...updates(namespace, changed),
    ...insertions(namespace, added),
    ...blockers(namespace, nets),
    ...floor(namespace, removed, bucket),
    ...sealed.map((range) => unsealing(namespace, range)),
    ...(events.length === 0 ? [] : [recording(namespace, events, wall)]),
  ]
}

/** Runs a statement that must meet exactly so many rows. */
function exactly(count: number, statement: string): string {
  return `with met as (${statement} returning 1)\nselect holdfast.expect((select count(*) from met), ${count})`
}

function updates(namespace: string, nets: readonly Net[]): Query[] {
  const groups = new Map<string, { table: Schema; fields: readonly string[]; nets: Net[] }>()
  for (const net of nets) {
    const table = schema[net.table]
    const fields = changedFields(table, net.before as object, net.after as object)
    if (fields.length === 0) continue
    const isClosing = net.table === 'item' && (net.after as Item).standing === 'closed'
    const group = `${isClosing ? 0 : 1} ${table.name} ${fields.join(' ')}`
    const known = groups.get(group)
    if (known) known.nets.push(net)
    else groups.set(group, { table, fields, nets: [net] })
  }
  return [...groups]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([, { table, fields, nets: alike }]) => update(namespace, table, fields, alike))
}

function update(namespace: string, table: Schema, fields: readonly string[], nets: readonly Net[]): Query {
  const guards = table.asRead
  const arrays = [
    ...guards.map((field) => valuesOf(table, field, nets, 'before')),
    ...fields.map((field) => valuesOf(table, field, nets, 'after')),
  ]
  const types = [...guards, ...fields].map((field, index) => `$${index + 3}::${typeOf(table, field)}[]`)
  const names = [
    ...guards.map((field) => `old_${columnOf(field)}`),
    ...fields.map((field) => `new_${columnOf(field)}`),
  ]
  const sets = fields.map((field) => `${columnName(columnOf(field))} = v.new_${columnOf(field)}`).join(', ')
  const met = [byKey(table), ...guards.map(asItWas)].join('\n')
  const statement = `update holdfast.${table.name} t set ${sets}
from unnest(${types.join(', ')}) as v(${names.join(', ')})
where t.namespace = $1
${met}`
  // The count is a parameter: texts are prepared once and serve batches of any size.
  return { text: counted(statement), values: [namespace, nets.length, ...arrays] }
}

/**
 * The rows by their key first, whose values are the third parameter: a plan made when the table was small would
 * otherwise walk all of it and look for each row among those given.
 */
function byKey(table: Schema): string {
  const [first] = table.key
  if (first === undefined) return ''
  return `and t.${columnName(columnOf(first))} = any($3::${typeOf(table, first)}[])`
}

function asItWas(field: string): string {
  return `and t.${columnName(columnOf(field))} = v.old_${columnOf(field)}`
}

function counted(statement: string): string {
  return `with met as (${statement}\nreturning 1)\nselect holdfast.expect((select count(*) from met), $2)`
}

function removals(namespace: string, nets: readonly Net[]): Query[] {
  return byTable(nets).map(([table, gone]) => {
    const guards = table.asRead
    const types = guards.map((field, index) => `$${index + 3}::${typeOf(table, field)}[]`)
    const names = guards.map((field) => `old_${columnOf(field)}`)
    const met = [byKey(table), ...guards.map(asItWas)].join('\n')
    return {
      text: counted(`delete from holdfast.${table.name} t
using unnest(${types.join(', ')}) as v(${names.join(', ')})
where t.namespace = $1
${met}`),
      values: [namespace, gone.length, ...guards.map((field) => valuesOf(table, field, gone, 'before'))],
    }
  })
}

function insertions(namespace: string, nets: readonly Net[]): Query[] {
  return byTable(nets).map(([table, fresh]) => {
    const columns = table.fields.map((field) => columnName(columnOf(field))).join(', ')
    const types = table.fields.map((field, index) => `$${index + 2}::${typeOf(table, field)}[]`)
    return {
      text: `insert into holdfast.${table.name} (namespace, ${columns})\nselect $1, v.* from unnest(${types.join(', ')}) as v`,
      values: [namespace, ...table.fields.map((field) => valuesOf(table, field, fresh, 'after'))],
    }
  })
}

function byTable(nets: readonly Net[]): [Schema, Net[]][] {
  const groups = new Map<Schema, Net[]>()
  for (const net of nets) {
    const table = schema[net.table]
    groups.set(table, [...(groups.get(table) ?? []), net])
  }
  return [...groups]
}

function valuesOf(table: Schema, field: string, nets: readonly Net[], side: 'before' | 'after'): unknown[] {
  const kind = table.kindOf[field] as Kind
  return nets.map((net) => encode(kind, (net[side] as Record<string, unknown>)[field]))
}

function blockers(namespace: string, nets: readonly Net[]): Query[] {
  const gone: [string[], string[]] = [[], []]
  const fresh: [string[], string[]] = [[], []]
  for (const { table, before, after } of nets) {
    if (table !== 'item') continue
    const old = (before as Item | null)?.waitingFor ?? []
    const now = (after as Item | null)?.waitingFor ?? []
    const id = ((after ?? before) as Item).id
    for (const blocker of old) if (!now.includes(blocker)) push(gone, blocker, id)
    for (const blocker of now) if (!old.includes(blocker)) push(fresh, blocker, id)
  }
  const queries: Query[] = []
  if (gone[0].length > 0) {
    const text =
      'delete from holdfast.blocker b using unnest($2::text[], $3::text[]) as v(blocker, item) where b.namespace = $1 and b.blocker = v.blocker and b.item = v.item'
    queries.push({ text, values: [namespace, ...gone] })
  }
  if (fresh[0].length > 0) {
    const text =
      'insert into holdfast.blocker (namespace, blocker, item) select $1, v.* from unnest($2::text[], $3::text[]) as v'
    queries.push({ text, values: [namespace, ...fresh] })
  }
  return queries
}

function push(columns: [string[], string[]], blocker: string, item: string): void {
  columns[0].push(blocker)
  columns[1].push(item)
}

/** Only what can come back under the same name needs it: locks, and items with a key. */
function floor(namespace: string, removed: readonly Net[], bucket: number): Query[] {
  const tokens = removed.flatMap(({ table, before }) => {
    if (table !== 'lock' && table !== 'item') return []
    const row = before as Lock | Item
    return 'key' in row && row.key === null ? [] : [row.token]
  })
  if (tokens.length === 0) return []
  const text =
    'insert into holdfast.token_floor as f (namespace, bucket, floor) values ($1, $2, $3) on conflict (namespace, bucket) do update set floor = greatest(f.floor, excluded.floor)'
  return [{ text, values: [namespace, bucket, Math.max(...tokens)] }]
}

function unsealing(namespace: string, { through, count }: SealedEvents): Query {
  const text = exactly(count, 'delete from holdfast.event where namespace = $1 and seq <= $2')
  return { text, values: [namespace, through] }
}

/** Numbered by the transaction first: a reader that goes no further than the oldest open one misses nothing. */
const record = `insert into holdfast.event (namespace, seq, at, kind, subject, id, queue, version, agent, token, change, detail)
select $1, (pg_current_xact_id()::text::bigint + (select holdfast.event_base())) * ${eventsMax} + v.number, $12, v.kind, v.subject, v.id, v.queue, v.version, v.agent, v.token, v.change, v.detail
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::text[])
as v(number, kind, subject, id, queue, version, agent, token, change, detail)`

function recording(namespace: string, events: readonly EventRow[], wall: number): Query {
  const column = (field: keyof EventRow) => events.map((event) => event[field])
  return {
    text: record,
    values: [
      namespace,
      events.map((_, number) => number),
      ...(['kind', 'subject', 'id', 'queue', 'version', 'agent', 'token', 'change', 'detail'] as const).map(
        column,
      ),
      wall,
    ],
  }
}

/** In the order of the table, so that rows that change alike share a statement. */
function changedFields(table: Schema, before: object, after: object): string[] {
  const old = before as Record<string, unknown>
  const now = after as Record<string, unknown>
  return table.fields.filter((field) => {
    if (old[field] === now[field]) return false
    const kind = table.kindOf[field] as Kind
    return kind !== 'json' || encode(kind, old[field]) !== encode(kind, now[field])
  })
}

function encode(kind: Kind, value: unknown): unknown {
  if (value === null || value === undefined) return null
  return kind === 'json' ? jsonText(value) : value
}

function typeOf(table: Schema, field: string): string {
  return table.kindOf[field] === 'integer' ? 'bigint' : 'text'
}
