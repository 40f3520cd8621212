/** Fresh stores in their own folders, filled through the library or, if millions of rows are needed, directly. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'holdfast'
import { settle, withDatabase } from './postgres/database.mjs'

/** About 110 bytes as JSON, like a small real job. */
export const payload = Object.freeze({
  kind: 'build',
  repository: 'example/shop',
  branch: 'fix/checkout-total',
  commit: '9fceb02d0ae598e9',
  number: 1,
})

export const queueName = 'bench'
const addedAtOnce = 1000

export function makeFolder() {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/**
 * Runs `use` with the address of a store that holds so many items and is closed, then removes it: a file, or a
 * database where a PostgreSQL server is given.
 */
export function withStore({ items, server }, use) {
  if (server === undefined) return withFile((file) => fill(file, items).then(() => use(file)))
  return withDatabase(server, async (url) => {
    await fill(url, items)
    await settle(url)
    return use(url)
  })
}

async function withFile(use) {
  const folder = makeFolder()
  try {
    return await use(join(folder.path, 'store.db'))
  } finally {
    folder.remove()
  }
}

async function fill(address, items) {
  const hf = await open(address, { durability: 'normal', background: false })
  await hf.queue(queueName).define()
  await addItems(hf, items)
  await hf.close()
}

export async function addItems(hf, count) {
  const queue = hf.queue(queueName)
  for (let added = 0; added < count; added += addedAtOnce) {
    const items = Array.from({ length: Math.min(addedAtOnce, count - added) }, () => ({ payload }))
    await queue.addMany(items)
  }
}

/**
 * Opens the file past Holdfast with the driver Holdfast chose: two copies of SQLite in one process drop each other's
 * file locks.
 */
export function openRaw(file) {
  const [node] = process.versions.node.split('.').map(Number)
  const [, minor = 0, patch = 0] = (process.versions.sqlite ?? '').split('.').map(Number)
  const isOwnFit = node >= 24 && minor !== 52 && (minor > 51 || (minor === 51 && patch >= 3))
  const { DatabaseSync } = createRequire(import.meta.url)(isOwnFit ? 'node:sqlite' : '@photostructure/sqlite')
  return new DatabaseSync(file)
}
