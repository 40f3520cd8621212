// Runs what continuous integration runs: npm test, then the checks that need the packed package.

import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const binaries = join(root, 'node_modules', '.bin')

const jobs = [
  { name: 'test', run: () => runIn(root, 'npm', ['test', '--silent']) },
  { name: 'publint', run: () => runIn(root, join(binaries, 'publint'), []) },
  { name: 'types of the package', run: () => runIn(root, join(binaries, 'attw'), attwArguments) },
  { name: 'tarball', run: runTarball },
  { name: 'generated files', run: runGenerated },
  { name: 'bench smoke', run: runBench },
]

// esm-only: a CommonJS consumer gets an error from Node itself, so warnings about it would be noise.
const attwArguments = ['--pack', '.', '--profile', 'esm-only']

main()

function main() {
  const lines = []
  for (const { name, run } of jobs) {
    console.log(`\n== ${name}`)
    const startedAt = performance.now()
    const outcome = run()
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    lines.push(`${outcome.padEnd(8)}${`${seconds} s`.padStart(9)}  ${name}`)
    if (outcome === 'failed') process.exitCode = 1
  }
  console.log(`\n${lines.join('\n')}`)
}

/** Installs the package as a new user would, and runs a small program against the installed copy. */
function runTarball() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tarball-'))
  try {
    const packed = runIn(root, 'npm', ['pack', '--silent', '--pack-destination', folder])
    if (packed === 'failed') return packed
    const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'))

    const project = join(folder, 'project')
    mkdirSync(project)
    writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }\n')
    copyFileSync(join(root, 'scripts', 'tarball-smoke.mjs'), join(project, 'smoke.mjs'))

    const installed = runIn(project, 'npm', ['install', '--no-audit', '--no-fund', join(folder, tarball)])
    if (installed === 'failed') return installed
    return runIn(project, process.execPath, ['smoke.mjs'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function runGenerated() {
  const generator = join('scripts', 'generate.mjs')
  if (!existsSync(join(root, generator))) return 'skipped'
  return runIn(root, process.execPath, [generator, '--check'])
}

function runBench() {
  const isThere = ['main.ts', 'main.mjs'].some((name) => existsSync(join(root, 'bench', name)))
  if (!isThere) return 'skipped'
  return runIn(root, 'npm', ['run', 'bench', '--', '--smoke'])
}

function runIn(folder, command, args) {
  const run = spawnSync(command, args, { cwd: folder, stdio: 'inherit' })
  if (run.error) console.error(String(run.error))
  return run.status === 0 ? 'ok' : 'failed'
}
