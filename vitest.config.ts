import { readdirSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

// Every folder of test/ is a suite. `domain` imports src/ directly, so that coverage can see it; the
// others import the package by its own name, and so test what is shipped.
const suites = readdirSync('test', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)

export default defineConfig({
  test: {
    // Suites start processes and threads of their own; more files at once only make them wait.
    maxWorkers: 2,
    fileParallelism: true,
    coverage: {
      provider: 'v8',
      include: ['src/domain/**'],
      reporter: ['text'],
      thresholds: { branches: 100 },
    },
    projects: suites.map((name) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        // A crash test waits for real processes to start, die and be noticed.
        testTimeout: name === 'crash' ? 60_000 : 30_000,
        hookTimeout: name === 'crash' ? 60_000 : 30_000,
        // Node itself loads the built package: transformed, its worker threads and its
        // import.meta.url would not be those a user gets.
        server: { deps: { external: [/\/dist\//] } },
      },
    })),
  },
})
