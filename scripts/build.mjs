// Builds dist/: types by tsc, code as a bundle, and the migrations where the engines look for them.
//
// Each build works in its own folder and renames it to dist/ at the end. Two builds that overlap (an editor and a
// test run) therefore never mix their files; the later one wins.

import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundle } from './bundle.mjs'
import { writeSentences } from './option-sentences.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const source = join(root, 'src')
const target = join(root, 'dist')

// Siblings of dist/, not folders in the system's temporary directory: a rename must stay on one file system, and
// the relative paths from the source maps to src/ must stay valid.
const fresh = join(root, `.dist-${process.pid}-new`)
const previous = join(root, `.dist-${process.pid}-old`)

try {
  process.exitCode = await build()
} finally {
  rmSync(fresh, { recursive: true, force: true })
  rmSync(previous, { recursive: true, force: true })
}

async function build() {
  const compiler = join(root, 'node_modules', '.bin', 'tsc')
  const compiled = spawnSync(compiler, ['-p', 'tsconfig.build.json', '--outDir', fresh], {
    cwd: root,
    stdio: 'inherit',
  })
  if (compiled.error) throw compiled.error
  if (compiled.status !== 0) return compiled.status ?? 1

  await writeSentences(fresh)
  copyMigrations()
  await bundle(source, fresh)
  makeExecutable()
  swapIn()
  return 0
}

/** tsc copies nothing but TypeScript, and the engines read their migrations at run time. */
function copyMigrations() {
  for (const path of readdirSync(source, { recursive: true })) {
    if (path.endsWith('.sql')) cpSync(join(source, path), join(fresh, path))
  }
}

/** npm sets the executable bit when it installs the package. In a checkout run in place, nothing else does. */
function makeExecutable() {
  chmodSync(join(fresh, 'cli', 'main.js'), 0o755)
}

/** A rename cannot replace a non-empty folder. It takes two steps, and another build may slip in between them. */
function swapIn() {
  const maxAttempts = 20
  for (let attempt = 1; ; attempt += 1) {
    moveAside()
    try {
      renameSync(fresh, target)
      return
    } catch (error) {
      const isTakenAgain = error.code === 'ENOTEMPTY' || error.code === 'EEXIST'
      if (!isTakenAgain || attempt === maxAttempts) throw error
    }
  }
}

function moveAside() {
  rmSync(previous, { recursive: true, force: true })
  try {
    renameSync(target, previous)
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
}
