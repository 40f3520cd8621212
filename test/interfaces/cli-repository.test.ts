/** A folder belongs to whoever wrote it: what a cloned repository brings along decides nothing that could hurt. */
import { execFileSync, spawnSync } from 'node:child_process'
import fs, {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { aShell, cleanEnvironment, program, type Shell } from '../support/cli.ts'
import { everywhere, whileLinked } from '../support/planted.ts'
import { anOpenFolder, colleague, holdfastAs, noStranger, stranger } from '../support/stranger.ts'

/** A mount in a namespace of its own ends with the process that made it. */
const canMount = spawnSync('unshare', ['-m', 'sh', '-c', 'mount -t tmpfs none /mnt']).status === 0
if (!canMount) console.log('the way up to a mount point is not tried: nothing can be mounted here')

/** A repository as it was cloned, with a config of its author's. */
function aClone(shell: Shell, config: string): { repository: string; holdfast: string; config: string } {
  const repository = join(shell.folder, 'clone')
  const holdfast = join(repository, '.holdfast')
  mkdirSync(join(repository, '.git'), { recursive: true })
  mkdirSync(holdfast)
  writeFileSync(join(holdfast, 'config.toml'), config)
  return { repository, holdfast, config: join(holdfast, 'config.toml') }
}

function inClone(shell: Shell, cwd: string, env: Record<string, string> = {}) {
  return (...args: string[]) => shell.runWith({ cwd, env }, ...args)
}

/** Speaks just enough of PostgreSQL to ask for a password in clear text, and refuses whatever it is given. */
async function aServerThatAsks(onPassword: (password: string) => void): Promise<number> {
  const askForPassword = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3])
  const fields = 'SFATAL\0C28P01\0Mno\0\0'
  const refuse = Buffer.concat([Buffer.from([0x45, 0, 0, 0, fields.length + 4]), Buffer.from(fields)])
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(askForPassword)
      socket.once('data', (answer) => {
        onPassword(answer.subarray(5, -1).toString())
        socket.end(refuse)
      })
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((listening) => server.once('listening', listening))
  return (server.address() as { port: number }).port
}

