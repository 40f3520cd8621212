/** Files of ours on a machine with other users, and in folders that strangers have filled. */
import { execFileSync, spawnSync } from 'node:child_process'
import fs, {
  chmodSync,
  chownSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { open } from 'holdfast'
import { describe, expect, test, vi } from 'vitest'
import { aShell, cleanEnvironment, program } from '../support/cli.ts'
import { everywhere, whileLinked } from '../support/planted.ts'
import { anOpenFolder, colleague, holdfastAs, noStranger, runAs, stranger } from '../support/stranger.ts'

const quiet = { background: false, logger: false } as const

function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8)
}

/** With a umask of its own, which only a process can have. */
function runWithUmask(umask: string, cwd: string, ...args: string[]) {
  const words = ['-c', 'umask "$1"; shift; exec "$@"', 'sh', umask, process.execPath, program, ...args]
  return spawnSync('/bin/sh', words, { cwd, env: cleanEnvironment(), encoding: 'utf8' })
}

describe('the files of a new store', () => {
  test.each(['022', '002', '077'])('are closed to others with a umask of %s [S5d-5]', (umask) => {
    const { folder } = aShell()

    const added = runWithUmask(umask, folder, 'queue', 'add', 'q', '1')
    const claimed = runWithUmask(umask, folder, 'queue', 'next', 'q')

    expect([added.status, claimed.status]).toEqual([0, 0])
    const home = join(folder, '.holdfast')
    expect(modeOf(home)).toBe('700')
    const modes = readdirSync(home).map((name) => [name, modeOf(join(home, name))])
    expect(Object.fromEntries(modes)).toEqual({
      '.gitignore': '600',
      'config.toml': '600',
      'store.db': '600',
      'store.db-bells': '700',
      'store.db-leases': '700',
    })
  })

  test('are closed to others while they are in use, log and index too [S5d-5]', async () => {
    const { folder } = aShell()
    const hf = await open(join(folder, 'store.db'), quiet)
    await hf.queue('q').add(1)

    const modes = readdirSync(folder).map((name) => modeOf(join(folder, name)))
    await hf.close()

    expect(new Set(modes)).toEqual(new Set(['600', '700']))
    expect(modes.length).toBe(4)
  })

  test.skipIf(noStranger)('cannot be read by another user [S5d-5]', async () => {
    const folder = anOpenFolder()
    const hf = await open(join(folder, 'store.db'), quiet)
    await hf.queue('q').add('secret')

    const read = runAs(stranger, '/bin/cat', ['store.db', 'store.db-wal', 'store.db-shm'], { cwd: folder })
    await hf.close()

    expect(read).toMatchObject({ status: 1, stdout: '' })
  })

  test('that others can read or write are named by doctor, with the remedy [S5d-5]', async () => {
    const folder = anOpenFolder()
    const store = join(folder, 'store.db')
    await (await open(store, quiet)).close()
    const findings = async () => {
      const hf = await open(store, quiet)
      const report = await hf.fleet.doctor()
      await hf.close()
      return report.findings.filter(({ check }) => check === 'access')
    }

    const closed = await findings()
    chmodSync(store, 0o644)
    const readable = await findings()
    chmodSync(store, 0o666)
    const writable = await findings()
    chmodSync(folder, 0o700)
    const enclosed = await findings()

    expect([closed, enclosed]).toEqual([[], []])
    expect(readable).toMatchObject([{ level: 'warning', what: expect.stringContaining('read by') }])
    expect(writable).toMatchObject([{ level: 'warning', what: expect.stringContaining('written by') }])
  })
})

