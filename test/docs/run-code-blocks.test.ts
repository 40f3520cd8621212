/**
 * Runs the programs printed in README.md and docs/.
 *
 * A `js` or `ts` block is a whole program; it passes when it compiles and ends with exit code 0, also run again. In an `sh run` block the lines
 * that begin with `holdfast`, `npx holdfast` or `export` are run. If the next block is `text output`, it must be what
 * was printed. `no-run` in the first line of a block leaves it alone; `once` is for what cannot be done again, such as
 * moving a store away.
 */

import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { transformSync } from 'rolldown/utils'
import { expect, test } from 'vitest'

interface Block {
  readonly line: number
  readonly language: string
  readonly marks: readonly string[]
  readonly text: string
}

const run = promisify(execFile)

// Inside the repository and outside node_modules, or `import 'holdfast'` would not mean this package.
const workshop = resolve('test/docs/.tmp')

const programs = findPages().flatMap((page) => {
  const blocks = readBlocks(readFileSync(page, 'utf8'))
  return blocks.flatMap((block, index) => {
    const place = `${page}:${block.line}`
    return isProgram(block) ? [{ place, block, expected: expectedOutput(blocks[index + 1]) }] : []
  })
})

// Each is a process in a folder of its own. A reader tries a program again, on the store it made.
test.concurrent.each(programs)(
  'the program at $place runs as printed, and again [S5-24]',
  async ({ block, expected }) => {
    const [printed] = await runBlock(block, block.marks.includes('once') ? 1 : 2)

    if (expected !== undefined) expect(printed).toBe(expected)
  },
)

test('every program compiles under strict TypeScript against the types of the package [S5-24]', async () => {
  const folder = join(workshop, 'types')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const scripts = programs.filter(({ block }) => block.language !== 'sh')
  for (const [number, { block }] of scripts.entries())
    writeFileSync(join(folder, `block-${number}.mts`), `${block.text}\nexport {}\n`)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: strict, include: ['*.mts'] }),
  )

  const { stdout } = await run(resolve('node_modules/.bin/tsc'), ['-p', folder], { timeout: 60_000 }).catch(
    (error) => error,
  )

  const errors = String(stdout).replace(/^.*block-(\d+)\.mts\((\d+),/gm, (_, number, line) => {
    const { place } = scripts[Number(number)] ?? { place: '' }
    return `${place} line ${line} (`
  })
  expect(errors).toBe('')
  expect(scripts.length).toBeGreaterThan(10)
}, 90_000)

/** What `tsc --init` sets, and a little more. */
const strict = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noEmit: true,
  target: 'es2023',
  module: 'nodenext',
  types: ['node'],
  skipLibCheck: true,
}

test('the links of a page lead to existing files and headings, from npm too [S5-24]', () => {
  const { repository } = JSON.parse(readFileSync('package.json', 'utf8')) as { repository: { url: string } }
  const broken = [...findPages(), 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'].flatMap((page) =>
    linksOf(page)
      .filter(({ path, heading }) => !leads(path, heading))
      .map(({ link }) => `${page}: ${link}`),
  )

  expect(broken).toEqual([])
  // npm shows the README alone, and looks for its relative links here.
  expect(repository.url).toMatch(/^git\+https:\/\/github\.com\/[\w-]+\/[\w-]+\.git$/)
})

test('the files that the architecture names are there [S6-E7]', () => {
  const files = ['src', 'scripts', 'test', 'docs'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  )
  const named = [...readFileSync('ARCHITECTURE.md', 'utf8').matchAll(/`([\w/-]+\.(?:ts|mjs|sql))`/g)]
  const missing = named
    .map(([, name = '']) => name)
    .filter((name) => !files.some((file) => `/${file}`.endsWith(`/${name}`)))

  expect(missing).toEqual([])
  expect(named.length).toBeGreaterThan(100)
})

function linksOf(page: string): { link: string; path: string; heading: string | undefined }[] {
  const text = readFileSync(page, 'utf8').replace(/^```[\s\S]*?^```$/gm, '')
  return [...text.matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)].map(([, link = '']) => {
    const [file = '', heading] = link.split('#')
    return { link, path: file === '' ? page : join(dirname(page), file), heading }
  })
}