describe('a config that came with a repository', () => {
  test.each([
    ['a file outside', 'store = "../../victim.txt"', 'HOLDFAST_URL'],
    ['an absolute path', 'store = "/etc/passwd"', 'HOLDFAST_URL'],
    ['a server', 'store = "postgres://127.0.0.1:1/x"', 'HOLDFAST_URL'],
    ['memory', 'store = "sqlite::memory:"', 'HOLDFAST_URL'],
    ['the folder itself', 'store = "."', 'HOLDFAST_URL'],
    ['a durability', 'durability = "normal"', 'HOLDFAST_DURABILITY'],
  ])('may not name %s: the line is refused with a remedy [S5d-1]', async (_, line, way) => {
    const shell = aShell()
    const { repository, holdfast } = aClone(shell, `# hello\n${line}\n`)
    const run = inClone(shell, repository)

    const refused = await run('queue', 'add', 'q', '1')

    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('config.toml, line 2')
    expect(refused.stderr).toContain(way)
    expect(refused.stderr).toContain('holdfast trust')
    expect(existsSync(join(shell.folder, 'victim.txt'))).toBe(false)
    expect(existsSync(join(holdfast, 'store.db'))).toBe(false)
  })

  test('may not choose the agent name [S5d-1]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'agent = "ssh-ed25519 AAAA"\n')
    const run = inClone(shell, repository, { HOLDFAST_AGENT: '' })

    expect(await run('queue', 'add', 'q', '1')).toMatchObject({ code: 1 })
    expect(await run('--agent', 'ada', 'queue', 'add', 'q', '1')).toMatchObject({ code: 0 })
  })

  test('may name a store inside its own folder, a namespace and a bounded wait [S5d-1]', async () => {
    const shell = aShell()
    const text = 'store = "stores/ours.db"\nnamespace = "team"\nbusy-timeout = "10s"\n'
    const { repository, holdfast } = aClone(shell, text)
    const run = inClone(shell, repository)

    expect(await run('queue', 'add', 'q', '1')).toMatchObject({ code: 0 })
    expect(existsSync(join(holdfast, 'stores', 'ours.db'))).toBe(true)
    expect((await run('--namespace', 'default', 'queue', 'peek', 'q')).code).not.toBe(0)
  })

  test.each([
    ['a wait without end', 'busy-timeout = "9000d"', 'line 2: busy-timeout'],
    ['a wait that is none', 'busy-timeout = "soon"', 'line 2: busy-timeout'],
    ['a namespace that is no name', 'namespace = "a\\u3164"', 'line 2: namespace'],
    ['a path that cannot be one', 'store = "a\\u0000b"', 'store is not plain text'],
    ['a program', 'sink = "curl example.org"', 'unknown setting "sink"'],
  ])('is refused for %s, and says where the line is [S5d-1]', async (_, line, told) => {
    const shell = aShell()
    const { repository, holdfast } = aClone(shell, `# hello\n${line}\n`)

    const refused = await inClone(shell, repository)('queue', 'add', 'q', '1')

    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('config.toml')
    expect(refused.stderr).toContain(told)
    expect(readdirSync(holdfast)).toEqual(['config.toml'])
  })

  test('is not read if an option or variable names the store [S5d-2]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'agent = "mallory"\nstore = "/etc/passwd"\n')
    const own = join(shell.folder, 'own.db')

    const byOption = await inClone(shell, repository)('--store', own, 'queue', 'add', 'q', '1')
    const byVariable = await inClone(shell, repository, { HOLDFAST_URL: own })('queue', 'stats', 'q')

    expect([byOption.code, byVariable.code]).toEqual([0, 0])
  })

  test('is silent during completion, and connects nowhere [S5d-1]', async () => {
    const shell = aShell()
    const visitors: Socket[] = []
    const server = createServer((socket) => visitors.push(socket)).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise((listening) => server.once('listening', listening))
    const { port } = server.address() as { port: number }
    const { repository } = aClone(shell, `store = "postgres://127.0.0.1:${port}/x"\n`)

    const answer = await inClone(shell, repository, { PGPASSWORD: 'secret' })(
      'complete',
      '--',
      'queue',
      'list',
      '',
    )

    expect(answer).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(visitors).toEqual([])
  })

  test.each(['PGPASSWORD', '.pgpass'] as const)(
    'that is trusted and names a server gets no password of the user from %s [S5d-1]',
    async (place) => {
      const shell = aShell()
      const passwords: string[] = []
      const port = await aServerThatAsks((password) => passwords.push(password))
      const { repository } = aClone(shell, `store = "postgres://ada@127.0.0.1:${port}/x"\n`)
      const keep: Readonly<Record<typeof place, () => void>> = {
        PGPASSWORD: () => vi.stubEnv('PGPASSWORD', 'hunter2'),
        '.pgpass': () => {
          const file = join(shell.folder, 'pgpass')
          writeFileSync(file, '*:*:*:*:hunter2\n', { mode: 0o600 })
          vi.stubEnv('PGPASSFILE', file)
        },
      }
      keep[place]()
      onTestFinished(() => void vi.unstubAllEnvs())
      const run = inClone(shell, repository)
      await run('trust')

      const fromFile = await run('queue', 'stats', 'q')
      const fromUser = await run('--store', `postgres://ada@127.0.0.1:${port}/x`, 'queue', 'stats', 'q')

      expect([fromFile.code, fromUser.code]).not.toContain(0)
      expect(passwords).toContain('hunter2')
      expect(passwords.indexOf('hunter2')).toBeGreaterThan(0)
      expect(passwords.slice(0, passwords.indexOf('hunter2')).every((password) => password === '')).toBe(true)
    },
  )

  test('that the user trusts is followed, until it changes [S5d-1]', async () => {
    const shell = aShell()
    const { repository, config } = aClone(shell, 'durability = "normal"\n')
    const run = inClone(shell, repository)

    const trusted = await run('trust')
    const shown = await run('config', 'print')
    const followed = await run('queue', 'add', 'q', '1')
    writeFileSync(config, 'durability = "normal"\nagent = "mallory"\n')
    const changed = await inClone(shell, repository, { HOLDFAST_AGENT: '' })('queue', 'add', 'q', '1')
    await run('trust')
    await run('trust', '--remove')
    const removed = await run('queue', 'add', 'q', '1')

    expect(trusted.stdout).toContain('normal')
    expect(shown.stdout).toContain('trusted')
    expect([trusted.code, followed.code, changed.code, removed.code]).toEqual([0, 0, 1, 1])
  })

  test('that the user trusts may name a store outside, but not through a link [S5d-1]', async () => {
    const shell = aShell()
    const outside = join(shell.folder, 'outside')
    mkdirSync(outside)
    const { repository, holdfast, config } = aClone(shell, `store = "${join(outside, 'own.db')}"\n`)
    const run = inClone(shell, repository)
    await run('trust')
    const named = await run('queue', 'add', 'q', '1')
    writeFileSync(config, 'store = "way/store.db"\nagent = "team"\n')
    await run('trust')
    symlinkSync(outside, join(holdfast, 'way'))

    const led = await run('queue', 'add', 'q', '1')

    expect(named.code).toBe(0)
    expect(led).toMatchObject({ code: 1, stderr: expect.stringContaining('symbolic link') })
    expect(readdirSync(outside).filter((name) => !name.startsWith('own.db'))).toEqual([])
  })

  test('that one user trusts is not trusted for another, nor under another path [S5d-1]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'durability = "normal"\n')
    await inClone(shell, repository)('trust')
    const other = join(shell.folder, 'other')
    execFileSync('cp', ['-r', repository, other])

    const elsewhere = await inClone(shell, other)('queue', 'add', 'q', '1')
    const another = { XDG_STATE_HOME: join(shell.folder, 'another') }
    const somebody = await inClone(shell, repository, another)('queue', 'add', 'q', '1')

    expect([elsewhere.code, somebody.code]).toEqual([1, 1])
  })

  test.skipIf(noStranger)('is not trusted because of a record left by another user [S5d-1]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'durability = "normal"\n')
    const run = inClone(shell, repository)
    await run('trust')
    const records = join(shell.folder, 'state', 'holdfast', 'trusted')
    const [record = ''] = readdirSync(records)
    const owned = async (uid: number) => {
      chownSync(join(records, record), uid, uid)
      return (await run('queue', 'add', 'q', '1')).code
    }

    expect([await owned(stranger.uid), await owned(0)]).toEqual([1, 0])
  })

  test('is not recorded through a link left by another user [S5d-1]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'durability = "normal"\n')
    const run = inClone(shell, repository)
    await run('trust')
    const records = join(shell.folder, 'state', 'holdfast', 'trusted')
    const [record = ''] = readdirSync(records)
    const victim = join(shell.folder, 'victim')
    writeFileSync(victim, 'precious')
    symlinkSync(victim, join(records, `${record}.${process.pid}`))

    const trusted = await run('trust')

    expect(trusted.code).toBe(0)
    expect([readFileSync(victim, 'utf8'), readdirSync(records)]).toEqual(['precious', [record]])
  })

  test('is not trusted if that cannot be recorded, and the refusal says so [S5d-1]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'durability = "normal"\n')

    const refused = await inClone(shell, repository, { XDG_STATE_HOME: '/proc/nowhere' })('trust')

    expect(refused).toMatchObject({ code: 7, stderr: expect.stringContaining('XDG_STATE_HOME') })
  })

  test('shows in `config print` what is refused, and hides nothing [S5d-1]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, 'durability = "normal"\n')
    const run = inClone(shell, repository)

    const { stdout, code } = await run('config', 'print')
    const json = JSON.parse((await run('config', 'print', '--json')).stdout)

    expect(code).toBe(0)
    expect(stdout).toMatch(/refused.*line 1.*durability/)
    expect(json.config).toMatchObject({ trusted: false, refused: [expect.stringContaining('durability')] })
    expect(json.settings.durability).toBe('full')
  })

  test('is written and trusted by `config set`, without trusting lines of others [S5d-1]', async () => {
    const shell = aShell()
    const { repository, config } = aClone(shell, '# ours\nnamespace = "team"\n')
    const run = inClone(shell, repository)

    const set = await run('config', 'set', 'durability', 'normal')
    const print = JSON.parse((await run('config', 'print', '--json')).stdout)
    writeFileSync(config, 'store = "/etc/passwd"\n')
    const along = await run('config', 'set', 'durability', 'normal')

    expect(set.code).toBe(0)
    expect(print).toMatchObject({
      settings: { durability: 'normal', namespace: 'team' },
      config: { trusted: true, refused: [] },
    })
    expect(along.code).toBe(1)
    expect(readFileSync(config, 'utf8')).toBe('store = "/etc/passwd"\n')
  })

  test.each([
    ['durability', 'fast'],
    ['busy-timeout', '10'],
    ['colour', 'red'],
  ])('accepts only what `config set` supports: %s = %s', async (name, value) => {
    const shell = aShell()

    const answer = await shell.run('config', 'set', name, value)

    expect(answer.code).toBe(2)
    expect(existsSync(join(shell.folder, '.holdfast'))).toBe(false)
  })
})

