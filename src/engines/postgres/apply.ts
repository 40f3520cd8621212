/**
 * Turns what a batch decided into as few statements as possible: per table, one for all changed rows, one for all new
 * ones and one for all removed ones, and one for all events. Guarded updates and deletes raise an error if they meet
 * another number of rows than expected, because COMMIT is already on its way.
 *
 * More than 300 lines, because it is one pass over the changes, in the order in which the statements are sent.
 */
import type { StoredEvent, Subject } from '../../domain/event.ts'
import type { Item } from '../../domain/item.ts'
import { brokenRule } from '../../domain/item-soundness.ts'
import type { Lock } from '../../domain/lock.ts'
import { changedWords, type ReadyWord } from '../../domain/ready-word.ts'
import type { StateFloor } from '../../domain/state.ts'
import type { Change, Decision, EventDraft } from '../../port/decision.ts'
import type { SealedEvents } from '../../port/event.ts'
import { differenceJson, newRowJson } from '../difference.ts'
import { QueryTexts } from '../query-texts.ts'
import type { Kind } from '../row-code.ts'
import { columnOf, differing, jsonText, replacing, type Schema, schema } from '../schema.ts'
import { bigints, texts } from './parameter.ts'
import type { Query } from './plan.ts'
import { columnName } from './tables.ts'
import type { NetChange } from './working-set.ts'

/** Events of one transaction are numbered below this; a batch closes before it has more. */
export const maxEvents = 8192

export interface EventRow
  extends Pick<StoredEvent, 'kind' | 'subject' | 'id' | 'queue' | 'version' | 'agent' | 'token'> {
  readonly change: string | null
  readonly detail: string | null
}

/** Appends the audit events of a decision: one for each change that has one, then its remarks. */
export function tellEvents({ changes, remarks }: Decision, events: EventRow[]): void {
  for (const change of changes) if (change.event) events.push(eventOf(change, change.event))
  for (const remark of remarks ?? []) {
    const { kind, subject, id, queue, agent, token } = remark
    events.push({
      kind,
      subject,
      id,
      queue,
      version: null,
      agent,
      token,
      change: null,
      detail: detailJson(remark),
    })
  }
}

function detailJson({ detail }: EventDraft): string | null {
  return detail === undefined ? null : JSON.stringify(detail)
}

function eventOf(change: Change, event: EventDraft): EventRow {
  const row = (change.after ?? change.before) as unknown as {
    version?: number
    token?: number
    queue?: string
  }
  return {
    kind: event.kind,
    subject: change.table as Subject,
    id: idOf(change),
    queue: row.queue ?? null,
    version: change.after === null ? null : (row.version ?? null),
    agent: event.agent,
    token: row.token ?? null,
    change: changeJson(change),
    detail: detailJson(event),
  }
}

function changeJson({ table, before, after }: Change): string | null {
  if (after === null) return null
  const of = schema[table as NetChange['table']]
  if (before === null) return newRowJson(of, after)
  return differenceJson(of, differing(of, before, after), after)
}

function idOf({ table, before, after }: Change): string {
  const row = (after ?? before) as unknown as Record<string, unknown>
  if (table === 'item') return row.id as string
  if (table === 'lock') return `${row.name}#${row.slot}`
  return String(row[schema[table as NetChange['table']].key[0] as string])
}

/** Replaces check constraints on the table. An error here is a bug of ours, and nothing of the batch is written. */
function assertSound(item: Item): void {
  const rule = brokenRule(item)
  if (rule !== null) throw new Error(`item ${item.id} would break the rule that ${rule}`)
}

/** Everything to send before COMMIT. Rows that give up a unique key go first. */
export function applying(
  namespace: string,
  netChanges: readonly NetChange[],
  sealed: readonly SealedEvents[],
  events: readonly EventRow[],
  { bucket, wall }: { bucket: number; wall: number },
): Query[] {
  for (const { table, after } of netChanges)
    if (table === 'item' && after !== null) assertSound(after as Item)
  const guarded = netChanges.filter(({ table }) => table !== 'stateFloor')
  const changed = guarded.filter(({ before, after }) => before !== null && after !== null)
  const removed = guarded.filter(({ before, after }) => before !== null && after === null)
  const added = guarded.filter(({ before, after }) => before === null && after !== null)
  return [
    ...removals(namespace, removed),
    ...updates(namespace, changed),
    ...insertions(namespace, added),
    ...blockers(namespace, netChanges),
    ...words(namespace, netChanges),
    ...stateFloor(namespace, netChanges),
    ...tokenFloor(namespace, removed, bucket),
    ...sealed.map((range) => unsealing(namespace, range)),
    ...(events.length === 0 ? [] : [recording(namespace, events, wall)]),
  ]
}

