/** The file of a SQLite store: where it may lie, by which names it is opened, and what is found beside it. */
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { copyStore, type Holdfast, isHoldfastError, type OpenOptions, open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { openRaw } from '../support/sqlite-file.ts'

const quiet = { background: false, logger: false } as const

describe('a store file', () => {
  test('that was renamed while closed is the same store under its new name [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    await fill(store, 'work')
    const renamed = join(aFolder(), 'renamed.db')

    renameSync(store, renamed)

    expect(await payloadsIn(renamed)).toEqual(['work'])
    expect(nameIn(renamed)).toMatchObject({ file: 'renamed.db', path: renamed })
    const { mtimeNs } = statSync(renamed, { bigint: true })
    expect(await payloadsIn(renamed)).toEqual(['work'])
    expect(statSync(renamed, { bigint: true }).mtimeNs).toBe(mtimeNs)
  })

  test('that was copied takes the name of the copy, and leaves the original alone [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    await fill(store, 'work')
    const copy = join(dirname(store), 'copy.db')

    copyFileSync(store, copy)
    await fill(copy, 'more')

    expect(nameIn(copy)).toMatchObject({ file: 'copy.db' })
    expect(nameIn(store)).toMatchObject({ file: 'store.db' })
    expect(await payloadsIn(store)).toEqual(['work'])
  })

  test('with several links and no recorded name is refused by each of them [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    writeFileSync(store, '')
    const other = join(dirname(store), 'other.db')
    linkSync(store, other)

    const refusals = [await refusalOf(store), await refusalOf(other)]

    expect(refusals).toMatchObject([
      { code: 'STORE_UNFIT', facts: { links: 2, name: null } },
      { code: 'STORE_UNFIT', facts: { links: 2, name: null } },
    ])
    expect(readdirSync(dirname(store)).toSorted()).toEqual(['other.db', 'store.db'])
    rmSync(other)
    await fill(store, 'work')
  })

  test('whose only link is new counts as renamed [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    await fill(store, 'work')
    const other = join(dirname(store), 'other.db')
    linkSync(store, other)
    rmSync(store)

    expect(await payloadsIn(other)).toEqual(['work'])
  })

  test('that is renamed and opened by its new name while a handle has the old one is refused [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    const hf = await opened(store, quiet)
    const renamed = join(dirname(store), 'renamed.db')
    renameSync(store, renamed)
    rmSync(`${store}-wal`)

    const refusal = await refusalOf(renamed)

    expect(refusal).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { before: store } })
    await hf.close()
    expect(await payloadsIn(renamed)).toEqual([])
  })

  test('is found missing by the caretaker: everything held is lost, logged once, and closing is quiet [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    const environment = new MovableEnvironment()
    const lines: unknown[] = []
    const note = (facts: unknown, name: string) => void lines.push([name, facts])
    const hf = await opened(store, { environment, logger: { warn: note, error: note } })
    await hf.queue('jobs').add('work')
    const { lease } = await claimed(hf.queue('jobs').next())
    const reasons: unknown[] = []
    lease?.signal.addEventListener('abort', () => reasons.push(lease.signal.reason))

    rmSync(store)
    await environment.advance(100)

    expect(reasons).toMatchObject([{ code: 'LEASE_LOST', message: expect.stringContaining('deleted') }])
    await environment.advance(60_000)
    expect(lines).toEqual([['store.lost', { location: store, how: 'deleted or renamed', leases: 1 }]])
    await hf.close()
  })

  test('is lost for good, whatever takes its place [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    const environment = new MovableEnvironment()
    const hf = await opened(store, { ...quiet, environment })
    const away = join(dirname(store), 'away.db')
    renameSync(store, away)
    await environment.advance(1)
    const add = () =>
      hf
        .queue('jobs')
        .add('work')
        .then(String, (error: unknown) => error)
    const refusal = await add()
    renameSync(away, store)

    expect(refusal).toMatchObject({
      code: 'STORE_UNAVAILABLE',
      facts: { lost: 'deleted or renamed', inDoubt: false },
    })
    await environment.advance(1)
    expect(await add()).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await hf.close()
    expect(await payloadsIn(store)).toEqual([])
  })

  test('that is deleted between a commit and its answer has acknowledged nothing [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    let isArmed = false
    const environment = new MovableEnvironment({
      reached: (point) => void (isArmed && point === 'transaction.committed' && rmSync(store)),
    })
    const hf = await opened(store, { ...quiet, environment })
    isArmed = true
    // A commit takes its time: each look at the clock is a millisecond later.
    const monotonic = environment.monotonic.bind(environment)
    let laterMs = 0
    environment.monotonic = () => monotonic() + laterMs++

    const answer = await hf
      .queue('jobs')
      .add('work')
      .then(String, (error: unknown) => error)

    expect(answer).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: true } })
    await hf.close()
  })
})