describe('a file in place of a config', () => {
  test('that is a link or a device is not read [S5d-3]', async () => {
    const shell = aShell()
    const { repository, config } = aClone(shell, '')
    rmSync(config)
    symlinkSync('/dev/zero', config)

    const answer = await inClone(shell, repository)('queue', 'add', 'q', '1')

    expect(answer).toMatchObject({ code: 1, stderr: expect.stringContaining('symbolic link') })
  })

  test('that is a pipe is not waited for [S5d-3]', async () => {
    const shell = aShell()
    const { repository, config } = aClone(shell, '')
    rmSync(config)
    execFileSync('mkfifo', [config])

    const answer = await inClone(shell, repository)('queue', 'add', 'q', '1')

    expect(answer).toMatchObject({ code: 1, stderr: expect.stringContaining('not a regular file') })
  })

  test('of more than 64 KiB is refused, and one of line breaks is read at once [S5d-3]', async () => {
    const shell = aShell()
    const { repository, config } = aClone(shell, '#'.repeat(70_000))
    const run = inClone(shell, repository)

    const large = await run('queue', 'add', 'q', '1')
    writeFileSync(config, '\n'.repeat(65_000))
    const startedAt = performance.now()
    const breaks = await run('queue', 'add', 'q', '1')

    expect(large).toMatchObject({ code: 1, stderr: expect.stringContaining('64 KiB') })
    expect(breaks.code).toBe(0)
    // A regular expression that tries every start took 23 s.
    expect(performance.now() - startedAt).toBeLessThan(10_000)
  })

  test('of git is read only up to the length of a path [S5d-2] [S5d-3]', async () => {
    const shell = aShell()
    const { repository } = aClone(shell, '')
    rmSync(join(repository, '.git'), { recursive: true })
    rmSync(join(repository, '.holdfast'), { recursive: true })
    symlinkSync('/dev/zero', join(repository, '.git'))

    const answer = await inClone(shell, repository)('queue', 'add', 'q', '1')

    expect(answer.code).toBe(0)
    expect(existsSync(join(repository, '.holdfast', 'store.db'))).toBe(true)
  })
})