/**
 * The fields that renewing an item changes, and those that claiming and finishing it change. A batch that changes no
 * others writes the whole set: one prepared statement that fits most batches is worth more than a shorter one for each.
 */
const usual: Readonly<Partial<Record<NetChange['table'], readonly (readonly string[])[]>>> = {
  item: [
    ['version', 'renewedAt', 'expiresAt'],
    [
      ...['state', 'phase', 'attempts', 'startedAt', 'stateChangedAt', 'closedAt', 'outcome'],
      ...['previousState', 'version', 'agent', 'instance', 'token'],
      ...['grantedAt', 'renewedAt', 'expiresAt', 'leaseMs'],
    ],
  ],
}

/**
 * One statement per table: starting one costs the server as much as several rows. A statement writes the fields that
 * change in any of its rows, so rows with a new payload or data have their own: the others would send theirs along.
 * Rows that give up a key go before those that may take it.
 */
function updates(namespace: string, netChanges: readonly NetChange[]): Query[] {
  const groups = new Map<string, Group>()
  for (const netChange of netChanges) {
    const { table } = netChange
    const indexes = differing(schema[table], netChange.before as object, netChange.after as object)
    if (indexes.length === 0) continue
    const long = table === 'item' ? longFields.filter((index) => indexes.includes(index)) : []
    const rank = rankOf(netChange, long.length > 0)
    const name = `${rank} ${table} ${long.join()}`
    const group = groups.get(name) ?? { table, rank, indexes: new Set(), netChanges: [] }
    for (const index of indexes) group.indexes.add(index)
    group.netChanges.push(netChange)
    groups.set(name, group)
  }
  return [...groups.values()]
    .sort((left, right) => left.rank - right.rank)
    .map((group) => update(namespace, group))
}

interface Group {
  readonly table: NetChange['table']
  readonly rank: number
  readonly indexes: Set<number>
  readonly netChanges: NetChange[]
}

/** An item's long fields, by index. */
const longFields = ['data', 'payload'].map((field) => schema.item.fields.indexOf(field))

function rankOf(netChange: NetChange, isLong: boolean): number {
  if (!isLong) return 1
  return isClosing(netChange) ? 0 : 2
}

function update(namespace: string, { table: name, indexes, netChanges }: Group): Query {
  const table = schema[name]
  const changed = table.fields.filter((_, index) => indexes.has(index))
  const written = usual[name]?.find((fields) => changed.every((field) => fields.includes(field))) ?? changed
  const inOrder = name === 'item' ? closingFirst(netChanges) : netChanges
  return {
    text: updateText(table, written),
    // The count is a parameter, so that a text is prepared once and serves batches of any size.
    values: [
      namespace,
      netChanges.length,
      ...table.asRead.map((field) => valuesOf(table, field, inOrder, 'before')),
      ...written.map((field) => valuesOf(table, field, inOrder, 'after')),
    ],
  }
}

/** Rows are written in the order given, so those that give up a key go before those that may take it. */
function closingFirst(netChanges: readonly NetChange[]): NetChange[] {
  return [...netChanges.filter(isClosing), ...netChanges.filter((netChange) => !isClosing(netChange))]
}

function isClosing({ table, after }: NetChange): boolean {
  return table === 'item' && (after as Item).phase === 'closed'
}

const updateTexts = new QueryTexts()

function updateText(table: Schema, fields: readonly string[]): string {
  return updateTexts.of(`${table.name} ${fields.join(' ')}`, () => buildUpdate(table, fields))
}

