// One suite of test/, run by vitest: how many of its tests passed and failed, and how long it took.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')

/** A project of engines.mjs, under the Node of this process unless another is given; what the tests start follows it. */
export function runSuite({ name, engine }, { node = process.execPath, args = [], isQuick = false } = {}) {
  const startedAt = performance.now()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'))
  const file = join(folder, 'report.json')
  const reporters = ['--reporter', 'default', '--reporter', 'json', `--outputFile.json=${file}`]
  const path = `${dirname(node)}${delimiter}${process.env.PATH}`

  console.log(`\n${name}:`)
  const run = spawnSync(node, [vitest, 'run', '--project', name, ...reporters, ...args], {
    cwd: root,
    env: {
      ...process.env,
      PATH: path,
      HOLDFAST_TEST_ENGINES: engine,
      HOLDFAST_TEST_QUICK: isQuick ? '1' : '',
    },
    stdio: 'inherit',
  })
  const counts = readCounts(file)
  rmSync(folder, { recursive: true, force: true })

  // Not every failure is a failing test: a file that does not load, a branch that is not covered.
  const failed = run.status === 0 ? counts.failed : Math.max(counts.failed, 1)
  return { name, seconds: secondsSince(startedAt), passed: counts.passed, failed }
}

/** A run that died before its report counts as nothing passed; its exit code makes it a failure. */
function readCounts(file) {
  try {
    const found = JSON.parse(readFileSync(file, 'utf8'))
    return { passed: found.numPassedTests, failed: found.numFailedTests }
  } catch {
    return { passed: 0, failed: 0 }
  }
}

/** Prints a table of results and answers their sums. */
export function report(results) {
  console.log(`\n${row('phase', 'seconds', 'passed', 'failed')}`)
  for (const result of results) console.log(row(result.name, result.seconds, result.passed, result.failed))
  const sum = (column) => results.reduce((total, result) => total + result[column], 0)
  return { passed: sum('passed'), failed: sum('failed') }
}

function row(name, ...columns) {
  return name.padEnd(18) + columns.map((column) => String(column).padStart(9)).join('')
}

export function secondsSince(startedAt) {
  return ((performance.now() - startedAt) / 1000).toFixed(1)
}
