/**
 * A process leaves a mark in the temporary folder of its machine. Boot id, host name and pid namespace can all be
 * the same on two machines (clones, containers without names of their own); who does not see a process's mark must
 * not judge its pid.
 */
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'

const keptMs = 7 * 24 * 3_600_000
const shared = 0o1777

function folder(): string {
  return join(tmpdir(), 'holdfast-processes')
}

function pathOf({ bootId, pidNamespace, pid, startTime }: ProcessIdentity): string {
  const digest = createHash('sha1')
    .update(`${bootId}\n${pidNamespace}\n${startTime}`)
    .digest('hex')
    .slice(0, 16)
  return join(folder(), `${pid}-${digest}`)
}

/** Processes of other users leave theirs in the same folder. Where none can be left, leases decide. */
export function leaveMark(process: ProcessIdentity): void {
  try {
    makeFolder()
    writeFileSync(pathOf(process), '')
  } catch {
    // Without a mark nobody judges this process, and its leases lapse by themselves.
  }
}

function makeFolder(): void {
  if (existsSync(folder())) {
    if (!hasSwept) sweep()
    hasSwept = true
  } else {
    mkdirSync(folder(), { recursive: true })
    chmodSync(folder(), shared)
  }
}

let hasSwept = false

/** Marks of long ago serve nobody: those of the living are left anew with every beat. */
function sweep(): void {
  for (const name of readdirSync(folder())) {
    const path = join(folder(), name)
    if (Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > keptMs)
      rmSync(path, { force: true })
  }
}

export function hasMark(process: ProcessIdentity): boolean {
  return existsSync(pathOf(process))
}