function buildUpdate(table: Schema, fields: readonly string[]): string {
  const types = [...table.asRead, ...fields].map((field, index) => `$${index + 3}::${typeOf(table, field)}[]`)
  const names = [
    ...table.asRead.map((field) => `old_${columnOf(field)}`),
    ...fields.map((field) => `new_${columnOf(field)}`),
  ]
  const sets = fields.map((field) => `${columnName(columnOf(field))} = v.new_${columnOf(field)}`).join(', ')
  return counted(`update holdfast.${table.name} t set ${sets}
from unnest(${types.join(', ')}) as v(${names.join(', ')})
${found(table)}
where ${isAsRead(table)}`)
}

/**
 * Finds each row by its key, one by one. With a plain join, a plan made when the table was small would scan all of it,
 * or compare every row with every other row given.
 */
function found(table: Schema): string {
  return `cross join lateral (
  select i.ctid as tid
  from holdfast.${table.name} i
  where i.namespace = $1 ${sameAs(table.asRead, 'i')}
  limit 1
) found`
}

/**
 * The guards are repeated here, not only in the lookup. A statement that waited for another to commit rechecks its own
 * conditions but nothing inside the lookup, and servers before 14.20, 15.15, 16.11, 17.7 and 18.1 do not notice that
 * the row has moved. The key is left out: it never changes, and the planner would search for it a second time.
 */
function isAsRead({ asRead, key }: Schema): string {
  const guards = asRead.filter((field) => !key.includes(field))
  return `t.ctid = found.tid ${sameAs(guards, 't')}`.trimEnd()
}

function sameAs(fields: readonly string[], row: string): string {
  return fields
    .map((field) => `and ${row}.${columnName(columnOf(field))} = v.old_${columnOf(field)}`)
    .join(' ')
}

/** Runs a statement that must affect exactly as many rows as the second parameter says. */
function counted(statement: string): string {
  return `with met as (${statement}
returning 1)
select holdfast.expect(counted.rows, $2)
from (select count(*) as rows from met) counted
where counted.rows <> $2`
}

function removals(namespace: string, netChanges: readonly NetChange[]): Query[] {
  return byTable(netChanges).map(([table, gone]) => {
    const guards = table.asRead
    const types = guards.map((field, index) => `$${index + 3}::${typeOf(table, field)}[]`)
    const names = guards.map((field) => `old_${columnOf(field)}`)
    return {
      text: counted(`delete from holdfast.${table.name} t
using unnest(${types.join(', ')}) as v(${names.join(', ')})
${found(table)}
where ${isAsRead(table)}`),
      values: [namespace, gone.length, ...guards.map((field) => valuesOf(table, field, gone, 'before'))],
    }
  })
}

function insertions(namespace: string, netChanges: readonly NetChange[]): Query[] {
  return byTable(netChanges).map(([table, fresh]) => {
    const columns = table.fields.map((field) => columnName(columnOf(field))).join(', ')
    const types = table.fields.map((field, index) => `$${index + 2}::${typeOf(table, field)}[]`)
    return {
      text: `insert into holdfast.${table.name} (namespace, ${columns})\nselect $1, v.* from unnest(${types.join(', ')}) as v${replacing(table)}`,
      values: [namespace, ...table.fields.map((field) => valuesOf(table, field, fresh, 'after'))],
    }
  })
}

function byTable(netChanges: readonly NetChange[]): [Schema, NetChange[]][] {
  const groups = new Map<Schema, NetChange[]>()
  for (const netChange of netChanges) {
    const table = schema[netChange.table]
    groups.set(table, [...(groups.get(table) ?? []), netChange])
  }
  return [...groups]
}

function valuesOf(
  table: Schema,
  field: string,
  netChanges: readonly NetChange[],
  side: 'before' | 'after',
): Buffer {
  const kind = table.kindOf[field] as Kind
  const values = netChanges.map((netChange) =>
    encode(kind, (netChange[side] as Record<string, unknown>)[field]),
  )
  return kind === 'integer' ? bigints(values as (number | null)[]) : texts(values as (string | null)[])
}

