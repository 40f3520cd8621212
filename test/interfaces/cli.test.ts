/** The command line: translates and adds no rule; stable exit codes, data on stdout, talk on stderr. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { errorCodes } from 'holdfast'
import { describe, expect, onTestFinished, test } from 'vitest'

const program = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

interface Answer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

function aFolder(): (...args: string[]) => Promise<Answer> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return (...args) =>
    new Promise((resolve) => {
      const env = { ...process.env, NO_COLOR: '1', HOLDFAST_URL: '' }
      const { HOLDFAST_URL, ...rest } = env
      execFile(process.execPath, [program, ...args], { cwd: folder, env: rest }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
      })
    })
}

const json = (answer: Answer) =>
  JSON.parse(answer.stdout) as Record<string, never> & { schemaVersion: number }

describe('a command', () => {
  test('tells its version', async () => {
    const holdfast = aFolder()

    const answer = await holdfast('--version')

    expect(answer).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
  })

  test('makes its store where it is run, and works an item from add to done', async () => {
    const holdfast = aFolder()

    const added = await holdfast('queue', 'add', 'builds', '{"branch":"main"}', '--priority', '3', '--json')
    const claimed = await holdfast('queue', 'next', 'builds', '--lease', '5m', '--json')
    const { id, token } = (json(claimed) as unknown as { item: { id: string; token: number } }).item
    const done = await holdfast('queue', 'done', 'builds', id, '--token', String(token))

    expect(json(added)).toMatchObject({
      schemaVersion: 1,
      position: 1,
      item: { priority: 3, payload: { branch: 'main' } },
    })
    expect(json(claimed)).toMatchObject({
      outcome: 'claimed',
      item: { lease: { leaseMs: 300_000, instance: null } },
    })
    expect(done).toMatchObject({ code: 0, stdout: `${id}  done\n` })
  })

  test('takes plain text as a payload', async () => {
    const holdfast = aFolder()

    const added = await holdfast('queue', 'add', 'q', 'hello', '--json')

    expect(json(added)).toMatchObject({ item: { payload: 'hello' } })
  })

  test('shows a list to people and to machines', async () => {
    const holdfast = aFolder()
    await holdfast('queue', 'add', 'q', '1', '--key', 'first')

    const text = await holdfast('queue', 'list', 'q')
    const machine = await holdfast('queue', 'list', 'q', '--json')

    expect(text.stdout).toContain('first')
    expect(text.stdout).toContain('pending')
    expect(json(machine)).toMatchObject({ items: [{ key: 'first' }], next: null })
  })

  test('gives back what lapsed', async () => {
    const holdfast = aFolder()
    await holdfast('queue', 'add', 'q', '1')
    await holdfast('queue', 'next', 'q', '--lease', '0')

    const recovered = await holdfast('queue', 'recover', 'q', '--json')

    expect(json(recovered)).toMatchObject({ entriesReclaimed: 1 })
  })
})

describe('an exit code', () => {
  test.each([
    ['6: nothing to do', ['queue', 'next', 'empty'], 6],
    ['3: not found', ['queue', 'done', 'q', 'nothing', '--token', '1'], errorCodes.NOT_FOUND.exit],
    ['2: a duration without its unit', ['queue', 'next', 'q', '--lease', '5'], errorCodes.INVALID.exit],
    ['2: an unknown verb', ['queue', 'nxt', 'q'], errorCodes.INVALID.exit],
    ['2: an unknown option', ['queue', 'add', 'q', '1', '--priorty', '1'], errorCodes.INVALID.exit],
    ['2: a number that is none', ['queue', 'add', 'q', '1', '--priority', 'high'], errorCodes.INVALID.exit],
    ['2: a hostile name', ['queue', 'add', '../q', '1'], errorCodes.INVALID.exit],
  ])('%s', async (_, args, code) => {
    const holdfast = aFolder()
    await holdfast('queue', 'add', 'q', '1')

    const answer = await holdfast(...args)

    expect(answer.code).toBe(code)
  })

  test('4 and 5: another holds it, and it is no longer yours', async () => {
    const holdfast = aFolder()
    await holdfast('queue', 'add', 'q', '1', '--key', 'k')
    await holdfast('queue', 'next', 'q')

    const held = await holdfast('queue', 'done', 'q', 'k')
    const lost = await holdfast('queue', 'done', 'q', 'k', '--token', '1')

    expect([held.code, lost.code]).toEqual([errorCodes.HELD.exit, errorCodes.LEASE_LOST.exit])
  })

  test('10: what lies there is no store', async () => {
    const holdfast = aFolder()

    const answer = await holdfast('queue', 'list', 'q', '--store', program)

    expect(answer.code).toBe(errorCodes.STORE_UNFIT.exit)
  })
})

describe('an error', () => {
  test('says what happened and what to do next, on stderr', async () => {
    const holdfast = aFolder()
    await holdfast('queue', 'add', 'q', '1')

    const answer = await holdfast('queue', 'done', 'q', 'nothing', '--token', '1')

    expect(answer.stdout).toBe('')
    expect(answer.stderr).toMatch(/^error queue q has no item "nothing"\nnext {2}\S/)
  })

  test('is one JSON object with its code for machines', async () => {
    const holdfast = aFolder()
    await holdfast('queue', 'add', 'q', '1')

    const answer = await holdfast('queue', 'done', 'q', 'nothing', '--token', '1', '--json')

    expect(json(answer)).toMatchObject({
      schemaVersion: 1,
      error: { code: 'NOT_FOUND', facts: { ref: 'nothing' } },
    })
  })
})

test('stored text cannot draw on the terminal of who lists it', async () => {
  const holdfast = aFolder()
  await holdfast('queue', 'add', 'q', '"\\u001b[2Jgone"')

  const claimed = await holdfast('queue', 'next', 'q')

  expect(claimed.stdout).not.toContain('\u001b')
})

test('the demo kills and freezes real workers and ends well', { timeout: 60_000 }, async () => {
  const holdfast = aFolder()

  const answer = await holdfast('demo', '--json')

  expect(json(answer)).toMatchObject({
    ok: true,
    duplicates: 0,
    lost: 0,
    kills: 5,
    lateCompletionRefused: true,
  })
  expect(answer.code).toBe(0)
})
