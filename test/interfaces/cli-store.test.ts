/** Which store a command works on, and what is set where. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { aShell, type Shell } from '../support/cli.ts'

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
    cwd,
    stdio: 'pipe',
  })

/** Where a command run in a folder would look. */
async function storeFrom(shell: Shell, cwd: string, env: Record<string, string> = {}, ...args: string[]) {
  const answer = await shell.runWith({ cwd, env }, 'config', 'print', '--show-origin', '--json', ...args)
  return (JSON.parse(answer.stdout) as { settings: { store: { value: string; origin: string } } }).settings
    .store
}

describe('the store', () => {
  test('comes from the option, then the variable, then the nearest folder upward', async () => {
    const shell = aShell()
    const below = join(shell.folder, 'a', 'b')
    mkdirSync(join(shell.folder, '.holdfast'))
    mkdirSync(join(shell.folder, 'a', '.holdfast'), { recursive: true })
    mkdirSync(below)
    const env = { HOLDFAST_URL: 'by-variable.db' }

    expect(await storeFrom(shell, below, env, '--store', 'by-option.db')).toEqual({
      value: join(below, 'by-option.db'),
      origin: '--store',
    })
    expect(await storeFrom(shell, below, env)).toEqual({
      value: join(below, 'by-variable.db'),
      origin: 'HOLDFAST_URL',
    })
    expect((await storeFrom(shell, below)).value).toBe(join(shell.folder, 'a', '.holdfast', 'store.db'))
  })

  test('is shared by the work trees of a repository, and created in the main one', async () => {
    const shell = aShell()
    const main = join(shell.folder, 'main')
    const inside = join(main, 'src')
    const tree = join(shell.folder, 'tree')
    mkdirSync(inside, { recursive: true })
    git(main, 'init', '--quiet')
    git(main, 'commit', '--quiet', '--allow-empty', '-m', 'first')
    git(main, 'worktree', 'add', '--quiet', tree)

    await shell.runWith({ cwd: tree }, 'queue', 'add', 'q', '1')

    expect(existsSync(join(tree, '.holdfast'))).toBe(false)
    expect((await storeFrom(shell, inside)).value).toBe(join(main, '.holdfast', 'store.db'))
    expect((await shell.runWith({ cwd: inside }, 'queue', 'peek', 'q')).code).toBe(0)
    expect(git(main, 'status', '--porcelain').toString()).toBe('')
  })

  test('of a submodule is separate', async () => {
    const shell = aShell()
    const parent = join(shell.folder, 'parent')
    const part = join(parent, 'part')
    mkdirSync(part, { recursive: true })
    mkdirSync(join(parent, '.git', 'modules', 'part'), { recursive: true })
    writeFileSync(join(part, '.git'), 'gitdir: ../.git/modules/part\n')

    expect((await storeFrom(shell, part)).value).toBe(join(part, '.holdfast', 'store.db'))
  })

  test('is `.holdfast` in the current folder if nothing else is found', async () => {
    const shell = aShell()

    expect((await storeFrom(shell, shell.folder)).value).toBe(join(shell.folder, '.holdfast', 'store.db'))
  })

  test('is not created by a read, which says how to create one', async () => {
    const shell = aShell()

    const answer = await shell.run('queue', 'list', 'q')

    expect(answer).toMatchObject({ code: 3, stdout: '' })
    expect(answer.stderr).toContain('holdfast init')
    expect(existsSync(join(shell.folder, '.holdfast'))).toBe(false)
  })

  test.each<[string, string[]]>([
    ['queue next', ['queue', 'next', 'q']],
    ['queue next --wait', ['queue', 'next', 'q', '--wait', '1s']],
    ['queue next-with-lock', ['queue', 'next-with-lock', 'q']],
    ['task next', ['task', 'next']],
    ['run --queue', ['run', '--queue', 'q', '--', 'true']],
    ['run --next-task', ['run', '--next-task', '--', 'true']],
  ])('is not made by taking work: %s [S6-E2]', async (_, args) => {
    const shell = aShell()

    const answer = await shell.run(...args)
    const named = await shell.run(...args.slice(0, 1), '--store', 'named.db', ...args.slice(1))

    expect([answer.code, named.code]).toEqual([3, 3])
    expect(answer.stderr).toContain('there is no store for this folder')
    expect(answer.stderr).toContain('holdfast init')
    expect(named.stderr).toContain(`there is no store at ${join(shell.folder, 'named.db')}`)
    expect(readdirSync(shell.folder)).toEqual([])
  })

  test.each<[string, string[]]>([
    ['lock acquire', ['lock', 'acquire', 'deploy']],
    ['lock reserve', ['lock', 'reserve', 'src/**']],
    ['run --lock', ['run', '--lock', 'deploy', '--', 'true']],
    ['agent register', ['agent', 'register', '--pid', String(process.pid)]],
  ])(
    'is made for %s only if it was named, so that no two folders guard the same thing [S6-E2]',
    async (_, args) => {
      const shell = aShell()

      const answer = await shell.run(...args)
      const made = readdirSync(shell.folder)
      const named = await shell.run(...args.slice(0, 1), '--store', 'named.db', ...args.slice(1))

      expect(answer.code).toBe(3)
      expect(answer.stderr).toContain('there is no store for this folder')
      expect(made).toEqual([])
      expect(named.code).toBe(0)
      expect(existsSync(join(shell.folder, 'named.db'))).toBe(true)
    },
  )

  test.each<[string, string[]]>([
    ['queue add', ['queue', 'add', 'q', '1']],
    ['queue submit', ['queue', 'submit', 'q', 'k', '--head-sha', '4f2a9c1']],
    ['queue define', ['queue', 'define', 'q']],
    ['task add', ['task', 'add', 'one']],
    ['msg register', ['msg', 'register', 'bob']],
    ['state set', ['state', 'set', 'doc', '1']],
    ['init', ['init']],
  ])('is made by adding or defining something, and said so: %s [S6-E2]', async (_, args) => {
    const shell = aShell()

    const answer = await shell.run(...args)

    expect(answer.code).toBe(0)
    expect(`${answer.stdout}${answer.stderr}`).toContain(join(shell.folder, '.holdfast'))
    expect(existsSync(join(shell.folder, '.holdfast', 'store.db'))).toBe(true)
  })

  test('that is not a store is left alone, with exit code 10', async () => {
    const shell = aShell()
    const file = join(shell.folder, 'notes.txt')
    writeFileSync(file, 'not a store, but long enough to be taken for the header of one')

    const answer = await shell.run('queue', 'list', 'q', '--store', file)

    expect(answer.code).toBe(10)
    expect(readFileSync(file, 'utf8')).toContain('not a store')
  })

  test.each(['new/', 'new/.', '.', ''])('%j is refused, and nothing is created [S5c-28]', async (store) => {
    const shell = aShell()

    const answer = await shell.run('queue', 'add', 'q', '1', '--store', store)

    expect(answer).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('a store is a file'),
    })
    expect(readdirSync(shell.folder)).toEqual([])
  })

  test('of an unknown engine is refused by its scheme', async () => {
    const shell = aShell()

    const answer = await shell.run('queue', 'add', 'q', '1', '--store', 'nonsense://host/db')

    expect(answer.code).toBe(2)
    expect(answer.stderr).toContain('nonsense')
  })
})

