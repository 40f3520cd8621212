// Writes the pages of docs/reference/ that are generated from the program itself.
//
//   node scripts/generate.mjs            write them; needs a build
//   node scripts/generate.mjs --check    exit 1 when a page is out of date

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { referencePage } from '../dist/cli/reference-page.js'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const pages = { 'docs/reference/cli.md': referencePage }

for (const [path, make] of Object.entries(pages)) {
  const file = join(root, path)
  const text = await make()
  if (process.argv.includes('--check')) {
    if (read(file) === text) continue
    console.error(`${path} is not current; run: npm run build && node scripts/generate.mjs`)
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
