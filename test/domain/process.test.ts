/** When a process counts as dead, by what the kernel shows of it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { judgePid } from '../../src/host/process.ts'

/** A process that is there: the kernel shows it and can be asked for it. Its folder is written by the test. */
const { pid } = process
const startTime = '4711'

function statOf(id: number, state: string): string {
  // The 20th field after the name is the start time; a name may hold anything.
  return `${id} (node) Z (x) ${state} 1 ${'0 '.repeat(17)}${startTime} 0 0\n`
}

/** A folder as /proc has it, with the state of the first thread and those of the others. */
function procfsOf(state: string, others: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-proc-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const own = join(folder, String(pid))
  mkdirSync(join(own, 'task', String(pid)), { recursive: true })
  writeFileSync(join(own, 'stat'), statOf(pid, state))
  writeFileSync(join(own, 'task', String(pid), 'stat'), statOf(pid, state))
  for (const [index, each] of others.entries()) {
    const id = pid + index + 1
    mkdirSync(join(own, 'task', String(id)))
    writeFileSync(join(own, 'task', String(id), 'stat'), statOf(id, each))
  }
  return folder
}

describe.runIf(process.platform === 'linux')('a process whose first thread is a zombie', () => {
  test.each(['R', 'S', 'D', 'T'])('is alive while another of its threads is in state %s [S5-36]', (state) => {
    const procfs = procfsOf('Z', ['Z', state])

    const verdict = judgePid(pid, startTime, procfs)

    expect(verdict).toMatchObject({ liveness: 'alive' })
    expect(verdict.evidence).toContain('one of its threads is still there')
  })

  test.each([
    ['none is left', []],
    ['all others are zombies', ['Z', 'X']],
  ])('is dead when %s [S5-36]', (_, others) => {
    expect(judgePid(pid, startTime, procfsOf('Z', others))).toMatchObject({ liveness: 'dead' })
  })

  test('is dead when it disappears during the check [S5-36]', () => {
    const procfs = procfsOf('Z', [])
    rmSync(join(procfs, String(pid), 'task'), { recursive: true })

    expect(judgePid(pid, startTime, procfs)).toMatchObject({ liveness: 'dead' })
  })
})

test.runIf(process.platform === 'linux')('a running process is alive whatever its threads do', () => {
  expect(judgePid(pid, startTime, procfsOf('S', ['Z']))).toMatchObject({ liveness: 'alive' })
  expect(judgePid(pid, 'another', procfsOf('S', []))).toMatchObject({ liveness: 'dead' })
})
