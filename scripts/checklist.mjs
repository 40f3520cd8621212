// Lists the numbers in docs/checklist.md that no test names yet.
//
//   npm run checklist                  print the list; exit 0
//   npm run checklist -- --strict 2    exit 1 when a number due in step 1 or 2 has no test
//
// A number in a test title proves that somebody meant to test it, not that the test is good.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

main()

function main() {
  const entries = readChecklist()
  const named = findNamedIds()
  const missing = entries.filter(({ id }) => !named.has(id))
  const strictStep = readStrictStep()

  for (const step of [...new Set(missing.map((entry) => entry.step))].sort()) {
    const ids = missing.filter((entry) => entry.step === step).map(({ id }) => id)
    console.log(`step ${step}, ${ids.length} not named: ${ids.join(' ')}`)
  }
  const unknown = [...named].filter((id) => !entries.some((entry) => entry.id === id))
  if (unknown.length > 0) console.log(`named by a test but not on the checklist: ${unknown.join(' ')}`)
  console.log(`named ${entries.length - missing.length} of ${entries.length}`)

  if (missing.some(({ step }) => step <= strictStep)) process.exitCode = 1
}

/** Every table row of the form `| Q1 | 1 | …` is an entry. */
function readChecklist() {
  const text = readFileSync(join(root, 'docs', 'checklist.md'), 'utf8')
  const rows = [...text.matchAll(/^\| *([A-Z]+(?:\d+[a-z]?-)?-?\d+) *\| *(\d+) *\|/gm)]
  const entries = rows.map(([, id, step]) => ({ id, step: Number(step) }))
  const twice = entries.filter(({ id }, index) => entries.findIndex((entry) => entry.id === id) !== index)
  if (twice.length > 0) throw new Error(`on the checklist twice: ${twice.map(({ id }) => id).join(' ')}`)
  return entries
}

/** Skips `[RETRY-1]` and the like: messages mark a retry that way. */
function findNamedIds() {
  const files = [...listFiles('test', /\.ts$/), ...listFiles('bench', /\.(ts|mjs)$/)]
  const texts = files.map((file) => readFileSync(file, 'utf8'))
  return new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/\[((?!RETRY)[A-Z]+(?:\d+[a-z]?-)?-?\d+)\]/g)].map(([, id]) => id),
    ),
  )
}

/** Skips node_modules: the libraries that the benchmark compares us with are installed below bench/. */
function listFiles(folder, pattern) {
  return readdirSync(join(root, folder), { recursive: true })
    .filter((path) => pattern.test(path) && !path.split(sep).includes('node_modules'))
    .map((path) => join(root, folder, path))
}

/** Without --strict, 0: the first step is 1, so nothing is due. */
function readStrictStep() {
  const position = process.argv.indexOf('--strict')
  if (position === -1) return 0
  const step = Number(process.argv[position + 1])
  if (!Number.isInteger(step)) throw new Error('--strict needs the number of a step, as in --strict 2')
  return step
}
