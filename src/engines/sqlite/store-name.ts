/**
 * The name of a store, recorded in the store itself. SQLite names the log after the path, so two hard links to one file
 * would have two logs, each unaware of the other, and lose each other's changes. A file with several links may
 * therefore be opened only by its own name.
 *
 * A name is the inode of the folder plus the file name. Containers that see one folder under several paths agree on it,
 * and two folders mounted at the same path do not. All links of a file are on one file system, so the inodes of their
 * folders tell them apart.
 */
import { basename, dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { fieldsIn } from '../../domain/json-text.ts'
import { HoldfastError } from '../../errors.ts'
import type { StoreWarning } from '../../port/engine.ts'
import { Connection } from './connection.ts'
import { lookAt } from './file-stats.ts'
import { isCurrent } from './migrate.ts'
import { assertNoLogAt } from './store-log.ts'

interface StoreName {
  readonly folder: string
  readonly file: string
  /** For display, and to find a log that was left behind. */
  readonly path: string
}

/** Refuses a second link. Reads the file without its log, so that no log is created under the wrong name. */
export function checkLinks(location: string, links: bigint): StoreWarning[] {
  if (links <= 1n) return []
  const kept = readUnlogged(location)
  return kept !== null && isSame(kept, nameOf(location))
    ? [linked(location, links)]
    : refuse(location, links, kept)
}

/** Refuses a store that was renamed without its log. */
export function assertLogCame(connection: Connection, location: string): void {
  const kept = readName(connection)
  if (kept !== null && !isSame(kept, nameOf(location))) assertNoLogAt(kept.path, location)
}

/**
 * Must run in a write transaction. A store that was renamed or copied takes its current name. True if that was written.
 */
export function keepName(connection: Connection, location: string): boolean {
  const own = nameOf(location)
  const kept = readName(connection)
  if (kept !== null && isSame(kept, own)) return false
  if (kept !== null) assertNoLogAt(kept.path, location)
  connection.run(
    "insert into meta (key, value) values ('name', ?) on conflict (key) do update set value = excluded.value",
    JSON.stringify(own),
  )
  return true
}

function nameOf(location: string): StoreName {
  const folder = lookAt(dirname(location))?.ino ?? 0n
  return { folder: String(folder), file: basename(location), path: location }
}

function isSame(left: StoreName, right: StoreName): boolean {
  return left.folder === right.folder && left.file === right.file
}

/** Null if there is no name, or none that can be read. */
function readUnlogged(location: string): StoreName | null {
  const connection = new Connection(`${pathToFileURL(location).href}?immutable=1`, { readOnly: true })
  try {
    // A file that is not our store could answer anything, or never answer.
    isCurrent(connection, location)
    return readName(connection)
  } catch {
    return null
  } finally {
    connection.close()
  }
}

function readName(connection: Connection): StoreName | null {
  const [text = 'null'] = connection.peek("select value as text from meta where key = 'name'")
  // The file may come from anyone.
  const { folder, file, path } = fieldsIn(text)
  if (typeof folder !== 'string' || typeof file !== 'string' || typeof path !== 'string') return null
  return { folder, file, path }
}

function linked(location: string, links: bigint): StoreWarning {
  return {
    check: 'links',
    what: `${location} has ${links} names (hard links); the others are not backups, because they change with it, and opening the store by them is refused`,
    remedy: 'remove the other names; make a backup with holdfast copy --keep-source',
  }
}

function refuse(location: string, links: bigint, kept: StoreName | null): never {
  const name = kept?.path ?? null
  throw new HoldfastError('STORE_UNFIT', {
    what: `${location} is one of ${links} names (hard links) of a file${name === null ? ', and it is not known which is its own' : ` whose own name is ${JSON.stringify(name)}`}; a store that is opened by two names loses changes`,
    next: name === null ? 'remove the other names' : 'open it by its own name, or remove the other names',
    facts: { location, links: Number(links), name },
  })
}
