/**
 * A process leaves a mark in the temporary folder of its machine. Boot id, host name and pid namespace can all be
 * the same on two machines (clones, containers without names of their own); who does not see a process's mark must
 * not judge its pid. The folder belongs to all users, so nothing found in it is followed, opened or removed unless it
 * is a mark.
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'
import { leaseMsMax } from '../domain/lease.ts'

/** Marks of the living are left anew with every beat. Those of the dead serve as long as their leases may last. */
const keptMs = leaseMsMax + 3_600_000
/** One process of the machine does it for all. */
const sweptEveryMs = 3_600_000
/** What is beyond is looked at another time: no start may take long because many have died. */
const sweptMax = 10_000
const shared = 0o1777
const isMarkName = /^\d+-[0-9a-f]{16}(-own)?$/

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

/** Of the process itself, which takes it away; its agent may have been registered besides. */
function ownPathOf(self: ProcessIdentity): string {
  return `${pathOf(self)}-own`
}

/** Stores this process has open, by its mark. */
const entered = new Map<string, number>()

export const ownMark = {
  /** This process has one more store open through which others may judge it. */
  enter(self: ProcessIdentity): void {
    const path = ownPathOf(self)
    entered.set(path, (entered.get(path) ?? 0) + 1)
    write(path)
  },

  /** It is still there. */
  refresh(self: ProcessIdentity): void {
    write(ownPathOf(self))
  },

  /** One store less; nobody has to judge a process that has none. */
  leave(self: ProcessIdentity): void {
    const path = ownPathOf(self)
    const left = (entered.get(path) ?? 1) - 1
    if (left > 0) {
      entered.set(path, left)
      return
    }
    entered.delete(path)
    remove(path)
  },
}

/** Shows processes of this machine that one it knows runs here too; gone when it is old. */
export function leaveMark(process: ProcessIdentity): void {
  write(pathOf(process))
}

/** Processes of other users leave theirs in the same folder. */
function write(path: string): void {
  try {
    makeFolder()
    // Neither through a link nor into a pipe that somebody has put there, and nothing is ever emptied.
    const { O_CREAT, O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants
    const file = openSync(path, O_CREAT | O_WRONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0), 0o600)
    try {
      const now = new Date()
      futimesSync(file, now, now)
    } finally {
      // Refused for a file that a stranger put there; and it is tried again with every beat.
      closeSync(file)
    }
  } catch {
    // Without a mark nobody judges this process, and its leases lapse by themselves.
  }
}

function makeFolder(): void {
  const found = lstatSync(folder(), { throwIfNoEntry: false })
  if (found?.isDirectory()) sweepOnce()
  else {
    mkdirSync(folder())
    chmodSync(folder(), shared)
  }
}

let hasSwept = false

function sweepOnce(): void {
  if (hasSwept) return
  hasSwept = true
  const stamp = join(folder(), `swept-${process.getuid?.() ?? 0}`)
  const sweptAt = lstatSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (Date.now() - sweptAt < sweptEveryMs) return
  write(stamp)
  sweep()
}

function sweep(): void {
  const names = opendirSync(folder())
  try {
    for (let looked = 0, entry = names.readSync(); entry && looked < sweptMax; entry = names.readSync()) {
      looked++
      if (entry.isFile() && isMarkName.test(entry.name)) removeIfOld(join(folder(), entry.name))
    }
  } finally {
    names.closeSync()
  }
}

function removeIfOld(path: string): void {
  const leftAt = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs
  if (leftAt !== undefined && Date.now() - leftAt > keptMs) remove(path)
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // Another user's, who removes it, or the folder is read-only by now: it is swept another time.
  }
}

export function hasMark(process: ProcessIdentity): boolean {
  return existsSync(ownPathOf(process)) || existsSync(pathOf(process))
}
