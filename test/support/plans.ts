/**
 * Refuses a statement whose plan reads more the longer a store has been in use: the test that sends it fails. SQLite
 * plans without counts here, so a plan in an empty store is the plan in a full one.
 *
 * A set-up file of the conformance suite. Node's own driver cannot be replaced, so it does nothing there.
 */
import { createRequire } from 'node:module'
import { growing, small } from './store-indexes.ts'

/** Statements that may read without bound, by a part of their text, each with a reason. */
const exceptions: readonly (readonly [part: string, because: string])[] = [
  ['group by state', '`queue.stats` counts every item, and says so'],
  ['select json_array(namespace,', '`copy` reads whole tables'],
  ['as told where told.kind', 'looks at no more than a thousand events of one thing'],
  ['and id in (\n  select blocker.item', 'sorts at most 10,000 items that are about to be freed'],
  ['select min(queue) from item', 'the least of an index is one step away'],
]

interface Driver {
  DatabaseSync: new (...settings: unknown[]) => { prepare(sql: string): { all(): { detail: string }[] } }
}

const require = createRequire(import.meta.url)
const path = require.resolve('@photostructure/sqlite')
const driver = require(path) as Driver & { isWatched?: true }
const checked = new Set<string>()

/** Why the plan of a statement does not stay flat, or null. */
function faultOf(details: readonly string[]): string | null {
  const opens = (pattern: string) =>
    details.find((detail) => new RegExp(pattern).test(detail) && !small.test(detail))
  const tables = `(${growing.join('|')})`
  return (
    opens(`^SCAN ${tables}\\b`) ??
    opens(`^SEARCH ${tables} USING .*\\(namespace=\\?\\)$`) ??
    (opens('^SEARCH (item|event) ') && details.find(isSort)) ??
    null
  )
}

/** Tests read tables directly, and then name no namespace. */
function isOurs(sql: string): boolean {
  return /^(select|with|update|delete)\b/.test(sql) && sql.includes('namespace')
}

/** What comes in order of time and is sorted by id within a millisecond is not read to its end. */
function isSort(detail: string): boolean {
  return detail.startsWith('USE TEMP B-TREE') && !detail.includes('LAST TERM')
}

class Watched extends driver.DatabaseSync {
  override prepare(sql: string) {
    this.#check(sql)
    return super.prepare(sql)
  }

  #check(sql: string): void {
    if (checked.has(sql) || !isOurs(sql)) return
    checked.add(sql)
    if (exceptions.some(([part]) => sql.includes(part))) return
    const details = super
      .prepare(`explain query plan ${sql}`)
      .all()
      .map(({ detail }) => detail)
    const fault = faultOf(details)
    if (fault !== null) throw new Error(`a statement that does not stay flat: ${fault}\n${sql}`)
  }
}

if (driver.isWatched === undefined) {
  const module = require.cache[path]
  if (module) module.exports = { ...driver, DatabaseSync: Watched, isWatched: true }
}
