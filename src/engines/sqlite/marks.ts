/** Facts about the store itself. */
import type { MovedMark } from '../marks.ts'
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

/**
 * From the commit on every change is refused, also by processes that opened the store before: no change is made
 * without an event. A trigger, because it costs nothing until it is there.
 */
export function shut(connection: Connection, mark: string): void {
  writeMark(connection, 'moved', mark)
  connection.exec(
    "create trigger if not exists moved before insert on event begin select raise(abort, 'the store has moved'); end",
  )
}

/** Where the store has moved; null while it has not. */
export function movedTo(connection: Connection): string | null {
  const mark = readMark(connection, 'moved')
  return mark === null ? null : (JSON.parse(mark) as MovedMark).to
}

export function assertUsableStore(connection: Connection, location: string): void {
  assertUsable(location, { copy: readMark(connection, 'copy'), moved: readMark(connection, 'moved') })
}