describe('a shared store', () => {
  test('is open to its group and nobody else, whatever the umask [S5d-5]', () => {
    const { folder } = aShell()

    const made = runWithUmask('077', folder, 'init', '--shared')
    runWithUmask('077', folder, 'queue', 'add', 'q', '1')

    expect(made.status).toBe(0)
    const home = join(folder, '.holdfast')
    expect(modeOf(home)).toBe('2770')
    expect(modeOf(join(home, 'store.db-bells'))).toBe('2770')
    for (const name of ['store.db', 'store.db-bells/00', 'store.db-bells/63', 'config.toml', '.gitignore'])
      expect([name, modeOf(join(home, name))]).toEqual([name, '660'])
  })

  test('can be made from a private one [S5d-5]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')

    await shell.run('init', '--shared')

    const home = join(shell.folder, '.holdfast')
    expect(modeOf(join(home, 'store.db'))).toBe('660')
    expect([modeOf(join(home, 'store.db-bells')), modeOf(join(home, 'store.db-bells', '00'))]).toEqual([
      '2770',
      '660',
    ])
    expect(await shell.run('queue', 'stats', 'q')).toMatchObject({ code: 0 })
  })

  test('opens no other file through a link that its group puts there meanwhile [S5d-5]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')
    const [home, secret] = [join(shell.folder, '.holdfast'), join(shell.folder, 'secret')]
    const config = join(home, 'config.toml')
    writeFileSync(secret, '', { mode: 0o600 })
    const { chmodSync: change } = fs
    const changed = everywhere(
      vi.spyOn(fs, 'chmodSync').mockImplementation((path, mode) => {
        if (modeOf(home) === '2770' && lstatSync(config).isFile()) {
          rmSync(config)
          symlinkSync(secret, config)
        }
        change(path, mode)
      }),
    )

    await shell.run('init', '--shared')

    expect(changed).toHaveBeenCalledWith(home, 0o2770)
    expect(modeOf(secret)).toBe('600')
  })

  test.skipIf(noStranger)('serves two users of its group, each with their own tokens [S5d-5]', async () => {
    const folder = anOpenFolder()
    const store = join(folder, '.holdfast', 'store.db')
    chownSync(folder, stranger.uid, stranger.gid)
    const as = (user: typeof stranger, ...args: string[]) =>
      holdfastAs(user, { cwd: folder }, '--store', store, ...args)
    expect(holdfastAs(stranger, { cwd: folder }, 'init', '--shared')).toMatchObject({ status: 0 })

    const added = as(colleague, 'queue', 'add', 'q', '"work"')
    const claimed = as(stranger, 'queue', 'next', 'q')
    const other = as(colleague, 'queue', 'add', 'q', '"more"')

    expect([added, claimed, other].map(({ status }) => status)).toEqual([0, 0, 0])
    expect([added, claimed, other].map(({ stderr }) => stderr).join('')).not.toContain('warning')
    expect(lstatSync(`${store}-leases`).uid).toBe(stranger.uid)
    expect(lstatSync(`${store}-bells/00`)).toMatchObject({ gid: stranger.gid })
  })

  test.skipIf(noStranger)('stays usable to its user after root has used it [S5d-6]', () => {
    const folder = anOpenFolder()
    chownSync(folder, stranger.uid, stranger.gid)
    const store = join(folder, 'store.db')
    const asUser = (...args: string[]) => holdfastAs(stranger, { cwd: folder }, '--store', store, ...args)
    expect(asUser('queue', 'add', 'q', '1')).toMatchObject({ status: 0 })

    const byRoot = runWithUmask('022', folder, '--store', store, 'queue', 'next', 'q')
    const after = asUser('queue', 'add', 'q', '2')
    const claimed = asUser('queue', 'next', 'q')

    expect([byRoot.status, after.status, claimed.status]).toEqual([0, 0, 0])
    expect([after.stderr, claimed.stderr].join('')).not.toContain('warning')
    const bells = readdirSync(`${store}-bells`).map((name) => join('store.db-bells', name))
    const owners = [...readdirSync(folder), ...bells].map((name) => lstatSync(join(folder, name)).uid)
    expect(new Set(owners)).toEqual(new Set([stranger.uid]))
  })

  test.skipIf(noStranger || process.platform !== 'linux')(
    'gives its user no file that root made elsewhere through a link that is gone again [S5d-6]',
    async () => {
      const folder = anOpenFolder()
      chownSync(folder, stranger.uid, stranger.gid)
      const [store, roots] = [join(folder, 'store.db'), join(anOpenFolder(), 'roots')]
      const bells = `${store}-bells`
      holdfastAs(stranger, { cwd: folder }, '--store', store, 'queue', 'add', 'q', '1')
      rmSync(bells, { recursive: true })
      mkdirSync(roots)
      const { openSync } = fs
      everywhere(
        vi.spyOn(fs, 'openSync').mockImplementation((path, flags, mode) => {
          if (path !== `${bells}/00` || (Number(flags) & constants.O_CREAT) === 0)
            return openSync(path, flags, mode)
          return whileLinked(bells, roots, () => openSync(path, flags, mode))
        }),
      )

      const hf = await open(store, quiet)
      await hf.close()

      const made = readdirSync(roots).map((name) => [name, statSync(join(roots, name)).uid])
      expect(made).toEqual([['00', 0]])
    },
  )
})