describe('a path', () => {
  test.each([
    ['the folder one is in', '.'],
    ['the folder above', 'sub/..'],
    ['a folder', 'sub'],
    ['a folder with a slash', 'sub/'],
    ['a name with a slash', 'new/'],
    ['a name with a slash and a dot', 'new/.'],
    ['a link to a folder', 'to-sub'],
    ['a link to itself', 'loop'],
    ['a device', '/dev/null'],
    ['a pipe', 'pipe'],
    ['no name', 'sqlite:'],
  ])('that is %s is refused with INVALID, and nothing is created [S5c-28]', async (_, path) => {
    const folder = inFolder()
    const before = readdirSync(folder, { recursive: true }).toSorted()

    const refusals = [
      await refusalOf(path),
      await refusalOf(path.startsWith('sqlite:') ? path : `sqlite:${path}`),
    ]
    refusals.push(await copyStore({ from: 'store.db', to: path }).catch((error: unknown) => error))

    expect(refusals).toMatchObject(Array(3).fill({ code: 'INVALID' }))
    expect(readdirSync(folder, { recursive: true }).toSorted()).toEqual(before)
  })

  test.each([
    ['a link', 'to-store', 'sub/store.db'],
    ['a link to a link', 'to-link', 'sub/store.db'],
    ['below a link', 'to-sub/store.db', 'sub/store.db'],
    ['above where a link leads', 'to-deep/../store.db', 'sub/store.db'],
  ])('that is %s leads to the store there, even before it is created [S5c-28]', async (_, path, real) => {
    const folder = inFolder()
    const before = readdirSync(folder).toSorted()

    const made = await opened(path, quiet)
    await made.queue('jobs').add('work')
    await made.close()

    expect(made.status.location).toBe(join(folder, real))
    expect(await payloadsIn(join(folder, real))).toEqual(['work'])
    expect(await payloadsIn(path)).toEqual(['work'])
    expect(readdirSync(folder).toSorted()).toEqual(before)
  })

  test('below something that is not a folder is reported as one that cannot be opened [S5c-28]', async () => {
    const folder = inFolder()
    writeFileSync(join(folder, 'file'), '')

    expect(await refusalOf('file/store.db')).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(await refusalOf('nowhere/store.db')).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })
})

/** A folder with links and others in it, which the test is in. */
function inFolder(): string {
  const folder = realpathSync(aFolder())
  mkdirSync(join(folder, 'sub', 'deep'), { recursive: true })
  symlinkSync('sub', join(folder, 'to-sub'))
  symlinkSync('sub/deep', join(folder, 'to-deep'))
  symlinkSync('sub/store.db', join(folder, 'to-store'))
  symlinkSync('to-store', join(folder, 'to-link'))
  symlinkSync('loop', join(folder, 'loop'))
  spawnSync('mkfifo', [join(folder, 'pipe')])
  const before = process.cwd()
  process.chdir(folder)
  onTestFinished(() => process.chdir(before))
  return folder
}

describe('an open that fails', () => {
  const unfit: Record<string, (store: string) => unknown> = {
    'a file that is no database': (store) => writeFileSync(store, 'no database\n'.repeat(1000)),
    'a file of another program': (store) => change(store, 'create table notes (text)'),
    'a store of a newer schema': async (store) => {
      await fill(store, 'work')
      change(store, 'pragma user_version = 9999')
    },
    'a store that has moved': async (store) => {
      await fill(store, 'work')
      await copyStore({ from: store, to: `${store}.copy` })
    },
    'a store that somebody else is writing': async (store) => {
      await fill(store, 'work')
      const raw = openRaw(store)
      onTestFinished(() => raw.close())
      raw.exec('begin immediate')
    },
  }

  test.runIf(process.platform === 'linux').each(Object.keys(unfit))(
    'on %s keeps no descriptor of it [S5c-25]',
    async (kind) => {
      const store = join(aFolder(), 'store.db')
      await unfit[kind]?.(store)
      // One that SQLite may not close yet, because of locks on the same file, it uses again.
      const refusals = [await refusalOf(store, { busyTimeoutMs: 1 })]
      const before = descriptorsOf(store)

      for (let time = 0; time < 4; time++) refusals.push(await refusalOf(store, { busyTimeoutMs: 1 }))

      expect(refusals.filter(isHoldfastError)).toHaveLength(5)
      // Fewer when what the first one left was collected meanwhile.
      expect(descriptorsOf(store)).toBeLessThanOrEqual(before)
    },
  )
})

