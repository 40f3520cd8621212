// Runs the suites on the other Node versions that the package supports: npm run test:nodes
//
//   npm run test:nodes               all of them
//   npm run test:nodes -- 24.0.0     this one
//
// The versions come from npm, one package per platform, and are installed in a temporary folder. They differ in more
// than syntax: from 24 on, the store uses Node's built-in SQLite where that is suitable.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chosenProjects } from './engines.mjs'
import { report, runTogether } from './suite.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const promised = ['22', '24']
// Every suite that runs the package. Checks of the source itself give the same result on every version.
const suites = ['domain', 'conformance', 'model', 'crash', 'interfaces', 'docs']

main()

function main() {
  const asked = process.argv.slice(2)
  const versions = asked.length > 0 ? asked : promised
  run(process.execPath, [join(root, 'scripts', 'build.mjs')])

  const folder = mkdtempSync(join(tmpdir(), 'holdfast-nodes-'))
  try {
    const lines = versions.map((version) => testOn(install(version, join(folder, version))))
    console.log(`\n${lines.join('\n')}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs no install scripts and leaves our package.json alone: the package contains the binary and nothing else. */
function install(version, folder) {
  const name = packageName()
  const flags = ['--no-save', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  run('npm', ['install', '--prefix', folder, ...flags, `${name}@${version}`])
  const binary = process.platform === 'win32' ? 'node.exe' : 'node'
  return join(folder, 'node_modules', name, 'bin', binary)
}

/** The platform package that the npm package `node` would choose. That one needs its install script to do so. */
function packageName() {
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const prefix = platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node'
  return `${prefix}-${platform}-${process.arch}`
}

function testOn(node) {
  const version = run(node, ['--version'])
  console.log(`\n== Node ${version}`)
  const { passed, failed } = report(chosenProjects(suites).map((project) => runTogether([project], { node })))
  if (failed > 0) process.exitCode = 1
  return `Node ${version}: ${passed} passed, ${failed} failed`
}

/** Returns what the command printed. Throws, which ends the whole run, if it cannot be started or fails. */
function run(command, args) {
  const ran = spawnSync(command, args, { encoding: 'utf8', shell: process.platform === 'win32' })
  if (ran.status === 0) return ran.stdout.trim()
  throw new Error(`${command} ${args.join(' ')} failed: ${ran.error ?? ran.stderr + ran.stdout}`)
}
