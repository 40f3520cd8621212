/** What only a SQLite store promises of versioned documents: changes made by other programs are found by the poll. */
import { mkdtempSync, rmSync } from 'node:fs'
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

test('a watcher sees a change without a ring within half a second', async () => {
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
