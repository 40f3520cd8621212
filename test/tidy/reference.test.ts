/** The reference pages say what the code says. */

import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'

test('every page of docs/reference is up to date', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/generate.mjs', '--check'], {
    encoding: 'utf8',
  })

  expect(stderr).toBe('')
  expect(status).toBe(0)
})