describe('anything in place of one of our files', () => {
  function aVictim(folder: string): string {
    const victim = join(folder, 'victim.txt')
    writeFileSync(victim, 'precious\n')
    truncateSync(victim, 100_000)
    return victim
  }

  test('changes no other folder through a link in place of the new one for bells [S5d-6]', async () => {
    const { folder } = aShell()
    const [bells, own] = [join(folder, 'store.db-bells'), join(folder, 'own')]
    mkdirSync(own, { mode: 0o755 })
    const made = everywhere(
      vi.spyOn(fs, 'mkdirSync').mockImplementationOnce(() => {
        symlinkSync(own, bells)
        return undefined
      }),
    )

    const hf = await open(join(folder, 'store.db'), quiet)
    await hf.close()

    expect(made).toHaveBeenCalledWith(bells, 0o700)
    expect(modeOf(own)).toBe('755')
  })

  test.each(['-bells', '-turn'])('is not written through if it is a link: %s [S5d-6]', async (end) => {
    const shell = aShell()
    await shell.run('init')
    const victim = aVictim(shell.folder)
    rmSync(join(shell.folder, '.holdfast', `store.db${end}`), { recursive: true, force: true })
    symlinkSync(victim, join(shell.folder, '.holdfast', `store.db${end}`))
    const before = readFileSync(victim)

    const added = await shell.run('queue', 'add', 'q', '1')
    const again = await shell.run('queue', 'add', 'q', '2')

    expect([added.code, again.code]).toEqual([0, 0])
    expect(readFileSync(victim).equals(before)).toBe(true)
    expect(added.stderr).toContain(`store.db${end} is not used: it is a symbolic link`)
  })

  test.each<[string, (path: string, victim: string) => void, string]>([
    ['has another name', (path, victim) => linkSync(victim, path), 'it has other names'],
    ['is a pipe', (path) => void execFileSync('mkfifo', [path]), 'it is not a plain file'],
    ['is a folder', (path) => void mkdirSync(path), 'it is not a plain file'],
  ])('is not written to, nor waited for, when it %s [S5d-6]', async (_, put, why) => {
    const shell = aShell()
    await shell.run('init')
    const victim = aVictim(shell.folder)
    const before = readFileSync(victim)
    put(join(shell.folder, '.holdfast', 'store.db-turn'), victim)

    const added = await shell.run('queue', 'add', 'q', '1')

    expect(added).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`store.db-turn is not used: ${why}`),
    })
    expect(readFileSync(victim).equals(before)).toBe(true)
  })

  test.skipIf(noStranger)('is not written to if it belongs to another user [S5d-6]', async () => {
    const folder = anOpenFolder()
    const store = join(folder, 'store.db')
    await (await open(store, quiet)).close()
    const bells = Array.from({ length: 64 }, (_, bell) => `${store}-bells/${String(bell).padStart(2, '0')}`)
    for (const bell of bells) chownSync(bell, stranger.uid, stranger.gid)
    const lines: unknown[] = []
    const note = (facts: unknown) => void lines.push(facts)

    const hf = await open(store, { background: false, logger: { warn: note, error: note } })
    await hf.queue('q').add(1)
    await hf.close()

    expect(bells.map((bell) => statSync(bell).size)).toEqual(bells.map(() => 0))
    expect(lines).toHaveLength(1)
    expect(lines).toMatchObject([{ what: expect.stringContaining('another user') }])
  })

  test('is not swept if it is a link to a folder of documents, and tokens are kept elsewhere [S5d-6]', async () => {
    const shell = aShell()
    await shell.run('init')
    const documents = join(shell.folder, 'documents')
    mkdirSync(documents)
    for (let number = 0; number < 60; number++) {
      writeFileSync(join(documents, `letter-${number}.json`), '')
      utimesSync(join(documents, `letter-${number}.json`), 0, 0)
    }
    symlinkSync(documents, join(shell.folder, '.holdfast', 'store.db-leases'))

    const acquired = await shell.run('lock', 'acquire', 'deploy')
    const released = await shell.run('lock', 'release', 'deploy')

    expect([acquired.code, released.code]).toEqual([0, 0])
    expect(readdirSync(documents).length).toBe(60)
    expect(acquired.stderr).toContain('store.db-leases is not used')
  })

  test('is not swept if it is not our file in our folder [S5d-6]', async () => {
    const shell = aShell()
    await shell.run('init')
    const leases = join(shell.folder, '.holdfast', 'store.db-leases')
    mkdirSync(leases)
    const old = Array.from({ length: 60 }, (_, number) => `item-${'0'.repeat(24)}-${number}.json`)
    for (const name of [...old, 'letter.json', 'item-1.json', 'lock-notes.json']) {
      writeFileSync(join(leases, name), '')
      utimesSync(join(leases, name), 0, 0)
    }

    await shell.run('lock', 'acquire', 'deploy')

    expect(readdirSync(leases)).toHaveLength(4)
    expect(readdirSync(leases)).toEqual(
      expect.arrayContaining(['letter.json', 'item-1.json', 'lock-notes.json']),
    )
  })

  test('is not copied with the tokens of a store [S5d-6]', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'deploy')
    const leases = join(shell.folder, '.holdfast', 'store.db-leases')
    symlinkSync(aVictim(shell.folder), join(leases, `lock-${'0'.repeat(24)}-17.json`))
    writeFileSync(join(leases, 'letter.json'), '')
    const copy = join(shell.folder, 'copy.db')

    await shell.run('copy', '--from', join(shell.folder, '.holdfast', 'store.db'), '--to', copy)

    expect(readdirSync(`${copy}-leases`)).toHaveLength(1)
  })
})

