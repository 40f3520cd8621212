/** A URL to an engine. */
import { HoldfastError, InvalidError } from '../errors.ts'
import type { Engine } from './engine.ts'
import { openSqlite, type SqliteOptions } from './sqlite/engine.ts'

export type EngineOptions = SqliteOptions

export interface OpenedEngine extends Engine {
  checkpoint(): void
}

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

export async function openEngine(url: string, options: EngineOptions): Promise<OpenedEngine> {
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//.exec(url)?.[1]
  if (scheme !== undefined) {
    throw new HoldfastError('INVALID', {
      what: `this version of Holdfast has no engine for ${scheme}://`,
      next: 'give a path, sqlite:path or sqlite::memory:',
      facts: { scheme },
    })
  }
  return openSqlite(sqlitePath(url), options)
}
