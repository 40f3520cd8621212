/** Opens the engine for a URL. */
import { serverScheme } from '../domain/store-url.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError, InvalidError } from '../errors.ts'
import { realPath } from '../host/store-path.ts'
import type { Engine, EngineOptions } from '../port/engine.ts'
import { isPostgresUrl } from './postgres/address.ts'
import { openSqlite } from './sqlite/engine.ts'
import type { Transfer } from './transfer.ts'

export interface OpenedEngine extends Engine {
  /** Set if the engine keeps a log that must be checkpointed from time to time, off the main thread. */
  checkpoint?(): void
  /** Calls back when enough was written for a checkpoint; the engine then does not move the log itself. */
  onLogGrown?(listener: () => void): void
  /** Identifies the store among all that processes of this machine may have open; null for a private one. */
  readonly storeId?: string | null
  /** Identifies the store file to other threads of this process. */
  readonly file?: string | null
  /** The file was deleted, renamed or replaced, and nothing is read or written any more. */
  readonly isLost?: boolean
  /** Whether the file is still there; checked at most once per millisecond. */
  isThere?(): boolean
  /**
   * Whether other processes are writing or waiting to write, so that one more writer would only lengthen the line. A
   * hint.
   */
  isCrowded?(): boolean
  /** Calls back once, when the file is found to be lost, with what happened to it. */
  onLost?(listener: (how: string) => void): void
  /** Another thread has found that the file is lost. */
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
 * The same store, even if this process changes its directory or links change later. A path is resolved once, or a
 * thread that opens the store later would open another one.
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

/** One end of a copy. Opening it creates and changes nothing. */
export async function openTransfer(url: string, environment: Environment): Promise<Transfer> {
  if (isPostgresUrl(url)) {
    const { openPostgresTransfer } = await import('./postgres/transfer.ts')
    return openPostgresTransfer(url, environment)
  }
  assertFile(url)
  const path = sqlitePath(url)
  if (path === privatePath) {
    throw new InvalidError({
      what: 'an in-memory store ends with its process, so it cannot be copied from or to',
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
    ? `in a URL, ${scheme}: must be followed by //`
    : 'the URL of a PostgreSQL server begins with postgres://, with no quote, space or anything else before it'
}