/** How many of this process are open on a file, or on what lies beside it. */
function descriptorsOf(store: string): number {
  const links = readdirSync('/proc/self/fd').map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`)
    } catch {
      return ''
    }
  })
  return links.filter((link) => link.startsWith(store)).length
}

function change(store: string, sql: string): void {
  const raw = openRaw(store)
  raw.exec(sql)
  raw.close()
}

describe('a copy', () => {
  test.each(['deleted', 'replaced'])(
    'into a file that is %s during the copy fails, and the source stays usable [S5b-6]',
    async (how) => {
      const from = join(aFolder(), 'from.db')
      const to = join(aFolder(), 'to.db')
      await fill(from, 'work')
      const spare = join(aFolder(), 'spare.db')
      await fill(spare, 'another')
      let isDone = false

      const copying = copyStore({
        from,
        to,
        onProgress({ phase }) {
          if (isDone || phase !== 'verifying') return
          isDone = true
          for (const end of ['', '-wal', '-shm']) rmSync(`${to}${end}`)
          if (how === 'replaced') renameSync(spare, to)
        },
      })

      await expect(copying).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(isDone).toBe(true)
      expect(await payloadsIn(from)).toEqual(['work'])
    },
  )

  test('of a store to itself by a link is refused [S5b-6]', async () => {
    const from = join(aFolder(), 'from.db')
    await fill(from, 'work')
    const to = join(dirname(from), 'to.db')
    symlinkSync(from, to)

    await expect(copyStore({ from, to })).rejects.toMatchObject({ code: 'INVALID' })
  })
})

describe('a file system that a program provides', () => {
  test('causes a warning in the log and in doctor [S5b-6]', async () => {
    const store = join(aFolder(), 'store.db')
    const environment = new MovableEnvironment({ host: { userFileSystem: () => 'virtiofs' } })
    const warned: unknown[] = []
    const hf = await opened(store, {
      environment,
      logger: { warn: (facts, name) => void warned.push([name, facts]), error() {} },
    })

    expect(warned).toEqual([
      ['store.warning', expect.objectContaining({ what: expect.stringContaining('virtiofs') })],
    ])
    expect((await hf.fleet.doctor()).findings).toContainEqual(
      expect.objectContaining({ check: 'file system', level: 'warning' }),
    )
  })

  test('is detected where the store is, not where a link to it is [S5b-6]', async () => {
    const folder = join(aFolder(), 'network')
    mkdirSync(folder)
    const environment = new MovableEnvironment({
      host: { networkFileSystem: (path) => (path === folder ? 'sshfs' : null) },
    })
    const link = join(dirname(folder), 'link.db')
    symlinkSync(join(folder, 'store.db'), link)

    expect(await refusalOf(link, { environment })).toMatchObject({
      code: 'STORE_UNFIT',
      facts: { fileSystem: 'sshfs' },
    })
    expect(readdirSync(folder)).toEqual([])
  })
})

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function opened(store: string, options: OpenOptions): Promise<Holdfast> {
  const hf = await open(store, options)
  onTestFinished(() => hf.close())
  return hf
}

async function refusalOf(store: string, options: OpenOptions = {}): Promise<unknown> {
  const answer = await open(store, { ...quiet, ...options }).catch((error: unknown) => error)
  if (!isHoldfastError(answer)) await (answer as Holdfast).close()
  return answer
}

async function fill(store: string, payload: string): Promise<void> {
  const hf = await open(store, quiet)
  await hf.queue('jobs').add(payload)
  await hf.close()
}

async function payloadsIn(store: string): Promise<unknown[]> {
  const hf = await open(store, quiet)
  const { items } = await hf.queue('jobs').list()
  await hf.close()
  return items.map(({ payload }) => payload)
}

function nameIn(store: string): unknown {
  const raw = openRaw(store)
  const [row] = raw.prepare("select value from meta where key = 'name'").all() as { value: string }[]
  raw.close()
  return JSON.parse(String(row?.value))
}