describe('links that came with a repository', () => {
  test.each(['store.db', 'store.db-wal', 'store.db-shm', 'store.db-journal'])(
    '%s leads nowhere [S5d-1]',
    async (name) => {
      const shell = aShell()
      const { repository, holdfast } = aClone(shell, '')
      symlinkSync(join(shell.folder, 'victim'), join(holdfast, name))

      const answer = await inClone(shell, repository)('queue', 'add', 'q', '1')

      expect(answer).toMatchObject({ code: 1, stderr: expect.stringContaining('symbolic link') })
      expect(existsSync(join(shell.folder, 'victim'))).toBe(false)
    },
  )

  test('a linked folder, as .holdfast or inside it, leads to no other store [S5d-1]', async () => {
    const shell = aShell()
    const other = join(shell.folder, 'other', '.holdfast')
    mkdirSync(other, { recursive: true })
    const { repository, holdfast } = aClone(shell, 'store = "way/store.db"\n')
    symlinkSync(other, join(holdfast, 'way'))
    const run = inClone(shell, repository)

    const inside = await run('queue', 'add', 'q', '1')
    rmSync(holdfast, { recursive: true })
    symlinkSync(other, holdfast)
    const itself = await run('queue', 'add', 'q', '1')

    expect([inside.code, itself.code]).toEqual([1, 1])
    expect(existsSync(join(other, 'store.db'))).toBe(false)
  })

  test('a .git file is followed only to a repository that knows this work tree [S5d-2]', async () => {
    const shell = aShell()
    const victim = join(shell.folder, 'victim')
    const tree = join(shell.folder, 'tree')
    const bait = join(shell.folder, 'bait')
    mkdirSync(victim)
    mkdirSync(bait)
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
        cwd: victim,
        stdio: 'pipe',
      })
    git('init', '--quiet')
    git('commit', '--quiet', '--allow-empty', '-m', 'first')
    git('worktree', 'add', '--quiet', tree)
    writeFileSync(join(bait, '.git'), readFileSync(join(tree, '.git')))

    await inClone(shell, bait)('queue', 'add', 'q', '1')
    await inClone(shell, tree)('queue', 'add', 'q', '1')

    expect(existsSync(join(bait, '.holdfast', 'store.db'))).toBe(true)
    expect(existsSync(join(victim, '.holdfast', 'store.db'))).toBe(true)
  })

  test.each([
    ['a folder of its own', 'git'],
    ['one that looks like a work tree of a repository', '.git/worktrees/clone'],
  ])('a .git file to %s leads to no other repository [S5d-2]', async (_, place) => {
    const shell = aShell()
    const victim = join(shell.folder, 'victim')
    mkdirSync(join(victim, '.git'), { recursive: true })
    const bait = join(shell.folder, 'bait')
    const gitFolder = join(shell.folder, 'brought', place)
    mkdirSync(bait)
    mkdirSync(gitFolder, { recursive: true })
    writeFileSync(join(bait, '.git'), `gitdir: ${gitFolder}\n`)
    writeFileSync(join(gitFolder, 'gitdir'), `${join(bait, '.git')}\n`)
    writeFileSync(join(gitFolder, 'commondir'), `${join(victim, '.git')}\n`)

    await inClone(shell, bait)('queue', 'add', 'q', '1')

    expect(existsSync(join(victim, '.holdfast'))).toBe(false)
    expect(existsSync(join(bait, '.holdfast', 'store.db'))).toBe(true)
  })

  test('a submodule has its own store, and none is created inside the .git of its parent [S5d-2]', async () => {
    const shell = aShell()
    const [parent, library] = [join(shell.folder, 'parent'), join(shell.folder, 'library')]
    const git = (cwd: string, ...args: string[]) => {
      const settings = ['user.name=t', 'user.email=t@example.com', 'protocol.file.allow=always']
      execFileSync('git', [...settings.flatMap((each) => ['-c', each]), ...args], { cwd, stdio: 'pipe' })
    }
    for (const folder of [parent, library]) {
      mkdirSync(folder)
      git(folder, 'init', '--quiet')
      git(folder, 'commit', '--quiet', '--allow-empty', '-m', 'first')
    }
    git(parent, 'submodule', '--quiet', 'add', library, 'module')

    const answer = await inClone(shell, join(parent, 'module'))('queue', 'add', 'q', '1')

    expect(answer.code).toBe(0)
    expect(existsSync(join(parent, 'module', '.holdfast', 'store.db'))).toBe(true)
    expect(existsSync(join(parent, '.holdfast'))).toBe(false)
  })

  test('a linked .holdfast is not opened to others by `init` below a store of the user [S5d-1]', async () => {
    const shell = aShell()
    const [keys, unpacked] = [join(shell.folder, 'keys'), join(shell.folder, 'unpacked')]
    mkdirSync(keys, { mode: 0o700 })
    mkdirSync(unpacked)
    mkdirSync(join(shell.folder, '.holdfast'))
    writeFileSync(join(keys, 'id'), 'secret', { mode: 0o600 })
    symlinkSync(keys, join(unpacked, '.holdfast'))

    const answer = await inClone(shell, unpacked)('init', '--here', '--shared')

    expect(answer).toMatchObject({ code: 1, stderr: expect.stringContaining('symbolic link') })
    expect([statSync(keys).mode & 0o7777, statSync(join(keys, 'id')).mode & 0o777]).toEqual([0o700, 0o600])
    expect(readdirSync(keys)).toEqual(['id'])
  })
})

