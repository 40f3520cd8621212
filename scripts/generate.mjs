// Writes the pages of docs/reference/ that are generated from the code. Needs no build.
//
//   node scripts/generate.mjs            write them
//   node scripts/generate.mjs --check    exit 1 if a page is out of date

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

for (const [path, make] of Object.entries(await loadPages())) {
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

/** The pages are written in TypeScript, as the code they read is, and Node 20 cannot run that. */
async function loadPages() {
  // Below the root, so that packages are found.
  const folder = mkdtempSync(join(root, '.dist-reference-'))
  try {
    const bundle = await rolldown({
      input: join(root, 'scripts', 'reference', 'pages.ts'),
      platform: 'node',
      external: [/^[^./]/],
    })
    await bundle.write({ dir: folder, format: 'esm', codeSplitting: false })
    await bundle.close()
    const { pages } = await import(pathToFileURL(join(folder, 'pages.js')).href)
    return pages
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
