import { readdirSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import {
  chosenProjects,
  type EngineProject,
  engineSuites,
  filesLeftOut,
  filesOf,
} from './scripts/engines.mjs'
import { LongestFirst } from './scripts/longest-first.mjs'
import { storesFolder } from './scripts/stores-folder.mjs'
import { waitingSuites } from './scripts/waiting-suites.mjs'

const isQuick = Boolean(process.env.HOLDFAST_TEST_QUICK)

// Every folder of test/ is a suite. `domain` imports src/ directly, so that coverage can see it; the
// others import the package by its own name, and so test what is shipped.
const suites = readdirSync('test', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)

/** Real processes that are killed, and real servers. */
const realSuites = ['crash', 'cluster']

/** Ends only what hangs: the full form of a long test on a server takes half a minute on a busy machine. */
const longestMs = ({ engine }: Pick<EngineProject, 'engine'>) =>
  engine === 'sqlite' || isQuick ? 60_000 : 120_000

export default defineConfig({
  test: {
    // Suites start processes and threads of their own; more files at once only make them wait.
    maxWorkers: 2,
    fileParallelism: true,
    sequence: { sequencer: LongestFirst },
    coverage: {
      provider: 'v8',
      include: ['src/domain/**'],
      reporter: ['text'],
      thresholds: { branches: 100 },
    },
    projects: chosenProjects(suites).map(({ name, suite, engine }) => ({
      test: {
        name,
        include: filesOf({ suite, engine }, isQuick),
        exclude: [...filesOfOtherEngines({ suite, engine }), ...filesLeftOut({ suite, engine }, isQuick)],
        env: { HOLDFAST_TEST_ENGINES: engine, TMPDIR: storesFolder() },
        globalSetup: setupOf({ suite, engine }),
        setupFiles: setupFilesOf({ suite, engine }),
        isolate: false,
        maxConcurrency: 3,
        // Four at once keep two cores busy, though most of them wait.
        ...(waitingSuites.includes(suite) ? { maxWorkers: 4, sequence: { groupOrder: 1 } } : {}),
        testTimeout: longestMs({ engine }),
        hookTimeout: longestMs({ engine }),
        // Node itself loads the built package: transformed, its worker threads and its
        // import.meta.url would not be those a user gets.
        server: { deps: { external: [/\/dist\//] } },
      },
    })),
  },
})

/** Servers for all files of a project, or a ground on which each starts its own. */
function setupOf({ suite, engine }: Omit<EngineProject, 'name'>): string[] {
  if (engine !== 'sqlite') return ['test/support/servers.ts']
  return realSuites.includes(suite) ? ['test/support/shared-ground.ts'] : []
}

/** Run before each file: a check of every statement, or hooks that end what tests started. */
function setupFilesOf({ suite, engine }: Omit<EngineProject, 'name'>): string[] {
  if (realSuites.includes(suite)) return ['test/crash/after-tests.ts']
  return suite === 'conformance' && engine === 'sqlite' ? ['test/support/plans.ts'] : []
}

/** What only one engine can promise is in files that begin with its name; a suite of its own has them all. */
function filesOfOtherEngines({ suite, engine }: Omit<EngineProject, 'name'>): string[] {
  if (!engineSuites.includes(suite)) return []
  const own = engine.split('-')[0]
  return ['sqlite', 'postgres']
    .filter((name) => name !== own)
    .map((name) => `test/${suite}/${name}-*.test.ts`)
}
