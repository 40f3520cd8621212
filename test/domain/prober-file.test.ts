/** The record of who probes: read by those who can judge the same processes, and by nobody else. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { ProberFile } from '../../src/host/prober-file.ts'
import { identify, identifyPid } from '../../src/host/process.ts'

const self = identify()
const record = { id: 'one', pid: self.pid, startTime: self.startTime, beatAt: 1234.5 }
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-prober-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function fileOf(store = 'a store', identity = self): ProberFile {
  const file = new ProberFile(() => [folder], identity, store)
  onTestFinished(() => file.close())
  return file
}

test('what one process writes, the others read, until it leaves [S5e-6]', () => {
  const longer = { ...record, id: 'a much longer id than that of the other' }

  expect(fileOf().read()).toBeNull()
  expect(fileOf().write(longer)).toBe(true)
  expect(fileOf().write(record)).toBe(true)
  expect(fileOf().read()).toEqual(record)

  fileOf().leave('another')
  expect(fileOf().read()).toEqual(record)
  fileOf().leave(record.id)
  expect(fileOf().read()).toBeNull()
  expect(readdirSync(folder)).toEqual([])
})

test('other stores, boots, machines and pid namespaces have their own records [S5e-6]', () => {
  fileOf().write(record)

  expect(fileOf('another store').read()).toBeNull()
  for (const other of [{ bootId: 'other' }, { hostName: 'other' }, { pidNamespace: 'other' }])
    expect(fileOf('a store', { ...self, ...other }).read()).toBeNull()
  expect(fileOf('a store', { ...self, pid: 1, startTime: '1' }).read()).toEqual(record)
})

test('a folder that others may look into is not used [S5e-6]', () => {
  chmodSync(folder, 0o755)

  expect(fileOf().write(record)).toBe(false)
  expect(readdirSync(folder)).toEqual([])
})

test('a folder that was removed and created by another user while in use is no longer used [S5d-6]', () => {
  const seat = fileOf()
  seat.write(record)
  expect(seat.read()).toEqual(record)

  // The mode stands for another owner, whom only root could give it.
  chmodSync(folder, 0o777)

  expect(seat.read()).toBeNull()
  expect(seat.write({ ...record, id: 'two' })).toBe(false)
  expect(seat.watch(record, () => {})).toBe(false)
  seat.serve('two', null)
  expect(readdirSync(folder)).toHaveLength(1)

  chmodSync(folder, 0o700)
  expect(seat.read()).toEqual(record)
})

test('a link in its place is not followed [S5e-6]', () => {
  fileOf().write(record)
  const [name = ''] = readdirSync(folder)
  const target = join(folder, 'target')
  writeFileSync(target, JSON.stringify(record))
  rmSync(join(folder, name))
  symlinkSync(target, join(folder, name))

  expect(fileOf().write(record)).toBe(false)
  expect(fileOf().read()).toBeNull()
})

test.each(['', '{', '7', '{"id":"one","pid":"x"}', '{"id":"one","pid":1,"startTime":3,"beatAt":1}'])(
  'anything that is not a record (%j) belongs to nobody [S5e-6]',
  (text) => {
    fileOf().write(record)
    writeFileSync(join(folder, readdirSync(folder)[0] ?? ''), text)

    expect(fileOf().read()).toBeNull()
  },
)

test('a running process is able to probe; a stopped, dead or newer one is not [S5e-6]', async () => {
  const child = spawn('sleep', ['60'])
  onTestFinished(() => void child.kill('SIGKILL'))
  const { pid, startTime } = identifyPid(child.pid as number) ?? record
  const theirs = { ...record, pid, startTime }
  const seat = fileOf()

  expect(seat.isAble(theirs)).toBe(true)
  if (process.platform === 'linux') {
    expect(seat.isAble({ ...theirs, startTime: '1' })).toBe(false)
    expect(seat.isAble(theirs)).toBe(true)
    child.kill('SIGSTOP')
    await expect.poll(() => seat.isAble(theirs)).toBe(false)
    child.kill('SIGCONT')
    await expect.poll(() => seat.isAble(theirs)).toBe(true)
  }
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(seat.isAble(theirs)).toBe(false)
})

test('watchers notice as soon as the prober leaves [S5e-6]', async () => {
  const [prober, watcher] = [fileOf(), fileOf()]
  prober.write(record)
  prober.serve(record.id, null)
  watcher.read()
  const gone = new Promise<void>((resolve) => {
    void expect
      .poll(() => watcher.watch(record, resolve))
      .toBe(true)
      .then(() => prober.leave(record.id))
  })

  await gone

  expect(watcher.watch(record, () => {})).toBe(false)
  expect(readdirSync(folder)).toEqual([])
})

test('a prober that steps back leaves the socket of the next alone [S5e-6]', async () => {
  const [former, next, watcher] = [fileOf(), fileOf(), fileOf()]
  former.write(record)
  former.serve(record.id, null)
  const theirs = { ...record, id: 'two' }
  next.write(theirs)
  next.serve(theirs.id, record)

  former.read()
  await expect.poll(() => former.watch(theirs, () => {})).toBe(true)

  watcher.read()
  await expect.poll(() => watcher.watch(theirs, () => {})).toBe(true)
  next.leave(theirs.id)
  expect(readdirSync(folder)).toEqual([])
})

test('watchers notice when it is killed, and the next prober removes its socket [S5e-6]', async () => {
  const path = await killedProber()
  const prober = fileOf()
  prober.write({ ...record, id: 'two' })

  prober.serve('two', record)

  expect(existsSync(path)).toBe(false)
})

/** Returns the path of its socket. */
async function killedProber(): Promise<string> {
  const prober = fileOf()
  prober.write(record)
  prober.serve(record.id, null)
  const names = () => readdirSync(folder).filter((name) => name.split('-').length === 3)
  await expect.poll(names).toHaveLength(1)
  const path = join(folder, names()[0] as string)
  prober.close()
  await expect.poll(() => existsSync(path)).toBe(false)
  const child = spawn(process.execPath, [
    '-e',
    `require('node:net').createServer().listen(${JSON.stringify(path)}, () => console.log('up'))`,
  ])
  await once(child.stdout, 'data')

  const watcher = fileOf()
  watcher.read()
  const gone = new Promise<void>((resolve) => {
    void expect
      .poll(() => watcher.watch(record, resolve))
      .toBe(true)
      .then(() => child.kill('SIGKILL'))
  })
  await gone
  expect(existsSync(path)).toBe(true)
  return path
}