test('config set accepts no line that somebody takes back while it looks [S5d-1]', async () => {
  const shell = aShell()
  const { repository, config } = aClone(shell, 'agent = "eve"\n')
  const openSync = fs.openSync.bind(fs)
  let reads = 0
  everywhere(
    vi.spyOn(fs, 'openSync').mockImplementation((path, ...how) => {
      // A text for how it is opened means that it is written.
      if (path === config && typeof how[0] === 'number' && ++reads === 3) truncateSync(config)
      return openSync(path, ...how)
    }),
  )

  const answer = await inClone(shell, repository)('config', 'set', 'namespace', 'team')

  expect(reads).toBeGreaterThan(0)
  expect(answer.code === 0 && readFileSync(config, 'utf8').includes('eve')).toBe(false)
})

describe('a .holdfast of another user', () => {
  test.skipIf(noStranger)('is refused inside the work tree and skipped above it [S5d-2]', async () => {
    const shell = aShell()
    const { repository, holdfast } = aClone(shell, '')
    const above = join(shell.folder, '.holdfast')
    mkdirSync(above)
    chownSync(above, stranger.uid, stranger.gid)
    const run = inClone(shell, repository)
    rmSync(holdfast, { recursive: true })

    const passedOver = await run('queue', 'add', 'q', '1')
    chownSync(holdfast, stranger.uid, stranger.gid)
    const refused = await run('queue', 'add', 'q', '1')
    const bySudo = await inClone(shell, repository, { SUDO_UID: String(stranger.uid) })('queue', 'stats', 'q')

    expect(passedOver).toMatchObject({ code: 0, stderr: expect.stringContaining('belongs to another user') })
    expect(existsSync(join(above, 'store.db'))).toBe(false)
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('HOLDFAST_URL') })
    expect(bySudo.code).toBe(0)
  })

  test.skipIf(noStranger)(
    'can be configured by that user under sudo, and stays readable to them [S5d-2]',
    async () => {
      const shell = aShell()
      const { repository, holdfast, config } = aClone(shell, '')
      for (const path of [holdfast, config]) chownSync(path, stranger.uid, stranger.gid)
      const bySudo = inClone(shell, repository, { SUDO_UID: String(stranger.uid) })

      const answer = await bySudo('config', 'set', 'namespace', 'team')

      expect(answer.code).toBe(0)
      expect(statSync(config)).toMatchObject(stranger)
    },
  )

  test.skipIf(noStranger).each([
    ['config set', ['config', 'set', 'namespace', 'team']],
    ['init', ['init']],
    ['the first task', ['task', 'add', 'one']],
  ])('that %s creates under sudo belongs to the caller, if the folder around it does [S5d-2]', (_, args) => {
    const [theirs, another] = [anOpenFolder(), anOpenFolder()]
    chownSync(theirs, stranger.uid, stranger.gid)
    chownSync(another, colleague.uid, colleague.gid)
    const sudo = { SUDO_UID: String(stranger.uid), SUDO_GID: String(stranger.gid) }
    const env = { ...cleanEnvironment(), ...sudo, XDG_STATE_HOME: join(anOpenFolder(), 'state') }

    for (const cwd of [theirs, another])
      execFileSync(process.execPath, [program, ...args], { cwd, env, stdio: 'pipe' })
    const used = holdfastAs(stranger, { cwd: theirs }, 'task', 'add', 'two', '--namespace', 'default')

    const ownersIn = (folder: string) =>
      readdirSync(folder, { recursive: true }).map((name) => statSync(join(folder, String(name))).uid)
    expect(used).toMatchObject({ status: 0 })
    expect(new Set(ownersIn(theirs))).toEqual(new Set([stranger.uid]))
    expect(new Set(ownersIn(another))).toEqual(new Set([0]))
  })

  test.skipIf(noStranger).each([
    ['named by its config', []],
    ['named by an option', ['--store', 'data/stores/store.db']],
  ])('gets the folders that a store %s needs, also those that sudo creates [S5d-2]', (_, store) => {
    const cwd = anOpenFolder()
    const holdfast = join(cwd, '.holdfast')
    mkdirSync(holdfast)
    writeFileSync(join(holdfast, 'config.toml'), 'store = "data/stores/store.db"\n')
    for (const path of [cwd, holdfast, join(holdfast, 'config.toml')])
      chownSync(path, stranger.uid, stranger.gid)
    const env = {
      ...cleanEnvironment(),
      SUDO_UID: String(stranger.uid),
      XDG_STATE_HOME: join(anOpenFolder(), 'state'),
    }

    execFileSync(process.execPath, [program, 'task', 'add', 'one', ...store], { cwd, env, stdio: 'pipe' })
    const used = holdfastAs(stranger, { cwd }, 'task', 'add', 'two', ...store)

    const owners = readdirSync(cwd, { recursive: true }).map((name) => statSync(join(cwd, String(name))).uid)
    expect(used).toMatchObject({ status: 0 })
    expect(new Set(owners)).toEqual(new Set([stranger.uid]))
  })

  test.skipIf(noStranger)(
    'keeps the tokens of commands under sudo where they are found again if the store is root’s [S5c-44]',
    () => {
      const cwd = anOpenFolder()
      chownSync(cwd, stranger.uid, stranger.gid)
      const store = join(cwd, 'store.db')
      const asRoot = { ...cleanEnvironment(), HOLDFAST_AGENT: 'ada', XDG_STATE_HOME: anOpenFolder() }
      const run = (env: object, ...args: string[]) =>
        spawnSync(process.execPath, [program, ...args, '--store', store], { cwd, env: { ...asRoot, ...env } })
      const sudo = { SUDO_UID: String(stranger.uid), SUDO_GID: String(stranger.gid) }
      run({}, 'task', 'add', 'one', '--key', 'T-1')

      const answers = [run(sudo, 'task', 'claim', 'T-1'), run(sudo, 'task', 'complete', 'T-1')]

      expect(answers.map(({ status }) => status)).toEqual([0, 0])
    },
  )

  test.skipIf(noStranger)(
    'gets no file from root when it takes the place of the checked one during config set [S5d-2]',
    async () => {
      const shell = aShell()
      const { repository, holdfast } = aClone(shell, '')
      const [theirs, checked] = [join(shell.folder, 'theirs'), join(shell.folder, 'checked')]
      mkdirSync(theirs)
      chownSync(theirs, colleague.uid, colleague.gid)
      chownSync(holdfast, stranger.uid, stranger.gid)
      const opened = everywhere(
        vi.spyOn(fs, 'fchmodSync').mockImplementationOnce(() => {
          renameSync(holdfast, checked)
          renameSync(theirs, holdfast)
        }),
      )

      await inClone(shell, repository, { SUDO_UID: String(stranger.uid) })(
        'config',
        'set',
        'namespace',
        'team',
      )

      const owners = readdirSync(checked).map((name) => statSync(join(checked, name)).uid)
      expect(opened).toHaveBeenCalledOnce()
      expect(owners).not.toContain(colleague.uid)
    },
  )

  test.skipIf(noStranger || process.platform !== 'linux')(
    'gets no file that root made elsewhere through a link that is gone again [S5d-2]',
    async () => {
      const shell = aShell()
      const { repository, holdfast, config } = aClone(shell, '')
      for (const path of [holdfast, config]) chownSync(path, stranger.uid, stranger.gid)
      const roots = join(shell.folder, 'roots')
      mkdirSync(roots)
      const { openSync } = fs
      everywhere(
        vi.spyOn(fs, 'openSync').mockImplementation((path, flags, mode) => {
          if (flags !== 'wx') return openSync(path, flags, mode)
          return whileLinked(holdfast, roots, () => openSync(path, flags, mode))
        }),
      )

      await inClone(shell, repository, { SUDO_UID: String(stranger.uid) })(
        'config',
        'set',
        'namespace',
        'team',
      )

      const owners = readdirSync(roots).map((name) => statSync(join(roots, name)).uid)
      expect(new Set(owners)).toEqual(new Set([0]))
    },
  )

  test.skipIf(noStranger)(
    'gets no folder of root through a link in place of the new one for tokens',
    async () => {
      const shell = aShell()
      const { repository, holdfast, config } = aClone(shell, '')
      for (const path of [repository, holdfast, config]) chownSync(path, stranger.uid, stranger.gid)
      const run = inClone(shell, repository, { SUDO_UID: String(stranger.uid) })
      await run('queue', 'add', 'q', '1')
      chownSync(join(holdfast, 'store.db'), stranger.uid, stranger.gid)
      const [tokens, roots] = [join(holdfast, 'store.db-leases'), join(shell.folder, 'roots')]
      mkdirSync(roots)
      const { mkdirSync: make } = fs
      const made = everywhere(
        vi.spyOn(fs, 'mkdirSync').mockImplementation((path, mode) => {
          if (path !== tokens) return make(path, mode)
          symlinkSync(roots, tokens)
          return undefined
        }),
      )

      await run('queue', 'next', 'q')

      expect(made).toHaveBeenCalledWith(tokens, 0o700)
      expect(statSync(roots).uid).toBe(0)
    },
  )

  describe.skipIf(noStranger)('under a sudo that keeps HOME, leaves the caller able to', () => {
    /** The caller's folder and home, and commands run by the caller or by root for them. */
    function aCaller(config: string) {
      const [cwd, home] = [anOpenFolder(), anOpenFolder()]
      const holdfast = join(cwd, '.holdfast')
      mkdirSync(holdfast)
      writeFileSync(join(holdfast, 'config.toml'), config)
      for (const path of [cwd, home, holdfast, join(holdfast, 'config.toml')])
        chownSync(path, stranger.uid, stranger.gid)
      const env = { ...cleanEnvironment(), HOME: home, HOLDFAST_AGENT: 'ada' }
      const sudo = { SUDO_UID: String(stranger.uid), SUDO_GID: String(stranger.gid) }
      const run = (options: object, args: readonly string[]) =>
        spawnSync(process.execPath, [program, ...args], { cwd, env, encoding: 'utf8', ...options })
      return {
        holdfast,
        asCaller: (...args: string[]) => run(stranger, args),
        bySudo: (...args: string[]) => run({ env: { ...env, ...sudo } }, args),
      }
    }

    test('use a config that was trusted like this, and to trust it again [S5d-1]', () => {
      const { asCaller, bySudo } = aCaller('durability = "normal"\n')

      const answers = [bySudo('trust'), asCaller('task', 'add', 'one'), asCaller('trust')]

      expect(answers.map(({ status }) => status)).toEqual([0, 0, 0])
    })

    test('keep tokens in the home where none can be kept beside the store [S5c-44]', () => {
      const { holdfast, asCaller, bySudo } = aCaller('')
      writeFileSync(join(holdfast, 'store.db-leases'), 'no folder')
      for (const key of ['T-1', 'T-2']) asCaller('task', 'add', 'one', '--key', key)

      const claims = [bySudo('task', 'claim', 'T-1'), asCaller('task', 'claim', 'T-2')]
      const done = ['T-1', 'T-2'].map((key) => asCaller('task', 'complete', key))

      expect([...claims, ...done].map(({ status }) => status)).toEqual([0, 0, 0, 0])
    })
  })

  test.skipIf(noStranger)(
    'does not become the caller’s under sudo if it was put in the place of the new one [S5d-2]',
    async () => {
      const shell = aShell()
      const { repository, holdfast } = aClone(shell, '')
      rmSync(holdfast, { recursive: true })
      chownSync(repository, stranger.uid, stranger.gid)
      const secrets = join(repository, 'secrets')
      mkdirSync(secrets, { mode: 0o700 })
      writeFileSync(join(secrets, 'key'), 'of root')
      const { openSync } = fs
      everywhere(
        vi.spyOn(fs, 'openSync').mockImplementation((path, flags, mode) => {
          if (path === holdfast && existsSync(secrets)) {
            renameSync(holdfast, join(shell.folder, 'new'))
            renameSync(secrets, holdfast)
          }
          return openSync(path, flags, mode)
        }),
      )

      await inClone(shell, repository, { SUDO_UID: String(stranger.uid) })(
        'config',
        'set',
        'namespace',
        'team',
      )

      expect(existsSync(secrets)).toBe(false)
      expect(statSync(holdfast).uid).toBe(0)
    },
  )

  test('that everybody may write to is skipped above the work tree, with one warning [S5d-2]', async () => {
    const shell = aShell()
    const { repository, holdfast } = aClone(shell, '')
    rmSync(holdfast, { recursive: true })
    const above = join(shell.folder, '.holdfast')
    mkdirSync(above)
    chmodSync(above, 0o777)

    const answer = await inClone(shell, repository)('queue', 'add', 'q', '1')

    expect(answer.code).toBe(0)
    expect(answer.stderr.match(/is not used/g)).toHaveLength(1)
    expect([existsSync(join(holdfast, 'store.db')), readdirSync(above)]).toEqual([true, []])
  })

  test('that everybody may write to is refused; a group-writable one is fine [S5d-2]', async () => {
    const shell = aShell()
    const { repository, holdfast } = aClone(shell, '')
    const run = inClone(shell, repository)

    chmodSync(holdfast, 0o777)
    const open = await run('queue', 'add', 'q', '1')
    chmodSync(holdfast, 0o770)
    const shared = await run('queue', 'add', 'q', '1')

    expect([open.code, shared.code]).toEqual([1, 0])
  })

  test('above many clones, one store of the user serves them all [S5d-2]', async () => {
    const shell = aShell()
    const { repository, holdfast } = aClone(shell, '')
    rmSync(holdfast, { recursive: true })
    mkdirSync(join(shell.folder, '.holdfast'))

    const answer = await inClone(shell, repository)('queue', 'add', 'q', '1')

    expect(answer).toMatchObject({ code: 0, stderr: '' })
    expect(existsSync(join(shell.folder, '.holdfast', 'store.db'))).toBe(true)
  })
})

