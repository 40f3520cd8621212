/** Files as other programs leave them; databases are created from their SQL. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { openRaw } from './sqlite-file.ts'

export type Fixture = 'zjj.db' | 'exarp-go.db' | 'beads.jsonl' | 'evaluation-locks.json' | 'pending-acks.json'
export const fixtures: readonly Fixture[] = [
  'zjj.db',
  'exarp-go.db',
  'beads.jsonl',
  'evaluation-locks.json',
  'pending-acks.json',
]

/** Puts the file into a folder; `sql` is then run on a database. */
export function layFixture(folder: string, name: Fixture, sql = ''): string {
  const path = join(folder, name)
  const source = fileURLToPath(new URL(`./fixtures/${name.replace(/\.db$/, '.sql')}`, import.meta.url))
  const text = readFileSync(source, 'utf8')
  if (!name.endsWith('.db')) {
    writeFileSync(path, text)
    return path
  }
  const database = openRaw(path)
  database.exec(`begin; ${text} ${sql} commit`)
  database.close()
  return path
}

/** A new folder that lasts for one test. */
export function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fixture-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
