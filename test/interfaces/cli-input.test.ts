/** Every argument of every command refuses what it cannot mean, says which one it was, and changes nothing. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type CommandFacts, listCommands } from '../../dist/cli/reference.js'
import { aShell } from '../support/cli.ts'

type Kind = NonNullable<CommandFacts['options'][number]['kind']>

/** What no field of a kind takes; a flag takes no value at all. */
const wrong: Readonly<Record<Exclude<Kind, 'boolean'>, string>> = {
  text: 'x'.repeat(300_000),
  texts: 'x'.repeat(300_000),
  integer: 'many',
  duration: '5',
  durations: '5',
  time: 'tomorrow',
  choice: 'nonsense',
  choices: 'nonsense',
  json: '{oops',
}

const right: Readonly<Record<Kind, string>> = {
  text: 'x',
  texts: 'x',
  integer: '1',
  boolean: '',
  duration: '1s',
  durations: '1s',
  time: '+1s',
  choice: '',
  choices: '',
  json: '{}',
}

const commands = await listCommands()

const mistakes = commands.flatMap((command) => {
  const positional = command.arguments.flatMap(({ name, kind }, index) =>
    kind === null || kind === 'boolean' ? [] : [{ where: name, kind, index, flags: '' }],
  )
  const optional = command.options.flatMap(({ flags, kind }) =>
    kind === null || kind === 'boolean' || flags.startsWith('--no-')
      ? []
      : [{ where: flags.split(' ')[0] as string, kind, index: -1, flags }],
  )
  return [...positional, ...optional].map((mistake) => ({ command, ...mistake }))
})

test('every argument and option refuses a wrong value with exit code 2, naming it [Z11]', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'x', '1', '--key', 'x')
  const before = await shell.run('events', '--json')

  const accepted = []
  for (const { command, where, kind, index, flags } of mistakes) {
    const args = argumentsFor(command, { index, flags, word: wrong[kind as Exclude<Kind, 'boolean'>] })
    const { code, stderr } = await shell.run(...args)
    if (code !== 2 || !/\nnext {3}\S/.test(stderr))
      accepted.push(`${command.name} ${where}: exit ${code} ${stderr}`)
    else if (!stderr.includes(where) && !kinds.test(stderr))
      accepted.push(`${command.name} ${where} is not named: ${stderr}`)
  }

  expect(accepted).toEqual([])
  expect((await shell.run('events', '--json')).stdout).toBe(before.stdout)
  expect(mistakes.length).toBeGreaterThan(200)
})

/** Rules of the domain name the thing, not the word that was typed. */
const kinds = /^error {2}(?:the pattern|"x+" is not a commit|\w+: .* is not JSON|stdin has 0 lines)/

/** A command line that is right but for one word. */
function argumentsFor(
  command: CommandFacts,
  mistake: { readonly index: number; readonly flags: string; readonly word: string },
): string[] {
  const positional = command.arguments.map(({ kind }, index) =>
    index === mistake.index ? mistake.word : right[kind ?? 'text'],
  )
  const count = Math.max(mistake.index + 1, command.arguments.filter(({ isRequired }) => isRequired).length)
  const mandatory = command.options
    .filter(({ isRequired, flags }) => isRequired && flags !== mistake.flags)
    .flatMap(({ flags, kind }) => [flags.split(' ')[0] as string, right[kind ?? 'text']])
  const option = mistake.flags === '' ? [] : [mistake.flags.split(' ')[0] as string, mistake.word]
  return [...command.name.split(' '), ...positional.slice(0, count), ...mandatory, ...option]
}

