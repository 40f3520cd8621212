/** The command line as a program: real processes, many at once. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, aShell, cleanEnvironment, program } from '../support/cli.ts'

const json = (answer: Answer) => JSON.parse(answer.stdout) as Record<string, unknown>

test('a command prints its version', async () => {
  const shell = aShell()

  const answer = await shell.start('--version')

  expect(answer).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), stderr: '' })
})

test('a command is a process with an exit code, data on stdout and messages on stderr', async () => {
  const shell = aShell()

  const added = await shell.start('queue', 'add', 'q', '{"n":1}', '--json')
  const refused = await shell.start('queue', 'complete', 'q', 'nothing')

  expect(added).toMatchObject({ code: 0, stderr: `made ${shell.folder}/.holdfast\n` })
  expect(json(added)).toMatchObject({ item: { payload: { n: 1 } } })
  expect(refused).toMatchObject({ code: 3, stdout: '', stderr: expect.stringMatching(/^error {2}/) })
})

test('a reader that stops early causes no error', async () => {
  const shell = aShell()
  await shell.runWith({ stdin: '1\n'.repeat(1000) }, 'queue', 'add-many', 'q')

  const line = `'${process.execPath}' '${program}' queue list q --limit 500 | head -1; echo "\${PIPESTATUS[0]}"`
  const answer = await bash(line, shell.folder)

  expect(answer.stdout).toMatch(/^id .*\n0\n$/)
  expect(answer.stderr).toBe('')
})

test('50 commands at once lose nothing, take nothing twice and wait for each other', {
  timeout: 120_000,
}, async () => {
  const shell = aShell()
  const half = 25
  const lines = Array.from({ length: half }, (_, number) => `"old ${number}"`).join('\n')
  await shell.runWith({ stdin: lines }, 'queue', 'add-many', 'claimed')
  const times: number[] = []
  const timed = async (...args: string[]) => {
    const started = performance.now()
    const answer = await shell.start(...args, '--json')
    times.push(performance.now() - started)
    return answer
  }

  const answers = await Promise.all(
    Array.from({ length: half }, (_, number) => [
      timed('queue', 'add', 'added', String(number)),
      timed('queue', 'next', 'claimed', '--agent', `agent-${number}`),
    ]).flat(),
  )

  const sorted = times.toSorted((left, right) => left - right)
  console.log(`50 commands at once: p50 ${ms(sorted[24])}, p99 ${ms(sorted.at(-1))}`)
  const claims = answers
    .filter((_, index) => index % 2 === 1)
    .map((answer) => json(answer) as unknown as Claimed)
  expect(answers.map(({ code }) => code)).toEqual(Array(50).fill(0))
  expect(answers.map(({ stderr }) => stderr).join('')).not.toMatch(/locked|busy/i)
  expect(new Set(claims.map(({ item }) => item.id)).size).toBe(half)
  expect(await shell.json('queue', 'stats', 'added')).toMatchObject({ total: half, pending: half })
  expect(await shell.json('queue', 'stats', 'claimed')).toMatchObject({ processing: half, pending: 0 })
})

interface Claimed {
  readonly item: { readonly id: string }
}

const ms = (time: number | undefined) => `${Math.round(time ?? 0)} ms`

test('a demo that is interrupted leaves nothing behind [S5c-37]', async () => {
  const shell = aShell()
  const folder = join(shell.folder, 'temporary')
  mkdirSync(folder)
  const child = spawn(process.execPath, [program, 'demo'], {
    cwd: shell.folder,
    env: { ...cleanEnvironment(), TMPDIR: folder },
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const printed = (async () => {
    for await (const data of child.stdout) if (String(data).includes('killed')) return
  })()
  await printed
  const made = readdirSync(folder)

  child.kill('SIGINT')
  const [code] = await once(child, 'exit')

  expect(made.some((name) => name.startsWith('holdfast-demo-'))).toBe(true)
  expect(code).toBe(130)
  expect(readdirSync(folder).filter((name) => name.startsWith('holdfast-demo-'))).toEqual([])
})

test('the demo kills and freezes real workers and succeeds', { timeout: 60_000 }, async () => {
  const shell = aShell()

  const answer = await shell.start('demo', '--json')

  expect(json(answer)).toMatchObject({
    ok: true,
    duplicates: 0,
    lost: 0,
    kills: 5,
    lateCompletionRefused: true,
  })
  expect(answer.code).toBe(0)
})

function bash(line: string, cwd: string): Promise<Answer> {
  return new Promise((resolve) => {
    execFile('bash', ['-c', line], { cwd, env: cleanEnvironment() }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    )
  })
}
