/** Marks of processes in the temporary folder of their machine, which belongs to all its users. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { identify } from '../../src/host/process.ts'

const self = identify()
const other = { ...self, pid: 4711, startTime: 'a while ago' }
const dayMs = 24 * 3_600_000
let folder: string
let marks: typeof import('../../src/host/mark.ts')

/** As a process that has just been started finds them. */
async function startAnew(): Promise<void> {
  vi.resetModules()
  marks = await import('../../src/host/mark.ts')
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-marks-'))
  vi.stubEnv('TMPDIR', folder)
  await startAnew()
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
})

function left(): string[] {
  return readdirSync(join(folder, 'holdfast-processes')).filter((name) => !name.startsWith('swept'))
}

function age(name: string, ms: number): void {
  const at = new Date(Date.now() - ms)
  utimesSync(join(folder, 'holdfast-processes', name), at, at)
}

describe("a process's own mark", () => {
  test('is gone after its last store is closed [S5-33]', () => {
    marks.ownMark.enter(self)
    marks.ownMark.enter(self)
    marks.ownMark.leave(self)
    const withOneOpen = marks.hasMark(self)
    marks.ownMark.leave(self)

    expect(withOneOpen).toBe(true)
    expect(marks.hasMark(self)).toBe(false)
    expect(left()).toEqual([])
  })

  test('goes without that of its registration, which others rely on [S5-33]', () => {
    marks.leaveMark(self)
    marks.ownMark.enter(self)

    marks.ownMark.leave(self)

    expect(marks.hasMark(self)).toBe(true)
  })
})

describe('marks of others', () => {
  test('are removed when no lease of theirs can still run, and not before [S5-33]', async () => {
    marks.leaveMark(other)
    const [name] = left()
    age(name as string, dayMs)
    await startAnew()
    marks.leaveMark(self)
    const afterADay = marks.hasMark(other)
    rmSync(join(folder, 'holdfast-processes', `swept-${process.getuid?.() ?? 0}`), { force: true })
    age(name as string, dayMs + 2 * 3_600_000)

    await startAnew()
    marks.leaveMark(self)

    expect([afterADay, marks.hasMark(other)]).toEqual([true, false])
  })

  test('are looked through by one start in an hour, not by all [S5-33]', async () => {
    marks.leaveMark(self)
    await startAnew()
    marks.leaveMark(self)
    marks.leaveMark(other)
    const [name] = left().filter((each) => each.startsWith('4711'))
    age(name as string, 10 * dayMs)

    await startAnew()
    marks.leaveMark(self)

    expect(marks.hasMark(other)).toBe(true)
  })
})

describe('what somebody else has put into the folder', () => {
  test('is not written through, when it is a link in the place of a mark [S5-33]', () => {
    const precious = join(folder, 'precious')
    writeFileSync(precious, 'kept')
    marks.leaveMark(other)
    const path = join(folder, 'holdfast-processes', left()[0] as string)
    rmSync(path)
    symlinkSync(precious, path)

    marks.leaveMark(other)

    expect(readFileSync(precious, 'utf8')).toBe('kept')
  })

  test('is not removed, when it is no mark or the folder is a link [S5-33]', async () => {
    const documents = join(folder, 'documents')
    mkdirSync(documents)
    writeFileSync(join(documents, 'letter'), '')
    writeFileSync(join(documents, '4711-0123456789abcdef'), '')
    for (const name of readdirSync(documents)) utimesSync(join(documents, name), 0, 0)
    symlinkSync(documents, join(folder, 'holdfast-processes'))

    marks.ownMark.enter(self)
    marks.ownMark.leave(self)

    expect(existsSync(join(documents, 'letter'))).toBe(true)
    expect(readdirSync(documents).sort()).toEqual(['4711-0123456789abcdef', 'letter'])
  })
})
