// Loads TypeScript into a build script: Node 20 cannot run it.

import { mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The exports of a file, given by its path from the root. */
export async function loadSource(path) {
  // Below the root, so that packages are found.
  const folder = mkdtempSync(join(root, '.dist-loaded-'))
  try {
    const bundle = await rolldown({ input: join(root, path), platform: 'node', external: [/^[^./]/] })
    await bundle.write({ dir: folder, format: 'esm', codeSplitting: false, entryFileNames: 'loaded.js' })
    await bundle.close()
    return await import(pathToFileURL(join(folder, 'loaded.js')).href)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