test('every command refuses a missing argument, one too many and an unknown option', async () => {
  const shell = aShell()

  const accepted = []
  for (const command of commands) {
    const [first] = command.arguments
    if (first?.isRequired) {
      const mandatory = argumentsFor(command, { index: -1, flags: '', word: '' }).slice(
        command.name.split(' ').length + command.arguments.filter(({ isRequired }) => isRequired).length,
      )
      const { code, stderr } = await shell.run(...command.name.split(' '), ...mandatory)
      if (code !== 2 || !stderr.includes('missing')) accepted.push(`${command.name} without ${first.name}`)
    }
    const right = argumentsFor(command, { index: -1, flags: '', word: '' })
    const unknown = await shell.run(...right, '--nonsense')
    if (unknown.code !== 2) accepted.push(`${command.name} --nonsense: exit ${unknown.code}`)
    if (command.arguments.some(({ isVariadic }) => isVariadic)) continue
    const optional = command.arguments.filter(({ isRequired }) => !isRequired).map(() => 'x')
    const tooMany = await shell.run(...right, ...optional, 'extra')
    if (tooMany.code !== 2) accepted.push(`${command.name} with one word too many: exit ${tooMany.code}`)
  }

  expect(accepted).toEqual([])
})

test('every argument and option has a description', () => {
  const silent = commands.flatMap(({ name, summary, arguments: words, options }) => [
    ...(summary === '' ? [name] : []),
    ...words.filter(({ description }) => description === '').map((word) => `${name} ${word.name}`),
    ...options.filter(({ description }) => description === '').map(({ flags }) => `${name} ${flags}`),
  ])

  expect(silent).toEqual([])
})

test.each([
  ['a duration without its unit', ['queue', 'next', 'q', '--lease', '5'], /500ms, 30s, 5m/],
  ['a day that is none [S5c-37]', ['queue', 'add', 'q', '1', '--run-at', '2027-02-30'], /2026-11-16/],
  [
    'a day that this year has not [S5c-37]',
    ['queue', 'add', 'q', '1', '--run-at', '2027-02-29T08:00:00Z'],
    /time/,
  ],
  ['a month that is none [S5c-37]', ['queue', 'add', 'q', '1', '--run-at', '2027-13-01'], /time/],
  ['a namespace that is no name [S5c-37]', ['queue', 'queues', '--namespace', '-rf'], /--namespace: "-rf"/],
  ['a look once a month [S5c-34]', ['watch', '--every', '30d'], /--every: 30d is more than a day/],
  ['a negative duration', ['queue', 'next', 'q', '--lease', '-5s'], /duration/],
  ['a lease of more than a day', ['queue', 'next', 'q', '--lease', '25h'], /24 h/],
  ['a priority out of its bounds', ['queue', 'add', 'q', '1', '--priority', '11'], /0 \(first\) to 10/],
  ['a hostile name', ['queue', 'add', '../q', '1'], /letters, digits/],
  ['an unknown verb, with the nearest', ['queue', 'nxt', 'q'], /did you mean next\?/],
  ['an unknown noun, with the nearest', ['tsk', 'list'], /did you mean task\?/],
  [
    'an unknown option, with the nearest',
    ['queue', 'add', 'q', '1', '--priorty', '1'],
    /did you mean --priority\?/,
  ],
  [
    'an option that was begun [S5-21]',
    ['queue', 'add', 'q', '1', '--prio', '1'],
    /did you mean --priority\?/,
  ],
  ['an option with its value [S5-21]', ['queue', 'add', 'q', '1', '--prio=1'], /did you mean --priority\?/],
  ['a verb by another word [S5-21]', ['queue', 'get', 'q', 'x'], /did you mean show\?/],
  ['a verb by a word of the shell [S5-21]', ['task', 'ls'], /did you mean list\?/],
  ['a verb of another noun [S5-21]', ['state', 'show', 'k'], /did you mean get\?/],
  ['an unknown choice, with the nearest', ['task', 'list', '--status', 'revew'], /did you mean "Review"\?/],
  ['a pid that is none', ['queue', 'next', 'q', '--for-pid', 'self'], /\$PPID/],
  ['a body given twice', ['queue', 'add', 'q', '1', '--file', '-'], /give it once/],
  ['a threshold that is none', ['locks', 'detect', '--alert-above', 'few'], /"few" is not a whole number/],
  ['a version that is none', ['state', 'watch', 'k', '--since', 'x'], /"x" is not a whole number/],
  ['an event number that is none', ['events', 'follow', '--since', 'x'], /"x" is not a whole number/],
  ['no process to register', ['agent', 'register'], /\$PPID/],
  ['a durability that is none', ['queue', 'queues'], /full nor normal/],
])('%s is refused with exit code 2', async (_, args, next) => {
  const shell = aShell()
  await shell.run('queue', 'add', 'q', '1')
  const env = args[1] === 'queues' ? { HOLDFAST_DURABILITY: 'most' } : {}

  const answer = await shell.runWith({ env }, ...args)

  expect(answer).toMatchObject({ code: 2, stdout: '' })
  expect(answer.stderr).toMatch(/^error {2}\S/)
  expect(answer.stderr).toMatch(next)
})

