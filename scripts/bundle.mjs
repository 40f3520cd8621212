// The package as a few files instead of several hundred: a program, a command or a thread of ours then starts in half
// the time (docs/adr/0011).

import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { rolldown } from 'rolldown'

/** Where the library is entered, and its threads and processes, which are started by their place. */
const library = [
  'index',
  'fences/index',
  'testing',
  'runtime/caretaker/caretaker-thread',
  'runtime/thread/engine-thread',
  'cli/demo-worker',
]

/** The command, and what tests and the reference look into. */
const commandLine = ['main', 'program', 'reference', 'reference-page']

// Drivers are found at run time, and one of them is native code.
const external = ['@photostructure/sqlite', 'pg', /^node:/]

/** Bundles the sources into a folder: the library to be read by people too, the command line to start quickly. */
export async function bundle(source, folder) {
  await write(source, folder, library, { sourcemap: true })
  const program = join(source, 'cli', 'program.ts')
  await write(join(source, 'cli'), join(folder, 'cli'), commandLine, {
    minify: true,
    codeSplitting: { groups: [{ debugName: 'core', name: coreFrom(program) }] },
  })
}

/** What several entries share lies at the top of the folder. */
async function write(source, folder, entries, options) {
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(source, `${name}.ts`)])),
    platform: 'node',
    external,
    plugins: [keepPlaces(source)],
    onwarn(warning) {
      throw new Error(warning.message)
    },
  })
  const { output } = await bundle.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    ...options,
  })
  await bundle.close()
  assertPlaces(folder, output)
}

/**
 * `import.meta.url` of a file that moves to the top of the folder still means where it would be: migrations and
 * threads are found by it.
 */
function keepPlaces(source) {
  return {
    name: 'keep-places',
    transform(code, id) {
      if (!code.includes('import.meta.url') || id.includes(`${sep}node_modules${sep}`)) return null
      const path = JSON.stringify(relative(source, id).split(sep).join('/'))
      // No line is added or taken away: the map stays as it is.
      return { code: code.replaceAll('import.meta.url', `new URL(${path}, import.meta.url).href`), map: null }
    },
  }
}

/** A file that did not move to the top would look for its migrations in the wrong place. */
function assertPlaces(folder, output) {
  for (const { fileName } of output) {
    const isTop = !fileName.includes('/')
    if (isTop || !readFileSync(join(folder, fileName), 'utf8').includes('import.meta.url')) continue
    throw new Error(
      `${fileName} holds a file that looks for others beside it; it must be shared by two entries`,
    )
  }
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
