/** The numbered migrations of an engine: `.sql` files in a folder of their own, read once. */
import { readdirSync, readFileSync } from 'node:fs'
import { NotFoundError } from '../errors.ts'
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

/** No migration has run there, and the caller may not run the first. */
export function noStoreAt(store: string): NotFoundError {
  return new NotFoundError({
    what: `there is no store at ${store}`,
    next: 'check the address; without `mustExist`, open() creates the store',
    facts: { store },
  })
}
