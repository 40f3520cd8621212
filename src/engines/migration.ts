/** The numbered migrations of an engine: `.sql` files in a folder of their own, read once. */
import { readdirSync, readFileSync } from 'node:fs'
import { lazily } from '../lazily.ts'

export interface Migration {
  readonly number: number
  readonly sql: string
}

export function migrationsIn(folder: URL): () => readonly Migration[] {
  return lazily(() =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.sql'))
      .sort()
      .map((name) => ({
        number: Number.parseInt(name, 10),
        sql: readFileSync(new URL(name, folder), 'utf8'),
      })),
  )
}
