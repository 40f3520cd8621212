/** Facts about the store itself. */
import { assertUsable } from '../marks.ts'
import type { MarkName } from '../transfer.ts'
import type { Connection } from './connection.ts'

export function readMark(connection: Connection, name: MarkName): string | null {
  return (connection.get('select value from meta where key = ?', name)?.[0] ?? null) as string | null
}

export function writeMark(connection: Connection, name: MarkName, value: string): void {
  connection.run(
    'insert into meta (key, value) values (?, ?) on conflict (key) do update set value = excluded.value',
    name,
    value,
  )
}

/** Refuses an unfinished copy, and a store that has moved. */
export function assertUsableStore(connection: Connection, location: string): void {
  assertUsable(location, { copy: readMark(connection, 'copy'), moved: readMark(connection, 'moved') })
}

/** The same check, with no statement left behind. */
export function assertUsableAtOpen(connection: Connection, location: string): void {
  const mark = (name: MarkName) =>
    connection.peek(`select value as text from meta where key = '${name}'`)[0] ?? null
  assertUsable(location, { copy: mark('copy'), moved: mark('moved') })
}

/** How long leases that nobody renews are spared after they expire, ms. */
export function readManualGrace(connection: Connection): number {
  return Number(readMark(connection, 'manual_grace_ms') ?? 0)
}

export function writeManualGrace(connection: Connection, graceMs: number): void {
  if (readManualGrace(connection) !== graceMs) writeMark(connection, 'manual_grace_ms', String(graceMs))
}
