/** Keeps the shape of the source: what a reader may rely on without looking. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { describe, expect, test } from 'vitest'
import * as rules from './rules.ts'

const source = readFolders('src')
const everything = readFolders('src', 'test', 'bench', 'scripts').filter(isOutsideTidy)
const published = [...source, ...readFolders('docs'), ...readFiles('README.md')]

describe('the source', () => {
  test('imports follow the arrows of the layers', () => {
    expect(rules.importsFollowTheArrows(source)).toEqual([])
  })

  test('no file imports itself, not even through others', () => {
    expect(rules.importsMakeNoCircle(source)).toEqual([])
  })

  test('a database driver is imported by its own engine only', () => {
    expect(rules.driversStayInTheirEngine(source)).toEqual([])
  })

  test('each dependency but zod is imported in one folder', () => {
    expect(rules.dependenciesHaveOneFolder(source)).toEqual([])
  })

  test('the domain reads no clock, draws no random number and awaits nothing', () => {
    expect(rules.domainIsPure(source)).toEqual([])
  })

  test('clocks, timers and randomness come through the environment', () => {
    expect(rules.timeComesThroughTheEnvironment(source)).toEqual([])
  })

  test('all terminal output goes through the writers that escape it [S5d-11]', () => {
    expect(rules.outputGoesThroughItsWriters(source)).toEqual([])
  })

  test('SQL is written only in the folders that talk to a store', () => {
    expect(rules.sqlStaysInItsFolders(source)).toEqual([])
  })

  test('nothing escapes the compiler, focuses a test or leaves a reminder', () => {
    expect(rules.noEscapeHatches(everything)).toEqual([])
  })

  test('no code tells operations apart by name [S6-4]', () => {
    expect(rules.operationsAreNotToldByName(source)).toEqual([])
  })

  test('no code tells statements apart by their text [S6-4]', () => {
    expect(rules.statementsAreNotToldByText(source)).toEqual([])
  })

  test('every source file is reached from an entry point', () => {
    expect(rules.everySourceFileIsReached(source)).toEqual([])
  })

  test('no two tests of one file have the same name', () => {
    expect(rules.testNamesAreUnique(everything)).toEqual([])
  })

  test('every scenario of suites A to F has one body, which every engine runs [Q29]', () => {
    const files = [...everything, ...readFiles('docs/checklist.md')]

    expect(rules.suitesRunOnEveryEngine(files)).toEqual([])
  })

  test('no published line names a path of one machine or a registry', () => {
    expect(rules.noMachinePaths(published)).toEqual([])
  })

  test('every test that a page names exists', () => {
    expect(rules.namedTestsExist([...published, ...readFolders('test')])).toEqual([])
  })

  test('the longest files and functions are printed for discussion', () => {
    console.log(`longest files\n${rules.longestFiles(source).join('\n')}`)
    console.log(`longest functions\n${rules.longestFunctions(source).join('\n')}`)
  })
})

describe('the rules themselves', () => {
  const clean = [
    at('src/index.ts', "export { open } from './handle/holdfast.ts'"),
    at(
      'src/handle/holdfast.ts',
      "import '../domain/lease.ts'\nnew Worker(new URL('../runtime/beat.js', import.meta.url))",
    ),
    at('src/domain/lease.ts', "// never Date.now() here\nexport const why = 'not an async rule'"),
    at('src/runtime/beat.ts', "import { z } from 'zod'\nqueueMicrotask(z)\nconst engine = 'sqlite'"),
    at('test/a.test.ts', "test('one', f)\ntest('two', f)\nconst company = 1"),
  ]

  test.each(Object.values(rules).filter(({ name }) => !name.startsWith('longest')))(
    '$name is content with clean source',
    (rule) => {
      expect(rule(clean)).toEqual([])
    },
  )

  const namedRow = at('src/operations/a.ts', "  name: 'a.b',")
  const violations: [rule: (files: rules.File[]) => string[], ...files: rules.File[]][] = [
    [rules.importsFollowTheArrows, at('src/domain/a.ts', "import { b } from '../operations/b.ts'")],
    [rules.importsFollowTheArrows, at('src/domain/a.ts', "import { z } from 'zod'")],
    [rules.importsFollowTheArrows, at('src/domain/a.ts', "import { readFileSync } from 'node:fs'")],
    [rules.importsFollowTheArrows, at('src/host/a.ts', "import { b } from '../operations/b.ts'")],
    [rules.importsFollowTheArrows, at('src/operations/a.ts', "import { b } from '../engines/sqlite/b.ts'")],
    [rules.importsFollowTheArrows, at('src/http/a.ts', "export * from '../port/engine.ts'")],
    [rules.importsFollowTheArrows, at('src/engines/sqlite/a.ts', "await import('../../runtime/b.ts')")],
    [rules.importsFollowTheArrows, at('src/stray/a.ts', '')],
    [
      rules.importsMakeNoCircle,
      at('src/domain/a.ts', "import { b } from './b.ts'"),
      at('src/domain/b.ts', "import type { C } from './c.ts'"),
      at('src/domain/c.ts', "export { a } from './a.ts'"),
    ],
    [rules.driversStayInTheirEngine, at('src/engines/a.ts', "await import('node:sqlite')")],
    [rules.driversStayInTheirEngine, at('src/host/a.ts', "import x from '@photostructure/sqlite'")],
    [rules.driversStayInTheirEngine, at('src/engines/sqlite/a.ts', "await import('pg')")],
    [
      rules.dependenciesHaveOneFolder,
      at('src/cli/a.ts', "import 'uuid'"),
      at('src/host/a.ts', "import 'uuid/v7'"),
    ],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is source, to be read and not to be filled in
    [rules.domainIsPure, at('src/domain/a.ts', 'const at = `${Date.now()}`')],
    [rules.domainIsPure, at('src/domain/a.ts', 'export async function a() {}')],
    [rules.domainIsPure, at('src/domain/a.ts', 'new Date(5)')],
    [rules.timeComesThroughTheEnvironment, at('src/runtime/a.ts', 'setTimeout(f, 5)')],
    [rules.timeComesThroughTheEnvironment, at('src/runtime/a.ts', 'const t = new Date()')],
    [
      rules.timeComesThroughTheEnvironment,
      at('src/cli/a.ts', "import * as timers from 'node:timers/promises'"),
    ],
    [rules.outputGoesThroughItsWriters, at('src/cli/verbs/a.ts', 'call.io.out(text)')],
    [rules.outputGoesThroughItsWriters, at('src/cli/a.ts', 'process.stderr.write(text)')],
    [rules.sqlStaysInItsFolders, at('src/runtime/a.ts', 'run(`\n  select id\n  from item\n`)')],
    [rules.sqlStaysInItsFolders, at('src/runtime/a.ts', "run('update item set a = 1')")],
    [rules.sqlStaysInItsFolders, at('src/runtime/a.ts', "run('pragma journal_mode')")],
    [rules.noEscapeHatches, at('test/a.ts', 'let a: any')],
    [rules.noEscapeHatches, at('bench/a.ts', 'b as any')],
    [rules.noEscapeHatches, at('src/a.ts', '// @ts-ignore')],
    [rules.noEscapeHatches, at('test/a.test.ts', "test.only('a', f)")],
    [rules.noEscapeHatches, at('scripts/a.mjs', '// TODO later')],
    [rules.operationsAreNotToldByName, namedRow, at('src/engines/a.ts', "if (name === 'a.b') f()")],
    [rules.operationsAreNotToldByName, namedRow, at('src/engines/a.ts', "if ('a.b' !== name) f()")],
    [
      rules.operationsAreNotToldByName,
      namedRow,
      at('src/engines/a.ts', "const slow = new Set(['a.b', 'c.d'])"),
    ],
    [rules.operationsAreNotToldByName, namedRow, at('src/engines/a.ts', "switch (name) { case 'a.b': }")],
    [rules.statementsAreNotToldByText, at('src/engines/a.ts', "if (query.text === 'commit') f()")],
    [rules.statementsAreNotToldByText, at('src/engines/a.ts', "if (query.text.startsWith('begin')) f()")],
    [rules.statementsAreNotToldByText, at('src/engines/a.ts', "const isScript = text.includes(';')")],
    [rules.everySourceFileIsReached, at('src/index.ts', ''), at('src/domain/a.ts', '')],
    [rules.testNamesAreUnique, at('test/a.test.ts', "test('a', f)\ntest('a', g)")],
    [
      rules.suitesRunOnEveryEngine,
      at('docs/checklist.md', '## Suite A: crashes\n| A-01 | 1 | It heals. |\n'),
      at('test/conformance/sqlite-a.test.ts', "test('it heals [A-01]', f)"),
    ],
    [rules.suitesRunOnEveryEngine, at('test/conformance/a.test.ts', "test.skip('it heals [A-01]', f)")],
    [rules.namedTestsExist, at('docs/a.md', 'see `test/domain/a.test.ts`'), at('test/domain/b.test.ts', '')],
    [rules.noMachinePaths, at('docs/a.md', 'see /home/someone/holdfast')],
    [rules.noMachinePaths, at('README.md', 'from https://registry.example.com/holdfast')],
  ]

  test.each(
    violations.map(([rule, ...files]) => ({ rule, files, shown: files.map(({ text }) => text).join(' & ') })),
  )('$rule.name refuses $shown', ({ rule, files }) => {
    expect(rule(files)).not.toEqual([])
  })
})

function at(path: string, text: string): rules.File {
  return { path, text }
}

function isOutsideTidy({ path }: rules.File): boolean {
  return !path.startsWith('test/tidy/') && !path.startsWith('test/docs/.tmp/')
}

function readFolders(...folders: string[]): rules.File[] {
  const paths = folders
    .filter(existsSync)
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
    )
  return readFiles(...paths.filter((path) => /\.(?:ts|mjs|js|sql|md)$/.test(path) && isOurs(path)))
}

/** The peers of the benchmark are installed below bench/. */
function isOurs(path: string): boolean {
  return !path.split(sep).includes('node_modules')
}

function readFiles(...paths: string[]): rules.File[] {
  return paths.filter(existsSync).map((path) => at(path.replaceAll('\\', '/'), readFileSync(path, 'utf8')))
}
