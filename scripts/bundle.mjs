// Bundles the package into a few files instead of several hundred, which halves the start-up time of a program, a
// command or one of our threads (docs/adr/0011).

import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { rolldown } from 'rolldown'

/** The library's entry points, and its threads and processes, which are started by path. */
const library = [
  'index',
  'fences/index',
  'testing',
  'runtime/caretaker/caretaker-thread',
  'runtime/thread/engine-thread',
  'cli/demo-worker',
]

/** The command, and the modules that the tests import. */
const commandLine = ['main', 'program', 'reference']

// Drivers are resolved at run time, and one of them is native code.
const external = ['@photostructure/sqlite', 'pg', /^node:/]

/** Bundles the sources into a folder. The library stays readable; the command line is minified to start quickly. */
export async function bundle(source, folder) {
  await write(source, folder, library, { sourcemap: true })
  const [main, program] = ['main.ts', 'program.ts'].map((name) => join(source, 'cli', name))
  const output = await write(join(source, 'cli'), join(folder, 'cli'), commandLine, {
    minify: true,
    codeSplitting: {
      groups: [
        // What runs before anything else stays apart from what is shared with the rest.
        { debugName: 'start', name: reachedFrom(main, 'start'), test: (id) => id !== main, priority: 1 },
        { debugName: 'core', name: reachedFrom(program, 'core') },
      ],
    },
  })
  assertLightStart(output)
}

/** Code that several entries share ends up at the top of the folder. */
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
  return output
}

/**
 * Makes `import.meta.url` in a file that moves to the top of the folder still point to the file's original location.
 * Migrations and threads are found relative to it.
 */
function keepPlaces(source) {
  return {
    name: 'keep-places',
    transform(code, id) {
      if (!code.includes('import.meta.url') || id.includes(`${sep}node_modules${sep}`)) return null
      const path = JSON.stringify(relative(source, id).split(sep).join('/'))
      // No line is added or removed, so the source map stays valid.
      return { code: code.replaceAll('import.meta.url', `new URL(${path}, import.meta.url).href`), map: null }
    },
  }
}

/** A file that did not move to the top would look for its migrations in the wrong folder. */
function assertPlaces(folder, output) {
  for (const { fileName } of output) {
    const isTop = !fileName.includes('/')
    if (isTop || !readFileSync(join(folder, fileName), 'utf8').includes('import.meta.url')) continue
    throw new Error(
      `${fileName} holds a file that looks for others beside it; it must be shared by two entries`,
    )
  }
}

/** `--version` needs no more than this, and from Node 22 on the compile cache must be on before the rest is loaded. */
function assertLightStart(output) {
  const heavy = output
    .find(({ fileName }) => fileName === 'main.js')
    .imports.filter((name) => name.startsWith('core-'))
  if (heavy.length > 0) throw new Error(`main.js loads ${heavy} before it knows what to do`)
}

/**
 * Puts all that a module imports statically in one file: each additional file costs half a millisecond. Every command
 * needs the core.
 */
function reachedFrom(entry, name) {
  let reached = null
  return (id, graph) => {
    reached ??= reach(entry, graph)
    return reached.has(id) ? name : null
  }
}

function reach(id, graph, reached = new Set()) {
  if (reached.has(id)) return reached
  reached.add(id)
  for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) reach(imported, graph, reached)
  return reached
}
