// The command line as a few files instead of three hundred: a command starts in half the time (docs/adr/0011).
//
// Only the command line: the library stays one file a source file, for its readers and their debuggers.

import { readdirSync, renameSync, rmSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { rolldown } from 'rolldown'

/** The command, and what tests and the reference look into. */
const entries = ['main', 'program', 'reference', 'reference-page']

/** Started as a process of its own, by its place beside the bundle. */
const program = 'demo-worker.js'

// Drivers are found at run time, and one of them is native code.
const external = ['@photostructure/sqlite', 'pg', /^node:/]

/** Bundles `cli/` of a compiled folder in place. */
export async function bundleCommandLine(folder) {
  const place = join(folder, 'cli')
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(place, `${name}.js`)])),
    platform: 'node',
    external,
    plugins: [keepPlaces(place)],
    onwarn(warning) {
      throw new Error(warning.message)
    },
  })
  // Written elsewhere first: the sources are read while it writes.
  const written = join(folder, 'bundle')
  await bundle.write({
    dir: written,
    format: 'esm',
    chunkFileNames: '[name]-[hash].js',
    minify: true,
    codeSplitting: { groups: [{ debugName: 'core', name: coreFrom(join(place, 'program.js')) }] },
  })
  await bundle.close()
  for (const name of readdirSync(place)) if (isReplaced(name)) rmSync(join(place, name), { recursive: true })
  for (const name of readdirSync(written)) renameSync(join(written, name), join(place, name))
  rmSync(written, { recursive: true })
}

/** What every command needs, all that the program imports at once, is one file: each more costs half a millisecond. */
function coreFrom(program) {
  let core = null
  return (id, graph) => {
    core ??= reach(program, graph)
    return core.has(id) ? 'core' : null
  }
}

function reach(id, graph, reached = new Set()) {
  if (reached.has(id)) return reached
  reached.add(id)
  for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) reach(imported, graph, reached)
  return reached
}

/** Types stay, for the tests. */
function isReplaced(name) {
  return !name.endsWith('.d.ts') && name !== program
}

/** `import.meta.url` of a file that moved into the bundle still means where it was: migrations and threads lie there. */
function keepPlaces(place) {
  return {
    name: 'keep-places',
    transform(code, id) {
      if (!code.includes('import.meta.url') || id.includes(`${sep}node_modules${sep}`)) return null
      const path = JSON.stringify(relative(place, id).split(sep).join('/'))
      return code.replaceAll('import.meta.url', `new URL(${path}, import.meta.url).href`)
    },
  }
}
