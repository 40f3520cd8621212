// Writes the pages of docs/reference/ that are generated from the code. Needs no build.
//
//   node scripts/generate.mjs            write them
//   node scripts/generate.mjs --check    exit 1 if a page is out of date

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadSource } from './load-source.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

const { pages } = await loadSource('scripts/reference/pages.ts')

for (const [path, make] of Object.entries(pages)) {
  const file = join(root, path)
  const text = await make()
  if (process.argv.includes('--check')) {
    if (read(file) === text) continue
    console.error(`${path} is out of date; run: node scripts/generate.mjs`)
    process.exitCode = 1
  } else {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
