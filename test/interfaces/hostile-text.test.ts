/**
 * Text of strangers on every way out: each verb as text and as JSON, errors, explanations, the page of `prime`, log
 * lines and completions. The store is one that somebody else made: also names that no operation would take are hostile.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'holdfast'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { listCommands } from '../../dist/cli/reference.js'
import { type Answer, aShell, cleanEnvironment, program, sharedShell } from '../support/cli.ts'
import { scripts, splitWords } from '../support/cli-scripts.ts'
import { fixtures, layFixture } from '../support/fixtures.ts'
import { dangersIn, forged, friendlyTexts, hostileTexts } from '../support/hostile-text.ts'
import { programInTerminal } from '../support/pty.ts'
import { openRaw } from '../support/sqlite-file.ts'

const texts = Object.values(hostileTexts)
/** All of them in one. */
const every = texts.join(' ')
/** Where 2,000 characters are the most. */
const halves = [texts.slice(0, texts.length / 2).join(' '), texts.slice(texts.length / 2).join(' ')]

function dangersOf({ stdout, stderr }: Answer): string[] {
  return [...dangersIn(stdout), ...dangersIn(stderr)]
}

describe('a store made by a stranger [S5d-11]', () => {
  const shell = sharedShell()
  const ids = { item: '', failed: '', task: '', message: '' }

  beforeAll(async () => {
    mkdirSync(join(shell.folder, '.holdfast'))
    const file = join(shell.folder, '.holdfast', 'store.db')
    Object.assign(ids, await makeHostile(file))
  })

  /** The commands that show what is there; `*` is a name as it stands in the store. */
  const looks = (): string[][] => [
    ['status'],
    ['prime'],
    ['doctor'],
    ['queue', 'queues'],
    ['queue', 'list', 'jobs', '--limit', '500'],
    ['queue', 'show', 'jobs', ids.item],
    ['queue', 'show', 'jobs', ids.failed],
    ['queue', 'peek', 'jobs'],
    ['queue', 'describe', 'jobs'],
    ['queue', 'quarantine', 'jobs'],
    ['queue', 'stats', 'jobs'],
    ['queue', 'lock-status', 'jobs'],
    ['queue', 'recovery-stats'],
    ['task', 'list', '--limit', '500'],
    ['task', 'show', ids.task],
    ['task', 'claim', ids.task],
    ['task', 'hints'],
    ['task', 'lock-status', ids.task],
    ['lock', 'list'],
    ['lock', 'status', every],
    ['lock', 'who-has', 'src/a.ts'],
    ['lock', 'reserve', 'src/**'],
    ['locks', 'detect'],
    ['agent', 'list'],
    ['agent', 'show', every],
    ['msg', 'inbox', '--limit', '500'],
    ['msg', 'pending', '--limit', '500'],
    ['msg', 'dead'],
    ['msg', 'status', ids.message],
    ['runs', 'list'],
    ['runs', 'show', every],
    ['runs', 'outcomes', 'run'],
    ['state', 'list'],
    ['state', 'get', 'doc'],
    ['state', 'history', 'doc'],
    ['events', '--limit', '500'],
    ['events', 'images'],
    ['find', every],
    ['explain', ids.item],
    ['explain', ids.failed],
    ['explain', ids.task],
    ['explain', ids.message],
    ['explain', every],
    ['explain', 'jobs', '--kind', 'queue'],
    ['config', 'print', '--show-origin'],
    ['recover', '--dry-run'],
    ['locks', 'cleanup', '--report', '--dry-run'],
  ]

  test.each([
    ['on a terminal with colours', { hasColors: true, hasTalkColors: true, isTalkSeen: true, rows: 200 }, []],
    ['on a narrow terminal', { columns: 60, rows: 30, isTalkSeen: true }, []],
    ['as JSON', {}, ['--json']],
  ] as const)(
    'shows nothing that controls the terminal, hides or passes for a line, %s',
    async (_, io, options) => {
      const found: Record<string, string[]> = {}
      for (const command of looks()) {
        const answer = await shell.runWith(io, ...command, ...options)
        const dangers = dangersOf(answer)
        if (dangers.length > 0) found[command.slice(0, 2).join(' ')] = dangers
        expect(answer.stdout + answer.stderr, command.join(' ')).not.toBe('')
        if (options.length > 0) expect(answer.stdout.trim().split('\n'), command.join(' ')).toHaveLength(1)
      }

      expect(found).toEqual({})
    },
  )

  test('is shown with its hidden characters as escapes', async () => {
    const list = await shell.run('task', 'list', '--limit', '500')
    const json = await shell.run('task', 'list', '--limit', '500', '--json')
    const { tasks } = JSON.parse(json.stdout) as { tasks: { title: string }[] }

    expect(list.stdout).toContain(String.raw`invoice\u202egpj.exe`)
    expect(list.stdout).toContain(String.raw`\u{e0069}\u{e0067}\u{e006e}`)
    expect(tasks.map(({ title }) => title)).toEqual(expect.arrayContaining(texts))
  })

  test('cannot forge advice in prime', async () => {
    const { stdout } = await shell.run('prime')

    expect(stdout.match(/^## Do first$/gm)).toHaveLength(1)
    expect(stdout).toContain(forged)
  })

  test('offers only names to completion', async () => {
    const places = [
      ...[
        ['queue', 'show', 'jobs', ''],
        ['task', 'claim', ''],
        ['lock', 'release', ''],
        ['explain', ''],
      ],
      ...[
        ['msg', 'send', ''],
        ['msg', 'receive-ack', ''],
        ['agent', 'show', ''],
        ['runs', 'show', ''],
      ],
      ...[
        ['state', 'get', ''],
        ['run', '--lock', ''],
        ['run', '--lock='],
        ['queue', 'next', ''],
      ],
    ]

    const lines: string[] = []
    for (const words of places)
      lines.push(...(await shell.run('complete', '--', ...words)).stdout.split('\n').filter(Boolean))
    const values = lines.map((line) => (line.split('\t')[0] as string).replace('--lock=', ''))

    expect(values.length).toBeGreaterThan(texts.length)
    expect(values.filter((value) => !/^[\p{L}\p{N}_][\p{L}\p{N}_.:/@+#=,~ -]*$/u.test(value))).toEqual([])
    expect(lines.flatMap((line) => dangersIn(line))).toEqual([])
  })
})

/** Types each script, with hostile text in the store before each line. Every verb is in one of them, also a new one. */
async function playSpoiled(options: readonly string[], see: (verb: string, answer: Answer) => void) {
  for (const [script, lines] of Object.entries(scripts)) {
    const shell = aShell()
    if (script === 'import') for (const fixture of fixtures) layFixture(shell.folder, fixture)
    const store = join(shell.folder, '.holdfast', 'store.db')
    let id = ''
    for (const line of lines) {
      const [typed = '', stdin = ''] = line.split(' <<< ')
      const args = splitWords(typed).map((word) =>
        word.replace('$id', id).replace('$pid', String(process.pid)),
      )
      if (existsSync(store)) spoilTexts(store)
      const answer = await shell.runWith({ hasColors: true, env: unsynced, stdin }, ...args, ...options)
      id = uuid.exec(answer.stdout)?.[0] ?? id
      see(args.slice(0, 2).join(' '), answer)
    }
  }
}

const unsynced = { HOLDFAST_DURABILITY: 'normal' }
const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/

test.each([
  ['as text', []],
  ['as JSON', ['--json']],
])('no verb shows text unescaped from a hostile store, %s [S5d-11]', async (_, options) => {
  const found: Record<string, string[]> = {}
  const shown = new Set<string>()

  await playSpoiled(options, (verb, answer) => {
    const dangers = dangersOf(answer)
    if (dangers.length > 0) found[verb] = dangers
    if (`${answer.stdout}${answer.stderr}`.includes(String.raw`\u001b`)) shown.add(verb)
  })

  expect(found).toEqual({})
  expect(shown.size).toBeGreaterThan(30)
})

test('no error repeats hostile text unescaped, whichever command refuses it [S5d-11]', async () => {
  const shell = aShell()
  await shell.run('init')
  const apart = ['demo', 'watch', 'events follow', 'state watch', 'init', 'trust']
  const commands = (await listCommands()).filter(({ name }) => !apart.includes(name))

  const found: Record<string, string[]> = {}
  for (const { name } of commands) {
    for (const options of [[], ['--json']]) {
      const words = name.split(' ')
      const answers = [
        await shell.run(...words, every, every, every, ...options),
        await shell.run(...words, every, '--agent', every, ...options),
        await shell.run(...words, `--${every}`, ...options),
      ]
      const dangers = answers.flatMap(dangersOf)
      if (dangers.length > 0) found[name] = dangers
    }
  }

  expect(commands.length).toBeGreaterThan(100)
  expect(found).toEqual({})
})

test('an error message is one clean line for whatever prints it [S5d-11]', async () => {
  const hf = await open('sqlite::memory:', { agent: 'ada', background: false, logger: false })

  const callsWith = (text: string): (() => Promise<unknown>)[] => [
    () => hf.queue('jobs').complete(text, { token: 1 }),
    () => hf.tasks.updateTask(text, { title: 'x' }),
    () => hf.messages.sendWithAck(text, { content: 1 }),
    () => hf.locks.acquireLock(text),
    async () => hf.state(text).get(),
  ]
  const refusals = await Promise.all(
    texts.flatMap(callsWith).map((call) =>
      call().then(
        () => null,
        (error: Error) => error.message,
      ),
    ),
  )
  await hf.close()

  const messages = refusals.filter((message) => message !== null)
  expect(messages.length).toBeGreaterThan(texts.length * 3)
  expect(messages.flatMap((message) => dangersIn(message.replaceAll('\n', '\u0000')))).toEqual([])
})

test('log lines can neither control a terminal nor pass for another line [S5d-11]', async () => {
  const { folder } = aShell()
  const written: string[] = []
  const spy = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written.push(String(text))
    return true
  })
  try {
    const hf = await open(join(folder, 'store.db'), { agent: 'ada' })
    const queue = hf.queue<string>('jobs')
    await queue.addMany(texts.map((text) => ({ payload: text })))
    const worker = hf.work(queue, ({ payload }) => {
      throw Object.assign(new Error(payload), { code: payload.slice(0, 100) })
    })
    await vi.waitFor(async () => expect((await queue.stats()).pending).toBe(0), { timeout: 10_000 })
    await worker.stop()
    await hf.close()
  } finally {
    spy.mockRestore()
  }

  const lines = written.join('').split('\n')
  expect(lines.filter((line) => line.includes('item.failed')).length).toBeGreaterThanOrEqual(texts.length)
  expect(dangersIn(written.join(''))).toEqual([])
  expect(lines.filter((line) => line !== '' && !/^(?:holdfast warn | {4})/.test(line))).toEqual([])
})

test('every script and every emoji is shown as it is, and comes back from JSON [S5d-11]', async () => {
  const shell = aShell()
  const all = friendlyTexts.join(' ')
  for (const text of friendlyTexts) await shell.run('queue', 'add', 'jobs', text.slice(0, 50))
  await shell.run('task', 'add', all, '--body', `${all}\n\tindented`, '--key', 'T-1')

  const [list, show, queue, found] = [
    await shell.run('task', 'list'),
    await shell.run('task', 'show', 'T-1'),
    await shell.run('queue', 'list', 'jobs'),
    await shell.json<{ task: { title: string } }>('task', 'show', 'T-1'),
  ]

  expect(list.stdout).toContain(all)
  expect(show.stdout).toContain(`  ${all}\n  \tindented`)
  for (const text of friendlyTexts) expect(queue.stdout).toContain(text.slice(0, 50))
  expect(found.task.title).toBe(all)
})

describe('completed with tab and run with Enter', () => {
  /** What a shell is given to insert, one a line, by a program in the place of holdfast. */
  const offers = [
    'deploy$(touch pwned)',
    ...Object.values(hostileTexts).filter((text) => !/[\n\t]/.test(text)),
  ]

  test('bash passes on every word as it was offered, and executes none [S5d-11]', async () => {
    const shell = aShell()
    const { stdout: script } = await shell.run('completion', 'bash')
    writeFileSync(join(shell.folder, 'script'), script)
    writeFileSync(join(shell.folder, 'offers'), `${offers.join('\n')}\n`)
    const command = join(shell.folder, 'holdfast')
    writeFileSync(command, `#!/bin/sh\ncat '${shell.folder}/offers'\n`)
    chmodSync(command, 0o755)

    const typed = execFileSync('bash', ['--norc', '-c', enterDriver], {
      cwd: shell.folder,
      env: { ...cleanEnvironment(), LC_ALL: 'C.UTF-8', PATH: `${shell.folder}:${process.env.PATH}` },
      encoding: 'utf8',
    })

    const [plain = [], single = [], double = []] = typed
      .split('\u0000\u0000')
      .map((part) => part.split('\u0000'))
    expect(plain).toEqual(offers)
    expect(single).toEqual(offers.filter((offer) => !offer.includes("'")))
    expect(double).toEqual(offers.filter((offer) => !/["$`\\!]/.test(offer)))
    expect(existsSync(join(shell.folder, 'pwned'))).toBe(false)
  })

  const others = {
    zsh: { words: ['zsh', '-f', '-i'], start: 'PS1=; autoload -U compinit; compinit -u -D; . ./script' },
    fish: { words: ['fish', '--no-config', '-i'], start: 'source ./script' },
  } as const
  const isThere = (name: string) => spawnSync(name, ['-c', 'true']).error === undefined
  for (const name of Object.keys(others))
    if (!isThere(name)) console.log(`completion in ${name} is not tried: it is not installed here`)

  test.each(Object.entries(others).filter(([name]) => isThere(name)))(
    '%s passes on every word as it was offered, and runs none [S5d-11]',
    async (name, { words, start }) => {
      const shell = aShell()
      const at = (file: string) => join(shell.folder, file)
      writeFileSync(at('script'), (await shell.run('completion', name)).stdout)
      writeFileSync(at('holdfast'), standIn)
      chmodSync(at('holdfast'), 0o755)
      const env = { HOME: shell.folder, LC_ALL: 'C.UTF-8', PATH: `${shell.folder}:${process.env.PATH}` }
      const terminal = programInTerminal(shell.folder, words, { env })
      terminal.type(`${start}; echo re''ady\r`)
      await terminal.shows(/ready/)

      const lastWordOf = async (line: string) => {
        rmSync(at('got'), { force: true })
        terminal.type(`${line}\t\r`)
        await vi.waitFor(() => expect(existsSync(at('got')), terminal.screen).toBe(true), { timeout: 20_000 })
        return readFileSync(at('got'), 'utf8')
      }

      const typed: string[] = []
      for (const offer of offers) {
        writeFileSync(at('offer'), `${offer}\n`)
        typed.push(await lastWordOf('holdfast x '))
      }
      rmSync(at('offer'))
      for (const lock of ['session:one', 'deploy it']) await shell.run('lock', 'acquire', lock)

      expect(typed).toEqual(offers)
      expect(existsSync(at('pwned'))).toBe(false)
      expect(await lastWordOf('holdfast lock release ses')).toBe('session:one')
      expect(await lastWordOf('holdfast lock release dep')).toBe('deploy it')
    },
    60_000,
  )
})

/** In the place of holdfast: offers what lies in a file, or what holdfast does, and notes the last word it is then given. */
const standIn = `#!/bin/sh
if [ "$1" = complete ]; then
  cat offer 2>/dev/null || exec '${process.execPath}' '${program}' "$@"
  exit
fi
for last; do :; done
printf '%s' "$last" >got.new
mv got.new got
`

/** Completes with nothing typed, in no quote and in each, and takes the line as Enter would. */
const enterDriver = `
. ./script
got() { printf '%s\\0' "$2"; }
for open in '' "'" '"'; do
  COMP_LINE="holdfast x $open" COMP_POINT=\${#COMP_LINE}
  COMP_WORDS=(holdfast x "$open") COMP_CWORD=2
  _holdfast
  for word in "\${COMPREPLY[@]}"; do eval "got x $open$word$open"; done
  printf '\\0'
done
`

/** Everything that takes any text gets it from operations; names come past them, as a committed file would have them. */
async function makeHostile(file: string) {
  const hf = await open(file, { agent: 'ada', background: false, logger: false })
  const other = await open(file, { agent: 'bob', background: false, logger: false })
  const jobs = hf.queue('jobs')
  const [half = '', rest = ''] = halves
  const added = await jobs.addMany(texts.map((text) => ({ payload: text })))
  const failing = await jobs.add({ [every.slice(0, 90)]: every }, { priority: 0 })
  await jobs.next()
  await jobs.fail(failing.item.id, Object.assign(new Error(every), { code: 'X' }), { retryable: false })
  const { item } = await jobs.add(every, { priority: 0 })
  await jobs.next()
  const { id: task } = await hf.tasks.addTask('all', {
    body: every,
    paths: texts.slice(0, 100),
    metadata: { [every.slice(0, 90)]: every },
    priority: 0,
  })
  for (const title of texts) await hf.tasks.addTask(title, {})
  await other.tasks.claimTaskForAgent(task, { leaseMs: 3_600_000 })
  await other.tasks.updateTask(task, { note: half, progress: every })
  await hf.locks.acquireLock('one', { reason: half, run: 'run', leaseMs: 3_600_000 })
  await other.locks.reserve(['src/**'], { reason: rest, leaseMs: 3_600_000 })
  const { token: held } = await hf.locks.getCurrentLockInfo('one')
  const token = held as number
  await hf.execute('runs.start', { run: 'run', lock: 'one', token })
  await hf.execute('runs.record', {
    run: 'run',
    token,
    outcomes: [{ key: 'k', outcome: 'failed', error: half }],
  })
  await hf.execute('runs.pause', { run: 'run', reason: half })
  await other.messages.register('bob', { sendsPerMinute: 0 })
  const { message } = await other.messages.sendWithAck('ada', { content: every.slice(0, 3000), context: 'x' })
  for (const content of texts) await other.messages.sendWithAck('ada', { content })
  await hf.messages.progressAck(message.id, { note: half })
  await hf.state('doc').set({ [every.slice(0, 90)]: every })
  await jobs.pause({ reason: half })
  await other.close()
  await hf.close()
  spoil(file)
  return { item: item.id, failed: failing.item.id, task, message: message.id, ids: added }
}

/** Everything that is neither a name nor a number. The rows stay as usable as they were. */
function spoilTexts(file: string): void {
  const raw = openRaw(file)
  raw.exec('pragma synchronous = off; begin immediate')
  const texts = {
    item: ['submitted_by', 'quarantine_reason'],
    lock: ['reason', 'user'],
    message: ['context'],
    delivery: ['last_error'],
    outcome: ['error'],
    run: ['pause_reason'],
    queue: ['paused_by', 'pause_reason'],
    instance: ['end_reason'],
    recovery_failure: ['error'],
    state: ['updated_by'],
  }
  const values = { item: ['payload', 'result', 'progress'], message: ['content'], state: ['value'] }
  for (const [columns, value] of [
    [texts, '?'],
    [values, 'json_quote(?)'],
  ] as const)
    for (const [table, names] of Object.entries(columns))
      for (const name of names)
        raw.prepare(`update ${table} set ${name} = ${value} where ${name} is not null`).run(every)
  for (const field of ['title', 'body'])
    raw.prepare(`update item set data = json_replace(data, '$.${field}', ?)`).run(every)
  raw.exec('commit')
  raw.close()
}

function spoil(file: string): void {
  const raw = openRaw(file)
  raw.exec('pragma foreign_keys = off')
  const set = (table: string, column: string, where = 'true') =>
    raw.prepare(`update ${table} set ${column} = ? where ${where}`).run(every)
  set('lock', 'name', "name = 'one'")
  set('lock', 'agent')
  set('lock', 'user')
  set('lock', 'run')
  set('item', 'submitted_by')
  set('item', 'agent', 'agent is not null')
  set('item', 'key', "rowid = (select max(rowid) from item where queue = 'jobs')")
  set('item', 'quarantine_reason', 'quarantined_at is not null')
  set('instance', 'agent')
  set('instance', 'host_name')
  set('run', 'lock')
  set('outcome', 'key')
  set('queue', 'paused_by', 'paused_at is not null')
  set('message', 'type')
  set('message', 'sender')
  set('message', 'context', 'context is not null')
  set('delivery', 'last_error')
  set('event', 'agent')
  set('event', 'id', "subject = 'lock'")
  set('state', 'updated_by')
  raw.close()
}