test('0 is a duration, and several units add up [Z11]', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'q', '1')

  const claimed = await shell.json('queue', 'next', 'q', '--lease', '1h30m')
  const taken = await shell.json('queue', 'reclaim-stale', 'q', '0')

  expect(claimed).toMatchObject({ item: { lease: { leaseMs: 5_400_000 } } })
  expect(taken).toMatchObject({ entriesReclaimed: 1 })
})

test('text in another encoding than UTF-8 is refused, on stdin and in a file', async () => {
  const shell = aShell()
  const stdin = Buffer.from('"Übersetzen"', 'latin1')
  const file = join(shell.folder, 'payload.json')
  writeFileSync(file, stdin)

  const answers = [
    await shell.runWith({ stdin }, 'queue', 'add', 'q', '-'),
    await shell.runWith({ stdin }, 'queue', 'add-many', 'q'),
    await shell.run('queue', 'add', 'q', '--file', file),
  ]

  for (const answer of answers)
    expect(answer).toMatchObject({ code: 2, stderr: expect.stringContaining('not UTF-8') })
})

test.each([
  ['a file', { stdin: '' }, '/dev/zero'],
  ['stdin', { stdin: new Uint8Array(256 * 1024 * 1024 + 1) }, '-'],
])('a value without an end is refused: %s', async (_, options, file) => {
  const shell = aShell()
  await shell.run('init')

  const { code, stderr } = await shell.runWith(options, 'queue', 'add', 'q', '--file', file)

  expect(code).toBe(2)
  expect(stderr).toContain('is larger than 256 MiB')
})

test('a value that may come from a file need not be typed as well', async () => {
  const shell = aShell()
  const file = join(shell.folder, 'value.json')
  writeFileSync(file, '{"max":5}')

  await shell.run('state', 'set', 'limits', '--file', file)
  const nothing = await shell.run('state', 'set', 'limits')

  expect(await shell.json('state', 'get', 'limits')).toMatchObject({ value: { max: 5 } })
  expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining('<value>: is missing') })
})

test.each([
  ['queue', 'add', 'q', '{"user":{"id":12345678901234567890}}', 'payload.user.id: 12345678901234567890'],
  ['queue', 'add', 'q', '9007199254740993', 'payload: 9007199254740993'],
  ['state', 'set', 'k', '[1,1e999]', 'value.1: 1e999'],
])('%s %s %s %s is refused: the number would change [S5-20]', async (...words) => {
  const shell = aShell()

  const answer = await shell.run(...words.slice(0, -1))

  expect(answer).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(String(words.at(-1))) })
})

test('a line whose number would change is refused by its line number [S5-20]', async () => {
  const shell = aShell()

  const answer = await shell.runWith({ stdin: '1\n{"n":1e400}\n' }, 'queue', 'add-many', 'q')

  expect(answer).toMatchObject({ code: 2, stderr: expect.stringContaining('line 2.n: 1e400') })
})