function blockers(namespace: string, netChanges: readonly NetChange[]): Query[] {
  const gone: [string[], string[]] = [[], []]
  const fresh: [string[], string[]] = [[], []]
  for (const { table, before, after } of netChanges) {
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

const wordTypes = '$2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[]'

/** Finds each word by its key, one by one: a plan made when the table was small would scan all of it. */
const deleteWords = `delete from holdfast.ready_word w
using unnest(${wordTypes}) as v(field, value, priority, added_at, item)
cross join lateral (
  select i.ctid as tid
  from holdfast.ready_word i
  where i.namespace = $1 and i.field = v.field and i.value = v.value and i.priority = v.priority
    and i.added_at = v.added_at and i.item = v.item
  limit 1
) found
where w.ctid = found.tid`

/** Inserted only if missing: the words of a row that somebody changed by hand may still be there. */
const insertWords = `insert into holdfast.ready_word (namespace, field, value, priority, added_at, item)
select $1, v.* from unnest(${wordTypes}) as v
on conflict do nothing`

function words(namespace: string, netChanges: readonly NetChange[]): Query[] {
  const changes = netChanges
    .filter(({ table }) => table === 'item')
    .map(({ before, after }) => changedWords(before as Item | null, after as Item | null))
  return [
    ...writing(
      deleteWords,
      namespace,
      changes.flatMap(({ gone }) => gone),
    ),
    ...writing(
      insertWords,
      namespace,
      changes.flatMap(({ fresh }) => fresh),
    ),
  ]
}

function writing(text: string, namespace: string, words: readonly ReadyWord[]): Query[] {
  if (words.length === 0) return []
  const written = (field: 'field' | 'value' | 'item') => texts(words.map((word) => word[field]))
  const numbers = (field: 'priority' | 'addedAt') => bigints(words.map((word) => word[field]))
  const values = [
    written('field'),
    written('value'),
    numbers('priority'),
    numbers('addedAt'),
    written('item'),
  ]
  return [{ text, values: [namespace, ...values] }]
}

/** Floors are only ever raised, whatever was read of them, so transactions that raise one at once need not agree. */
const raiseStateFloor = `insert into holdfast.state_floor as f (namespace, version)
values ($1, $2)
on conflict (namespace) do update set version = greatest(f.version, excluded.version)`

function stateFloor(namespace: string, netChanges: readonly NetChange[]): Query[] {
  return netChanges
    .filter(({ table }) => table === 'stateFloor')
    .map(({ after }) => ({ text: raiseStateFloor, values: [namespace, (after as StateFloor).version] }))
}

/** Only what can come back under the same name needs it: locks, and items with a key. */
function tokenFloor(namespace: string, removed: readonly NetChange[], bucket: number): Query[] {
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
  const text = counted('delete from holdfast.event where namespace = $1 and seq <= $3')
  return { text, values: [namespace, count, through] }
}

/** Numbered by transaction first, so a reader that goes no further than the oldest open one misses nothing. */
const record = `insert into holdfast.event (namespace, seq, at, kind, subject, id, queue, version, agent, token, change, detail)
select $1, (pg_current_xact_id()::text::bigint + coalesce((select m.value::bigint from holdfast.meta m where m.key = 'event_base'), 0)) * ${maxEvents} + v.number, $12, v.kind, v.subject, v.id, v.queue, v.version, v.agent, v.token, v.change, v.detail
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::text[])
as v(number, kind, subject, id, queue, version, agent, token, change, detail)`

function recording(namespace: string, events: readonly EventRow[], wall: number): Query {
  const numbers = (field: 'version' | 'token') => bigints(events.map((event) => event[field]))
  const words = (field: 'kind' | 'subject' | 'id' | 'queue' | 'agent' | 'change' | 'detail') =>
    texts(events.map((event) => event[field]))
  return {
    text: record,
    values: [
      namespace,
      bigints(events.map((_, number) => number)),
      words('kind'),
      words('subject'),
      words('id'),
      words('queue'),
      numbers('version'),
      words('agent'),
      numbers('token'),
      words('change'),
      words('detail'),
      wall,
    ],
  }
}

function encode(kind: Kind, value: unknown): unknown {
  if (value === null || value === undefined) return null
  return kind === 'json' ? jsonText(value) : value
}

function typeOf(table: Schema, field: string): string {
  return table.kindOf[field] === 'integer' ? 'bigint' : 'text'
}
