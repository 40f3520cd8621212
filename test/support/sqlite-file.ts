/** A SQLite file opened directly, without Holdfast. */
import { createRequire } from 'node:module'

export interface RawDatabase {
  exec(sql: string): void
  prepare(sql: string): {
    run(...values: (string | number)[]): { changes: number | bigint }
    all(...values: (string | number)[]): unknown[]
  }
  close(): void
  readonly isOpen: boolean
}

/**
 * Must be the copy of SQLite that Holdfast chose: two copies in one process drop each other's file locks. It
 * prefers Node's own from 24 on, where that is 3.51.3 or newer and not 3.52.
 */
export function openRaw(path: string): RawDatabase {
  const [node = 0] = process.versions.node.split('.').map(Number)
  const [, minor = 0, patch = 0] = (process.versions.sqlite ?? '').split('.').map(Number)
  const isOwnFit = node >= 24 && minor !== 52 && (minor > 51 || (minor === 51 && patch >= 3))
  const require = createRequire(import.meta.url)
  const { DatabaseSync } = require(isOwnFit ? 'node:sqlite' : '@photostructure/sqlite') as {
    DatabaseSync: new (path: string, options: { defensive: boolean }) => RawDatabase
  }
  // Whoever makes a file for others to open can also write what SQLite itself would not.
  return new DatabaseSync(path, { defensive: false })
}
