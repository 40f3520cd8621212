/** docs/guarantees.md says what is promised, and which test shows it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const [, guaranteed = ''] = readFileSync('docs/guarantees.md', 'utf8').split(/^## /m).slice(1)
const promises = guaranteed.split(/^(?=\d+\. )/m).slice(1)

test('every guarantee names a test that shows it, and the test exists [S6-E6]', () => {
  const named = promises.map((promise) => ({
    promise: promise.split('**')[1] ?? promise.slice(0, 40),
    tests: [...promise.matchAll(/`(test\/[\w./*-]+)`/g)].map(([, path = '']) => path),
  }))

  expect(named.filter(({ tests }) => tests.length === 0)).toEqual([])
  const missing = named.flatMap(({ tests }) => tests).filter((path) => !isThere(path))
  expect(missing).toEqual([])
  expect(promises.length).toBeGreaterThanOrEqual(20)
})

/** `messages-*.test.ts` stands for every file that begins and ends so. */
function isThere(path: string): boolean {
  const [before = '', after] = path.split('*')
  if (after === undefined) return existsSync(path)
  const folder = dirname(before)
  return readdirSync(folder).some((file) => join(folder, file).startsWith(before) && file.endsWith(after))
}
