// Runs suites of test/ with vitest, and reports how many tests passed and failed and how long it took.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')

/**
 * Runs projects of engines.mjs that share an engine, as one, under the Node of this process unless another is given.
 * Processes that the tests start use the same Node.
 */
export function runTogether(projects, { node = process.execPath, args = [], isQuick = false } = {}) {
  const names = projects.map(({ name }) => name)
  const name = names.join('+')
  const startedAt = performance.now()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'))
  const file = join(folder, 'report.json')
  const reporters = ['--reporter', 'default', '--reporter', 'json', `--outputFile.json=${file}`]
  const path = `${dirname(node)}${delimiter}${process.env.PATH}`

  console.log(`\n${name}:`)
  const chosen = names.flatMap((each) => ['--project', each])
  const run = spawnSync(node, [vitest, 'run', ...chosen, ...reporters, ...args], {
    cwd: root,
    env: {
      ...process.env,
      PATH: path,
      HOLDFAST_TEST_ENGINES: projects[0].engine,
      HOLDFAST_TEST_QUICK: isQuick ? '1' : '',
      // glibc: large blocks always come fresh from the system. A store takes 9 MB when it is opened and uses few of them;
      // once some were freed, glibc would clear each later one itself, which took a twelfth of the SQLite suite's time.
      MALLOC_MMAP_THRESHOLD_: '131072',
      // Node reads every certificate in this file whenever it starts: 0.1 s each for 2,000 processes. No test needs them.
      NODE_EXTRA_CA_CERTS: '',
    },
    stdio: 'inherit',
  })
  const { passed, failures } = readReport(file)
  rmSync(folder, { recursive: true, force: true })

  // Not every failure is a failing test: a file may not load, or a branch may not be covered.
  if (run.status !== 0 && failures.length === 0) failures.push('no test; see its output')
  return { name, seconds: secondsSince(startedAt), passed, failed: failures.length, failures }
}

/** A run that died before it wrote its report counts as zero passed; its exit code makes it a failure. */
function readReport(file) {
  try {
    const { numPassedTests, testResults } = JSON.parse(readFileSync(file, 'utf8'))
    return { passed: numPassedTests, failures: testResults.flatMap(failuresOf) }
  } catch {
    return { passed: 0, failures: [] }
  }
}

function failuresOf({ name, status, assertionResults }) {
  const file = relative(root, name)
  const failed = assertionResults
    .filter((test) => test.status === 'failed')
    .map((test) => `${file}: ${test.fullName}: ${String(test.failureMessages[0]).split('\n')[0]}`)
  return failed.length === 0 && status === 'failed' ? [`${file}: failed outside its tests`] : failed
}

/** Prints a table of results and the failures, and returns the totals. */
export function report(results) {
  console.log(`\n${row('phase', 'seconds', 'passed', 'failed')}`)
  for (const result of results) console.log(row(result.name, result.seconds, result.passed, result.failed))
  const failures = results.flatMap(({ name, failures = [] }) => failures.map((line) => `${name}: ${line}`))
  if (failures.length > 0) console.log(`\n${failures.join('\n')}`)
  const sum = (column) => results.reduce((total, result) => total + result[column], 0)
  return { passed: sum('passed'), failed: sum('failed') }
}

function row(name, ...columns) {
  return name.padEnd(22) + columns.map((column) => String(column).padStart(9)).join('')
}

export function secondsSince(startedAt) {
  return ((performance.now() - startedAt) / 1000).toFixed(1)
}