describe('init', () => {
  test('creates a folder that git ignores, with empty settings', async () => {
    const shell = aShell()

    const made = await shell.json('init')
    const again = await shell.json('init')

    expect(made).toMatchObject({ created: true, store: join(shell.folder, '.holdfast', 'store.db') })
    expect(again).toMatchObject({ created: false })
    expect(readFileSync(join(shell.folder, '.holdfast', '.gitignore'), 'utf8')).toBe('*\n')
    const config = readFileSync(join(shell.folder, '.holdfast', 'config.toml'), 'utf8')
    expect(config.split('\n').every((line) => line === '' || line.startsWith('#'))).toBe(true)
  })

  test('keeps existing settings', async () => {
    const shell = aShell()
    await shell.run('init')
    writeFileSync(join(shell.folder, '.holdfast', 'config.toml'), 'namespace = "team"\n')

    await shell.run('init')

    expect((await shell.run('config', 'print')).stdout).toContain('team')
  })

  test('of a store that is named leaves the folder alone, and opens nothing else to a group', async () => {
    const shell = aShell()
    await shell.run('init')
    const below = join(shell.folder, 'below')
    mkdirSync(below)
    const mode = () => statSync(join(shell.folder, '.holdfast')).mode & 0o7777

    const made = await shell.runWith({ cwd: below }, 'init', '--store', 'other.db', '--json')
    const again = await shell.runWith({ cwd: below }, 'init', '--store', 'other.db', '--json')
    const shared = await shell.run('init', '--store', 'other.db', '--shared')

    const store = join(below, 'other.db')
    expect(JSON.parse(made.stdout)).toMatchObject({ created: true, folder: null, config: null, store })
    expect(JSON.parse(again.stdout)).toMatchObject({ created: false, store })
    expect((await storeFrom(shell, below)).value).toBe(join(shell.folder, '.holdfast', 'store.db'))
    expect([shared.code, mode()]).toEqual([2, 0o700])
  })

  test('--here creates one below another, ready to be read', async () => {
    const shell = aShell()
    await shell.run('init')
    const below = join(shell.folder, 'below')
    mkdirSync(below)

    await shell.runWith({ cwd: below }, 'init', '--here')
    const read = await shell.runWith({ cwd: below }, 'status')

    expect((await storeFrom(shell, below)).value).toBe(join(below, '.holdfast', 'store.db'))
    expect(read.code).toBe(0)
  })
})

