// Runs everything a change must pass: build, types, lint, unused code, then each suite of test/.
//
//   npm test                   every phase
//   npm test -- domain crash   only these phases
//
// A suite that runs on every engine is one phase per engine; engines.mjs says which engines run when none is named.
// Suites that share an engine are one phase, and so are those of waiting-suites.mjs, unless they are named one by one.
//
// The last line is always "N passed, N failed", for people and for programs that read nothing else.

import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chosenProjects, projectsOf } from './engines.mjs'
import { report, runTogether, secondsSince } from './suite.mjs'
import { waitingSuites } from './waiting-suites.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const binaries = join(root, 'node_modules', '.bin')

// Cheapest first: a wrong rule in domain/ breaks every later suite.
const suiteOrder = ['domain', 'conformance', 'model', 'crash', 'interfaces', 'docs', 'tidy']

// These read the sources directly; every other suite imports the built package.
const suitesWithoutBuild = ['domain', 'tidy']

// Too long for every run; run only when named.
const suitesOnDemand = ['cluster']

const tools = [
  { name: 'build', command: process.execPath, args: ['scripts/build.mjs'] },
  { name: 'types', command: join(binaries, 'tsc'), args: ['-p', 'tsconfig.json'] },
  { name: 'lint', command: join(binaries, 'biome'), args: ['check', '.'] },
  { name: 'knip', command: join(binaries, 'knip'), args: [] },
]

await main()

async function main() {
  const suites = findSuites()
  const wanted = choosePhases(process.argv.slice(2), suites)
  const results = []

  const [build, ...others] = tools
  if (wanted.has(build.name)) {
    results.push(await runTool(build))
    // Everything after it would test the previous build and fail in a thousand confusing ways.
    if (results[0].failed > 0) return finish(results)
  }
  // In parallel: none of them keeps all cores busy until it ends.
  results.push(...(await Promise.all(others.filter(({ name }) => wanted.has(name)).map(runTool))))
  // A suite that is named runs in full. Otherwise an older server gets a smoke test, the newest leaves out what does not
  // depend on the engine, and the random histories of `model` on PostgreSQL are left to their own script.
  const isQuick = ({ engine }) => process.argv.length === 2 && engine !== 'sqlite'
  const chosen = suites
    .flatMap(projectsOf)
    .filter((project) => wanted.has(project.name) && !(isQuick(project) && project.suite === 'model'))
  for (const group of groupsOf(chosen)) {
    const [first] = group
    // Only the domain rules are pure enough to demand that every branch is covered.
    const args = first.suite === 'domain' ? ['--coverage'] : []
    results.push(runTogether(group, { args, isQuick: isQuick(first) }))
  }

  finish(results)
}

/** The folders of test/ that contain tests: the known ones first, in order. */
function findSuites() {
  const isTest = (path) => path.endsWith('.test.ts')
  const rank = (name) => (suiteOrder.includes(name) ? suiteOrder.indexOf(name) : suiteOrder.length)
  return readdirSync(join(root, 'test'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .filter((name) => readdirSync(join(root, 'test', name), { recursive: true }).some(isTest))
    .sort((left, right) => rank(left) - rank(right) || left.localeCompare(right))
}

/** Suites that run as one phase, so that cores are rarely idle: those that wait, and all others that share an engine. */
function groupsOf(projects) {
  const groups = new Map()
  for (const project of projects) {
    const key = groupOf(project)
    groups.set(key, [...(groups.get(key) ?? []), project])
  }
  return [...groups.values()]
}

function groupOf({ suite, engine }) {
  if (waitingSuites.includes(suite)) return 'waiting'
  return suite === 'domain' ? suite : engine
}

/** No names means all phases, on the chosen engines. A suite that imports the package adds the build. */
function choosePhases(names, suites) {
  const projects = suites.flatMap(projectsOf)
  const known = [...tools, ...projects].map(({ name }) => name)
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length > 0) {
    console.error(`unknown phase ${unknown.join(', ')}; the phases are ${known.join(', ')}`)
    process.exit(2)
  }
  const usual = [...tools, ...chosenProjects(suites.filter(isUsual))].map(({ name }) => name)
  const wanted = new Set(names.length > 0 ? names : usual)
  const needsBuild = projects.some(
    ({ name, suite }) => wanted.has(name) && !suitesWithoutBuild.includes(suite),
  )
  if (needsBuild) wanted.add('build')
  return wanted
}

function isUsual(suite) {
  return !suitesOnDemand.includes(suite)
}

/** Shows a tool's output only when it fails. */
async function runTool({ name, command, args }) {
  const startedAt = performance.now()
  const failure = await new Promise((ended) => {
    execFile(command, args, { cwd: root, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      ended(error && (`${stdout}${stderr}` || String(error))),
    )
  })
  const seconds = secondsSince(startedAt)
  console.log(`${name}: ${failure ? 'failed' : 'ok'} (${seconds} s)`)
  if (failure) console.log(failure)
  return { name, seconds, passed: 0, failed: failure ? 1 : 0 }
}

function finish(results) {
  const { passed, failed } = report(results)
  console.log(`\n${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 ? 1 : 0
}
