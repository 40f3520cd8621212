/** However a URL is misspelled, its password is neither shown nor written to the disk. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { type Answer, aShell } from '../support/cli.ts'
import { refusal } from '../support/outcomes.ts'

const spellings = [
  'postgres://app:hunter2@127.0.0.1:1/fleet',
  'Postgres://app:hunter2@127.0.0.1:1/fleet',
  'POSTGRESQL://app:hunter2@127.0.0.1:1/fleet',
  'postgres:/app:hunter2@127.0.0.1:1/fleet',
  'postgres:app:hunter2@127.0.0.1:1/fleet',
  'MySQL://app:hunter2@127.0.0.1:1/fleet',
  'mysql:/app:hunter2@127.0.0.1:1/fleet',
  'postgres://app@127.0.0.1:1/fleet?password=hunter2',
  'postgres://app@127.0.0.1:1/fleet?Password=hunter2&schema=a',
  'postgres://app@127.0.0.1:1/fleet?sslmode=require&sslpassword=hunter2',
  'postgres://app@127.0.0.1:1/fleet?hunter2',
  'postgres://app@127.0.0.1:1/fleet?wake=Postgres%3A%2F%2Fapp%3Ahunter2%40db',
  'postgres://127.0.0.1:1/fleet?wake=postgres://app:hunter2@db/x',
]

const verbs = [
  ['status'],
  ['doctor'],
  ['queue', 'add', 'q', '1'],
  ['config', 'print'],
  ['config', 'print', '--json'],
  ['run', '--lock', 'a', '--', 'true'],
  ['complete', '--', 'queue', 'show', ''],
]

function said({ stdout, stderr }: Answer): string {
  return `${stdout}${stderr}`
}

describe.each(spellings)('%s', (url) => {
  test('is shown without its password by every verb, and never becomes a file [S5d-14]', async () => {
    const shell = aShell()
    const answers: string[] = []

    for (const verb of verbs) answers.push(said(await shell.runWith({ env: { HOLDFAST_URL: url } }, ...verb)))
    answers.push(said(await shell.run('status', '--store', url)))
    answers.push(said(await shell.run('copy', '--from', 'a.db', '--to', url)))
    answers.push(said(await shell.run('copy', '--from', url, '--to', 'a.db')))

    expect(answers.filter((each) => each.includes('hunter2'))).toEqual([])
    expect(readdirSync(shell.folder, { recursive: true }).join('\n')).not.toMatch(/hunter2|postgres:|mysql:/i)
  })

  test('is shown without its password if it comes from a config [S5d-14]', async () => {
    const shell = aShell()
    mkdirSync(join(shell.folder, '.holdfast'))
    writeFileSync(join(shell.folder, '.holdfast', 'config.toml'), `store = "${url}"\n`)

    const answers = [
      said(await shell.run('status')),
      said(await shell.run('trust')),
      said(await shell.run('config', 'print')),
      said(await shell.run('status')),
      said(await shell.run('config', 'set', 'store', url)),
    ]

    expect(answers.filter((each) => each.includes('hunter2'))).toEqual([])
  })

  test('is refused by open() without showing its password [S5d-14]', async () => {
    const error = await refusal(() => open(url, { logger: false }))

    expect(JSON.stringify([error.message, error.facts, error.stack])).not.toContain('hunter2')
  })
})

test('a URL that lacks a slash says so instead of becoming a file [S5d-14]', async () => {
  const error = await refusal(() => open('postgres:/app:hunter2@db/fleet', { logger: false }))

  expect(error).toMatchObject({ code: 'INVALID' })
  expect(error.message).toContain('postgres://')
})