function leads(path: string, heading: string | undefined): boolean {
  if (!existsSync(path)) return false
  if (heading === undefined) return true
  const headings = [...readFileSync(path, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  )
  return headings.includes(heading)
}

test('a block keeps its language, marks and text', () => {
  const page = [
    'before',
    '```js no-run',
    'one()',
    '',
    'two()',
    '```',
    '',
    '```text output',
    'three',
    '```',
    '',
  ].join('\n')

  const blocks = readBlocks(page)

  expect(blocks).toEqual([
    { line: 2, language: 'js', marks: ['no-run'], text: 'one()\n\ntwo()\n' },
    { line: 8, language: 'text', marks: ['output'], text: 'three\n' },
  ])
  expect(blocks.filter(isProgram)).toEqual([])
})

test('a printed program runs in its own folder and finds the package', async () => {
  const program = "import 'holdfast'\nimport { readdirSync } from 'node:fs'\nconsole.log(readdirSync('.'))\n"

  const [printed] = await runBlock({ line: 1, language: 'js', marks: [], text: program }, 1)

  expect(printed).toBe("[ 'block.mjs' ]\n")
})

test('a printed program that fails is noticed', async () => {
  const failing = runBlock({ line: 1, language: 'js', marks: [], text: 'process.exit(3)' }, 1)

  await expect(failing).rejects.toMatchObject({ code: 3 })
})

function findPages(): string[] {
  const docs = readdirSync('docs', { recursive: true, encoding: 'utf8' }).map((path) => join('docs', path))
  return ['README.md', ...docs].filter((path) => path.endsWith('.md') && existsSync(path)).sort()
}

function readBlocks(page: string): Block[] {
  const fences = page.matchAll(/^```(\w+)([^\n]*)\n([\s\S]*?)^```$/gm)
  return [...fences].map(({ index, 1: language = '', 2: info = '', 3: text = '' }) => ({
    line: page.slice(0, index).split('\n').length,
    language,
    marks: info.split(/\s+/).filter((mark) => mark !== ''),
    text,
  }))
}

function isProgram({ language, marks }: Block): boolean {
  if (language === 'js' || language === 'ts') return !marks.includes('no-run')
  return language === 'sh' && marks.includes('run')
}

function expectedOutput(next: Block | undefined): string | undefined {
  return next?.language === 'text' && next.marks.includes('output') ? next.text : undefined
}

/** Answers what the block printed each time; rejects with what it printed as an error when it fails. */
async function runBlock(block: Block, times: number): Promise<string[]> {
  mkdirSync(workshop, { recursive: true })
  const folder = mkdtempSync(join(workshop, 'block-'))
  try {
    const printed: string[] = []
    for (let time = 0; time < times; time++) {
      const result = block.language === 'sh' ? await runShell(block, folder) : await runProgram(block, folder)
      printed.push(result.stdout)
    }
    return printed
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function runProgram(block: Block, folder: string) {
  // Node 20 does not run TypeScript itself.
  const { code } = block.language === 'ts' ? transformSync('block.ts', block.text) : { code: block.text }
  writeFileSync(join(folder, 'block.mjs'), code)
  return run(process.execPath, ['block.mjs'], { cwd: folder, timeout: 50_000, env: environment() })
}

/** The command is found through PATH, as after an install; npx would go looking for a registry. */
function runShell(block: Block, folder: string) {
  const binaries = join(folder, '.bin')
  mkdirSync(binaries, { recursive: true })
  // Else the store would be that of the repository around it.
  mkdirSync(join(folder, '.holdfast'), { recursive: true })
  const command = `#!/bin/sh\nexec "${process.execPath}" "${resolve('dist/cli/main.js')}" "$@"\n`
  writeFileSync(join(binaries, 'holdfast'), command, { mode: 0o755 })

  const lines = block.text.split('\n').filter((line) => /^(?:(?:npx )?holdfast|export)\b/.test(line))
  const script = lines.map((line) => line.replace(/^npx /, '')).join('\n')
  const path = `${binaries}${delimiter}${process.env.PATH}`
  return run('/bin/sh', ['-euc', script], {
    cwd: folder,
    timeout: 50_000,
    env: { ...environment(), PATH: path },
  })
}

/** What the reader of a page has: no colours, and none of the marks a test runner leaves. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_ENV: _mode, VITEST: _runner, ...rest } = process.env
  return { ...rest, NO_COLOR: '1' }
}
