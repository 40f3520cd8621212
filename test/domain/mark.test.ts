/** Marks of processes, in folders of their user alone. */

import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Marks } from '../../src/host/mark.ts'
import { identify } from '../../src/host/process.ts'
import { runtimeFolders } from '../../src/host/runtime-folder.ts'

const self = identify()
const other = { ...self, pid: 4711, startTime: 'a while ago' }
const dayMs = 24 * 3_600_000
const isRoot = process.getuid?.() === 0
if (!isRoot) console.log('a test with a second user is skipped: only root can give a folder away')
let folder: string
/** As /run/user/<uid>/holdfast, which is there while its user is logged in, and <tmp>/holdfast-<uid>. */
let [runtime, temporary] = ['', '']

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-marks-'))
  runtime = join(folder, 'runtime', 'holdfast')
  temporary = join(folder, 'holdfast-1000')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** As a process that has just been started finds them. */
function startAnew(): Marks {
  return new Marks(() => [runtime, temporary])
}

function left(): string[] {
  return readdirSync(temporary).filter((name) => name !== 'swept')
}

function age(name: string, ms: number): void {
  const at = new Date(Date.now() - ms)
  utimesSync(join(temporary, name), at, at)
}

async function listenAt(name: string): Promise<void> {
  const server = createServer().listen(join(temporary, name))
  onTestFinished(() => void server.close())
  await once(server, 'listening')
}

describe("a process's own mark", () => {
  test('is gone after its last store is closed [S5-33]', () => {
    const marks = startAnew()
    marks.enter(self)
    marks.enter(self)
    marks.leave(self)
    const withOneOpen = marks.has(self)
    marks.leave(self)

    expect(withOneOpen).toBe(true)
    expect(marks.has(self)).toBe(false)
    expect(left()).toEqual([])
  })

  test('goes without the mark of its registration, which others rely on [S5-33]', () => {
    const marks = startAnew()
    marks.leaveMark(self)
    marks.enter(self)

    marks.leave(self)

    expect(marks.has(self)).toBe(true)
  })

  test('is left in a private folder of the user, and seen by those who know only the other folder [S5d-6]', () => {
    startAnew().enter(other)
    mkdirSync(join(folder, 'runtime'))
    const marks = startAnew()

    marks.enter(self)

    expect(statSync(temporary).mode & 0o777).toBe(0o700)
    expect(statSync(runtime).mode & 0o777).toBe(0o700)
    expect(readdirSync(runtime).filter((name) => name !== 'swept')).toHaveLength(1)
    expect([startAnew().has(self), startAnew().has(other)]).toEqual([true, true])
    rmSync(join(folder, 'runtime'), { recursive: true })
    marks.refresh(self)
    expect(startAnew().has(self)).toBe(true)
  })
})

test('the folders of marks are the same under cron and sudo, which set no runtime folder [S5d-6]', () => {
  const usual = runtimeFolders()
  vi.stubEnv('XDG_RUNTIME_DIR', folder)
  onTestFinished(() => void vi.unstubAllEnvs())

  expect(runtimeFolders()).toEqual(usual)
  expect(usual).toEqual([
    `/run/user/${process.getuid?.()}/holdfast`,
    `${tmpdir()}/holdfast-${process.getuid?.()}`,
  ])
})

describe('marks of others', () => {
  test('are removed when no lease of theirs can still be live, and not before [S5-33]', () => {
    startAnew().leaveMark(other)
    const [name] = left()
    age(name as string, dayMs)
    startAnew().leaveMark(self)
    const afterADay = startAnew().has(other)
    rmSync(join(temporary, 'swept'), { force: true })
    age(name as string, dayMs + 2 * 3_600_000)

    startAnew().leaveMark(self)

    expect([afterADay, startAnew().has(other)]).toEqual([true, false])
  })

  test('are swept with the sockets of probers whose records are gone [S5e-6]', async () => {
    startAnew().leaveMark(self)
    rmSync(join(temporary, 'swept'))
    const [dead, alive] = ['prober-0123456789abcdef', 'prober-fedcba9876543210']
    const sockets = [dead, alive].map((record) => `${record}-0123456789ab`)
    await Promise.all(sockets.map(listenAt))
    writeFileSync(join(temporary, alive), '')
    for (const name of sockets) age(name, 10 * dayMs)

    startAnew().leaveMark(other)

    expect(left()).toEqual(expect.arrayContaining([alive, sockets[1]]))
    expect(left()).not.toContain(sockets[0])
  })

  test('are swept by one start per hour, not by all [S5-33]', () => {
    startAnew().leaveMark(self)
    startAnew().leaveMark(other)
    const [name] = left().filter((each) => each.startsWith('4711'))
    age(name as string, 10 * dayMs)

    startAnew().leaveMark(self)

    expect(startAnew().has(other)).toBe(true)
  })
})

describe('what somebody else has put there', () => {
  test('is not written through if it is a link in place of a mark [S5-33]', () => {
    const precious = join(folder, 'precious')
    writeFileSync(precious, 'kept')
    const marks = startAnew()
    marks.leaveMark(other)
    const path = join(temporary, left()[0] as string)
    rmSync(path)
    symlinkSync(precious, path)

    marks.leaveMark(other)

    expect(readFileSync(precious, 'utf8')).toBe('kept')
    expect(marks.has(other)).toBe(false)
  })

  test('is not removed if it is not a mark [S5d-6]', () => {
    startAnew().leaveMark(self)
    rmSync(join(temporary, 'swept'))
    const kept = ['letter', '4711', '4711-0123456789abcdef.txt', 'x4711-0123456789abcdef']
    for (const name of [...kept, '4711-0123456789abcdef']) writeFileSync(join(temporary, name), '')
    for (const name of readdirSync(temporary)) utimesSync(join(temporary, name), 0, 0)

    startAnew().leaveMark(other)

    expect(left()).toEqual(expect.arrayContaining(kept))
    expect(left()).not.toContain('4711-0123456789abcdef')
  })

  test('is neither used nor swept if the folder is a link to a private one of the user [S5-33]', () => {
    const documents = join(folder, 'documents')
    mkdirSync(documents, 0o700)
    writeFileSync(join(documents, 'letter'), '')
    writeFileSync(join(documents, '4711-0123456789abcdef'), '')
    for (const name of readdirSync(documents)) utimesSync(join(documents, name), 0, 0)
    symlinkSync(documents, temporary)
    const marks = startAnew()

    const fault = marks.enter(self)
    marks.leave(self)

    expect(fault).toContain(temporary)
    expect(existsSync(join(documents, 'letter'))).toBe(true)
    expect(readdirSync(documents).sort()).toEqual(['4711-0123456789abcdef', 'letter'])
  })

  test('is neither used nor trusted if others can enter the folder [S5d-6]', () => {
    const marks = startAnew()
    marks.enter(other)
    chmodSync(temporary, 0o755)

    expect(marks.has(other)).toBe(false)
    expect(marks.enter(self)).toContain('mode 700')
  })

  test.skipIf(!isRoot)('is neither used nor trusted if the folder belongs to another user [S5d-6]', () => {
    const marks = startAnew()
    marks.enter(other)
    chownSync(temporary, 65_534, 65_534)

    expect(marks.has(other)).toBe(false)
    expect(marks.enter(self)).toContain(temporary)
    mkdirSync(join(folder, 'runtime'))
    expect(marks.enter(self)).toBeNull()
  })
})