describe('settings', () => {
  test('come from options, then variables, then the file, then defaults, and say so', async () => {
    const shell = aShell()
    await shell.run('init')
    const file = join(shell.folder, '.holdfast', 'config.toml')
    writeFileSync(file, 'namespace = "team"\nagent = "filed"\ndurability = "normal"\nstore = "other.db"\n')
    await shell.run('trust')

    const answer = await shell.runWith(
      { env: { HOLDFAST_AGENT: 'ada', HOLDFAST_BUSY_TIMEOUT: '2s' } },
      ...['config', 'print', '--show-origin', '--json', '--namespace', 'mine'],
    )

    expect(JSON.parse(answer.stdout)).toEqual({
      schemaVersion: 1,
      settings: {
        store: { value: join(shell.folder, '.holdfast', 'other.db'), origin: file },
        namespace: { value: 'mine', origin: '--namespace' },
        agent: { value: 'ada', origin: 'HOLDFAST_AGENT' },
        durability: { value: 'normal', origin: file },
        busyTimeoutMs: { value: 2000, origin: 'HOLDFAST_BUSY_TIMEOUT' },
      },
      config: { file, trusted: true, refused: [] },
    })
  })

  test.each([
    ['postgres://ada:secret@db/fleet', 'postgres://ada:…@db/fleet'],
    ['postgres://ada:s@cret@db/fleet', 'postgres://ada:…@db/fleet'],
    ['postgres://ada@db/fleet?wake=postgres%3A%2F%2Fada%3Asecret%40db', 'postgres://ada@db/fleet?wake=…'],
    ['postgres://ada:secret@db/fleet?wake=off', 'postgres://ada:…@db/fleet?wake=off'],
  ])('show no password: %s', async (url, shown) => {
    const shell = aShell()

    const answer = await shell.run('config', 'print', '--store', url)

    expect(answer.stdout).toContain(shown)
    expect(answer.stdout).not.toContain('cret')
  })

  test.each([
    ['of the direct URL', 'postgres://ada@pooler/fleet?wake=postgres%3A%2F%2Fada%3Asecret%40db%2Ffleet'],
    ['with letters that should be escaped', 'postgres://ada:very/secret@db/fleet'],
    ['with an @', 'postgres://ada:very@secret@db/fleet'],
  ])('show no password %s, nor does a refusal of the store', async (_, url) => {
    const shell = aShell()

    const shown = await shell.run('config', 'print', '--store', url)
    const refused = await shell.run(
      'status',
      '--store',
      `${url}${url.includes('?') ? '&' : '?'}sslmode=maybe`,
    )

    expect(shown.code).toBe(0)
    expect(refused.code).toBe(2)
    expect(`${shown.stdout}${refused.stderr}`).not.toMatch(/secret|very/)
  })

  test.each([
    ['an unknown key, with the nearest', 'namespase = "x"', /did you mean "namespace"\?/],
    ['a value that is no text', 'namespace = 5', /write namespace = "…"/],
    ['a file that is no TOML', 'namespace = ', /fix the file/],
    ['a namespace that is no name [S5c-37]', '\nnamespace = "-rf"', /config.toml, line 2: namespace: "-rf"/],
    ['a time that is none [S5c-37]', 'busy-timeout = "soon"', /config.toml, line 1: busy-timeout: "soon"/],
  ])('refuse %s', async (_, text, next) => {
    const shell = aShell()
    await shell.run('init')
    writeFileSync(join(shell.folder, '.holdfast', 'config.toml'), text)

    const answer = await shell.run('queue', 'queues')

    expect(answer.code).toBe(2)
    expect(answer.stderr).toMatch(next)
  })

  test('keep namespaces apart', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--namespace', 'one')

    const other = await shell.run('queue', 'next', 'q', '--namespace', 'two')
    const own = await shell.runWith({ env: { HOLDFAST_NAMESPACE: 'one' } }, 'queue', 'next', 'q')

    expect([other.code, own.code]).toEqual([6, 0])
  })
})
