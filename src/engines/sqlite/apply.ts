/** Applies a decision: writes rows, guarded by what was read, each with its event. Contains no rule. */
import type { StoredEvent, Subject } from '../../domain/event.ts'
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import { changedWords, type ReadyWord } from '../../domain/ready-word.ts'
import { HoldfastError } from '../../errors.ts'
import type { Change, Decision, EventDraft } from '../../port/decision.ts'
import type { SealedEvents } from '../../port/event.ts'
import type { Tables } from '../../port/tables.ts'
import { newRowJson } from '../difference.ts'
import type { Source } from './rows.ts'
import { type Difference, differenceOf, encodeAsRead, encodeRow, type Table, tables } from './tables.ts'

export function apply(source: Source, decision: Decision): void {
  for (const change of decision.changes) applyChange(source, change)
  for (const remark of decision.remarks ?? []) {
    writeEvent(source, remark, {
      subject: remark.subject,
      id: remark.id,
      queue: remark.queue,
      version: null,
      token: remark.token,
      change: null,
    })
  }
}

function applyChange(source: Source, change: Change): void {
  source.known.note(change)
  if (change.table === 'sealedEvents') {
    removeEvents(source, change.before as SealedEvents)
    return
  }
  const written = writeRow(source, tables[change.table], change)
  if (change.table === 'item') {
    indexBlockers(source, change.before, change.after)
    indexWords(source, change.before, change.after)
  }
  if (change.after === null && (change.table === 'lock' || change.table === 'item'))
    raiseFloor(source, change.before as Lock | Item)
  if (change.event) writeEvent(source, change.event, subjectOf(change, written))
}

/** Inserts, updates or removes a row. Returns what is new in it as JSON, or null when the row is gone. */
function writeRow(source: Source, table: Table, { before, after }: RowChange): string | null {
  if (after === null) {
    if (before !== null) remove(source, table, before)
    return null
  }
  if (before === null) {
    insert(source, table, after)
    return newRowJson(table, after)
  }
  const difference = differenceOf(table, before, after)
  if (difference === null) return '{}'
  update(source, table, before, difference)
  return difference.json
}

function insert({ connection, namespace }: Source, table: Table, row: object): void {
  connection.run(table.insert, namespace, ...encodeRow(table, row))
}

function update(source: Source, table: Table, before: object, { update, values }: Difference): void {
  const guards = encodeAsRead(table, before)
  expectOne(source.connection.run(update, ...values, source.namespace, ...guards), table, before)
}

function remove({ connection, namespace }: Source, table: Table, before: object): void {
  expectOne(connection.run(table.remove, namespace, ...encodeAsRead(table, before)), table, before)
}

/** Rows are read in the same write transaction, so a missing one means a bug, not a race. */
function expectOne(changed: number, table: Table, before: object): void {
  if (changed === 1) return
  throw new HoldfastError('INTERNAL', {
    what: `${table.name} ${String((before as Record<string, unknown>)[table.key[0] as string])} had changed since it was read (${changed} rows matched)`,
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
    what: `found ${removed} events up to ${through}, not ${count}`,
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

/** Inserted only if missing: the words of a row that someone changed by hand may still be there. */
const insertWord = `insert into ready_word (namespace, field, value, priority, added_at, item)
values (?, ?, ?, ?, ?, ?)
on conflict do nothing`
const deleteWord =
  'delete from ready_word where namespace = ? and field = ? and value = ? and priority = ? and added_at = ? and item = ?'

function indexWords({ connection, namespace }: Source, before: Item | null, after: Item | null): void {
  const { gone, fresh } = changedWords(before, after)
  const write = (text: string, { field, value, priority, addedAt, item }: ReadyWord) =>
    connection.run(text, namespace, field, value, BigInt(priority), BigInt(addedAt), item)
  for (const word of gone) write(deleteWord, word)
  for (const word of fresh) write(insertWord, word)
}

const updateFloor = 'update namespace set token_floor = max(token_floor, ?) where name = ?'
const insertFloor = 'insert into namespace (name, token_floor) values (?, ?)'

/** Only rows that can come back under the same name need it: locks, and items with a key. */
function raiseFloor({ connection, namespace }: Source, row: Lock | Item): void {
  if ('key' in row && row.key === null) return
  const token = BigInt(row.token)
  if (connection.run(updateFloor, token, namespace) === 0) connection.run(insertFloor, namespace, token)
}

type RowChange = Exclude<Change, { table: 'sealedEvents' }>
interface EventParts extends Pick<StoredEvent, 'subject' | 'id' | 'queue' | 'version' | 'token'> {
  /** JSON text. */
  readonly change: string | null
}

function subjectOf(change: RowChange, written: string | null): EventParts {
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
    change: written,
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
    parts.change,
    event.detail === undefined ? null : JSON.stringify(event.detail),
  )
}
