/** What only a SQLite store promises of versioned documents: the way there from an older file, and the poll. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { openRaw } from '../support/sqlite-file.ts'

function aStore(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'store.db')
}

function inFile(path: string, sql: string): void {
  const database = openRaw(path)
  database.exec(sql)
  database.close()
}

test('a store made before there were documents is brought up to date when it is opened, its rows kept', async () => {
  const path = aStore()
  inFile(
    path,
    `pragma journal_mode = wal;
${readFileSync('src/engines/sqlite/migrations/0001_kernel.sql', 'utf8')}
insert into namespace (name, token_floor) values ('default', 7);
pragma application_id = ${0x686f6c64};
pragma user_version = 1`,
  )

  const hf = await open(path, { logger: false, environment: new MovableEnvironment() })
  const saved = await hf.state('plan').set('one')
  await hf.close()

  const database = openRaw(path)
  expect(saved.version).toBe(1)
  expect(database.prepare('select token_floor from namespace').all()).toMatchObject([{ token_floor: 7 }])
  database.close()
})

test('a watcher sees within half a second what nobody rang for', async () => {
  const path = aStore()
  const environment = new MovableEnvironment()
  const hf = await open(path, { logger: false, environment, background: false })
  await hf.state('plan').set('one')
  const stop = new AbortController()
  const seen: unknown[] = []
  const watching = (async () => {
    for await (const entry of hf.state('plan').watch({ signal: stop.signal })) seen.push(entry?.value)
  })()
  await environment.advance(0)

  inFile(path, `update state set value = '"silent"', version = 2`)
  await environment.advance(500)

  expect(seen).toEqual(['one', 'silent'])
  stop.abort()
  await watching
  await hf.close()
})
