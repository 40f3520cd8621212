// The package as a few files instead of several hundred: a program, a command or a thread of ours then starts in half
// the time (docs/adr/0011).

import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { rolldown } from 'rolldown'

/** Where the package is entered; these stay where their sources lie. */
const entries = [
  'index',
  'fences/index',
  'testing',
  // The command, and what tests and the reference look into.
  'cli/main',
  'cli/program',
  'cli/reference',
  'cli/reference-page',
  // Threads and processes of our own, started by their place.
  'cli/demo-worker',
  'runtime/caretaker-thread',
  'runtime/engine-thread',
]

// Drivers are found at run time, and one of them is native code.
const external = ['@photostructure/sqlite', 'pg', /^node:/]

/** Bundles the sources into a folder. What several entries share lies at its top. */
export async function bundle(source, folder) {
  const isEntry = (id) => entries.some((name) => id === join(source, `${name}.ts`))
  const built = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(source, `${name}.ts`)])),
    platform: 'node',
    external,
    plugins: [keepPlaces(source, isEntry)],
    onwarn(warning) {
      throw new Error(warning.message)
    },
  })
  await built.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
    sourcemap: true,
  })
  await built.close()
  assertPlaces(folder)
}

/**
 * `import.meta.url` of a file that moves to the top of the folder still means where it would be: migrations and
 * threads are found by it.
 */
function keepPlaces(source, isEntry) {
  return {
    name: 'keep-places',
    transform(code, id) {
      if (!code.includes('import.meta.url') || !id.startsWith(source + sep) || isEntry(id)) return null
      const path = JSON.stringify(relative(source, id).split(sep).join('/'))
      // No line is added or taken away: the map stays as it is.
      return { code: code.replaceAll('import.meta.url', `new URL(${path}, import.meta.url).href`), map: null }
    },
  }
}

/** A file that did not move to the top would look for its migrations in the wrong place. */
function assertPlaces(folder) {
  for (const path of readdirSync(folder, { recursive: true })) {
    const isMoved = path.endsWith('.js') && path.includes(sep)
    if (isMoved && readFileSync(join(folder, path), 'utf8').includes(', import.meta.url).href')) {
      throw new Error(
        `${path} holds a file that looks for others beside it; it must be shared by two entries`,
      )
    }
  }
}
