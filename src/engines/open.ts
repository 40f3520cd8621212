/** A URL to an engine. */
import { serverScheme } from '../domain/store-url.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError, InvalidError } from '../errors.ts'
import { realPath } from '../host/store-path.ts'
import type { Engine, EngineOptions } from './engine.ts'
import { isPostgresUrl } from './postgres/address.ts'
import { openSqlite } from './sqlite/engine.ts'
import type { Transfer } from './transfer.ts'

export interface OpenedEngine extends Engine {
  /** Where an engine keeps a log that must be moved on from time to time, off the main thread. */
  checkpoint?(): void
  /** Calls back when so much was written that it should be, instead of moving the log itself. */
  onLogGrown?(listener: () => void): void
  /** Tells the store from every other one that processes of this machine may have open; null for a private one. */
  readonly storeId?: string | null
  /** Names the file of a store to other threads of this process. */
  readonly file?: string | null
  /** The file was deleted, renamed or replaced: nothing is read or written any more. */
  readonly isLost?: boolean
  /** Whether the file is still there; looked for at most once a millisecond. */
  isThere?(): boolean
  /** Whether other processes write now or wait to, so that one more writer would only lengthen the line. A hint. */
  isCrowded?(): boolean
  /** Calls back once, when it is found to be lost; with what was done to it. */
  onLost?(listener: (how: string) => void): void
  /** Another thread has found that. */
  lose?(how: string): void
}

/** A store in memory, which nobody else can open. */
const privatePath = ':memory:'

/** A path, `sqlite:path` or `sqlite::memory:`. */
function sqlitePath(url: string): string {
  const path = url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : url
  if (path === '' || path.includes('\0')) {
    throw new InvalidError({
      what: `"${url}" is not a store`,
      next: 'give a path, sqlite:path or sqlite::memory:',
    })
  }
  return path
}

/**
 * The same store, wherever this process goes and wherever links lead later: a path is resolved once, or a thread that
 * opens the store later would open another.
 */
export function absoluteUrl(url: string): string {
  if (isPostgresUrl(url)) return url
  assertFile(url)
  const path = sqlitePath(url)
  return path === privatePath ? `sqlite:${path}` : `sqlite:${realPath(path)}`
}

export async function openEngine(url: string, options: EngineOptions): Promise<OpenedEngine> {
  if (isPostgresUrl(url)) {
    const { openPostgres } = await import('./postgres/engine.ts')
    return openPostgres(url, options)
  }
  assertFile(url)
  return openSqlite(sqlitePath(url), options)
}

/** One end of a copy. Nothing is made or changed by opening it. */
export async function openTransfer(url: string, environment: Environment): Promise<Transfer> {
  if (isPostgresUrl(url)) {
    const { openPostgresTransfer } = await import('./postgres/transfer.ts')
    return openPostgresTransfer(url, environment)
  }
  assertFile(url)
  const path = sqlitePath(url)
  if (path === privatePath) {
    throw new InvalidError({
      what: 'a private store in memory ends with its process: it can be neither end of a copy',
      next: 'give a path or postgres://…',
    })
  }
  const { SqliteTransfer } = await import('./sqlite/transfer.ts')
  return new SqliteTransfer(realPath(path), environment)
}

function assertFile(url: string): void {
  const scheme = serverScheme(url)
  if (scheme === null) return
  throw new HoldfastError('INVALID', {
    what: whyNoStore(url, scheme),
    next: 'give a path, sqlite:path, sqlite::memory: or postgres://…',
    facts: { scheme },
  })
}

function whyNoStore(url: string, scheme: string): string {
  if (!scheme.startsWith('postgres')) return `this version of Holdfast has no engine for ${scheme}://`
  return url.toLowerCase().startsWith(`${scheme}:`)
    ? `a URL that begins with ${scheme}: goes on with //`
    : 'the URL of a PostgreSQL server begins with postgres://, with no quotes, spaces or anything else before it'
}