describe('the upward search for a store', () => {
  test("ends at the user's home [S5d-2]", async () => {
    const shell = aShell()
    const home = join(shell.folder, 'home')
    const project = join(home, 'project')
    mkdirSync(project, { recursive: true })
    mkdirSync(join(shell.folder, '.holdfast'))
    vi.stubEnv('HOME', home)
    onTestFinished(() => void vi.unstubAllEnvs())
    const run = inClone(shell, project)

    const below = await run('queue', 'add', 'q', '1')
    rmSync(join(project, '.holdfast'), { recursive: true })
    mkdirSync(join(home, '.holdfast'))
    const inHome = await run('queue', 'add', 'q', '1')

    expect([below.code, inHome.code]).toEqual([0, 0])
    expect(readdirSync(join(shell.folder, '.holdfast'))).toEqual([])
    expect(existsSync(join(home, '.holdfast', 'store.db'))).toBe(true)
  })

  test.runIf(canMount)('ends at a mount point [S5d-2]', () => {
    const { folder } = aShell()
    const mounted = join(folder, 'mounted')
    mkdirSync(mounted)
    mkdirSync(join(folder, '.holdfast'))
    const storeIn = (mount: string) => {
      const script = `${mount} && cd "$1" && exec "$2" "$3" config print --json`
      const words = ['-m', 'sh', '-c', script, 'sh', mounted, process.execPath, program]
      return JSON.parse(execFileSync('unshare', words, { env: cleanEnvironment(), encoding: 'utf8' }))
        .settings.store
    }

    expect(storeIn('true')).toBe(join(folder, '.holdfast', 'store.db'))
    expect(storeIn('mount -t tmpfs none "$1"')).toBe(join(mounted, '.holdfast', 'store.db'))
  })
})