describe('the cache of compiled code', () => {
  const spy =
    "data:text/javascript,import m from 'node:module';m.enableCompileCache=(f)=>{process.stderr.write('cache:'+f)}"

  function cacheOf(env: Record<string, string>): string | undefined {
    const { stderr } = spawnSync(process.execPath, ['--import', spy, program, '--help'], {
      env: { ...cleanEnvironment(), ...env },
      encoding: 'utf8',
    })
    return /cache:(.*)/.exec(stderr)?.[1]
  }

  test('is a folder of the user that nobody else can enter [S5d-7]', () => {
    const { folder } = aShell()

    const cache = cacheOf({ HOME: folder, XDG_CACHE_HOME: '' })

    expect(cache).toBe(join(folder, '.cache', 'holdfast', 'compiled'))
    expect(modeOf(String(cache))).toBe('700')
  })

  test('is not used where others could have filled it [S5d-7]', () => {
    const { folder } = aShell()
    const open = join(folder, 'open')
    mkdirSync(join(open, 'holdfast', 'compiled'), { recursive: true })
    chmodSync(join(open, 'holdfast', 'compiled'), 0o777)
    const readable = join(folder, 'readable')
    mkdirSync(join(readable, 'holdfast', 'compiled'), { recursive: true })
    const foreign = join(folder, 'foreign')
    mkdirSync(join(foreign, 'holdfast', 'compiled'), { recursive: true, mode: 0o700 })
    if (noStranger === null) chownSync(join(foreign, 'holdfast', 'compiled'), stranger.uid, stranger.gid)
    const writable = join(folder, 'writable')
    mkdirSync(writable)
    chmodSync(writable, 0o777)

    expect(cacheOf({ XDG_CACHE_HOME: open })).toBeUndefined()
    expect(cacheOf({ XDG_CACHE_HOME: readable })).toBeUndefined()
    if (noStranger === null) expect(cacheOf({ XDG_CACHE_HOME: foreign })).toBeUndefined()
    expect(cacheOf({ XDG_CACHE_HOME: writable })).toBeUndefined()
    expect(cacheOf({ HOME: '/proc/nowhere', XDG_CACHE_HOME: '' })).toBeUndefined()
  })

  test.skipIf(noStranger)(
    'leaves nothing of root in the home of somebody else, as under a sudo that keeps HOME',
    () => {
      const home = anOpenFolder()
      chownSync(home, stranger.uid, stranger.gid)

      const cache = cacheOf({ HOME: home, XDG_CACHE_HOME: '' })

      expect(cache).toBeUndefined()
      expect(readdirSync(home)).toEqual([])
    },
  )
})
