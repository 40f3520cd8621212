/**
 * Runs the programs printed in README.md and docs/.
 *
 * A `js` block is a whole program; it passes when it ends with exit code 0. In an `sh run` block the lines
 * that begin with `holdfast` or `npx holdfast` are run. If the next block is `text output`, it must be what
 * was printed. `no-run` in the first line of a block leaves it alone.
 */

import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
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

// Each is a process in a folder of its own.
test.concurrent.each(programs)('the program at $place runs as printed', async ({ block, expected }) => {
  const printed = await runBlock(block)

  if (expected !== undefined) expect(printed).toBe(expected)
})

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

test('a printed program runs in a folder of its own and finds the package', async () => {
  const program = "import 'holdfast'\nimport { readdirSync } from 'node:fs'\nconsole.log(readdirSync('.'))\n"

  const printed = await runBlock({ line: 1, language: 'js', marks: [], text: program })

  expect(printed).toBe("[ 'block.mjs' ]\n")
})

test('a printed program that fails is noticed', async () => {
  const failing = runBlock({ line: 1, language: 'js', marks: [], text: 'process.exit(3)' })

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
  if (language === 'js') return !marks.includes('no-run')
  return language === 'sh' && marks.includes('run')
}

function expectedOutput(next: Block | undefined): string | undefined {
  return next?.language === 'text' && next.marks.includes('output') ? next.text : undefined
}

/** Answers what the block printed; rejects with what it printed as an error when it fails. */
async function runBlock(block: Block): Promise<string> {
  mkdirSync(workshop, { recursive: true })
  const folder = mkdtempSync(join(workshop, 'block-'))
  try {
    const result = block.language === 'js' ? await runProgram(block, folder) : await runShell(block, folder)
    return result.stdout
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function runProgram(block: Block, folder: string) {
  writeFileSync(join(folder, 'block.mjs'), block.text)
  return run(process.execPath, ['block.mjs'], { cwd: folder, timeout: 25_000, env: environment() })
}

/** The command is found through PATH, as after an install; npx would go looking for a registry. */
function runShell(block: Block, folder: string) {
  const binaries = join(folder, '.bin')
  mkdirSync(binaries)
  // Else the store would be that of the repository around it.
  mkdirSync(join(folder, '.holdfast'))
  const command = `#!/bin/sh\nexec "${process.execPath}" "${resolve('dist/cli/main.js')}" "$@"\n`
  writeFileSync(join(binaries, 'holdfast'), command, { mode: 0o755 })

  const lines = block.text.split('\n').filter((line) => /^(?:npx )?holdfast\b/.test(line))
  const script = lines.map((line) => line.replace(/^npx /, '')).join('\n')
  const path = `${binaries}${delimiter}${process.env.PATH}`
  return run('/bin/sh', ['-euc', script], {
    cwd: folder,
    timeout: 25_000,
    env: { ...environment(), PATH: path },
  })
}

/** What the reader of a page has: no colours, and none of the marks a test runner leaves. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_ENV: _mode, VITEST: _runner, ...rest } = process.env
  return { ...rest, NO_COLOR: '1' }
}
