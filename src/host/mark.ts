/**
 * A process leaves a mark in a folder of its user on its machine. Boot id, host name and pid namespace can all be the same
 * on two machines (clones, containers without names of their own); who does not see a process's mark must not judge its
 * pid. A mark that anybody could leave or remove would let a stranger take leases from the living, so each user has a
 * folder of their own, and processes of other users are judged by their leases alone.
 */
import { createHash } from 'node:crypto'
import { closeSync, constants, futimesSync, lstatSync, opendirSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'
import { maxLeaseMs } from '../domain/lease.ts'
import { isPrivateFolder } from './access.ts'
import { makeFolder, runtimeFolders } from './runtime-folder.ts'

/** Marks of the living are left anew with every beat. Those of the dead serve as long as their leases may last. */
const keptMs = maxLeaseMs + 3_600_000
/** One process of the user does it for all. */
const sweptEveryMs = 3_600_000
/** What is beyond is looked at another time: no start may take long because many have died. */
const maxSwept = 10_000
/** Marks, and the records of probers (see prober-file.ts). */
const isSweptName = /^(\d+|prober)-[0-9a-f]{16}(-own)?$/

/** `folders`: where this user's marks may be, best first. */
export class Marks {
  readonly #folders: () => readonly string[]
  /** Stores this process has open, by its mark. */
  readonly #entered = new Map<string, number>()
  #hasSwept = false

  constructor(folders: () => readonly string[]) {
    this.#folders = folders
  }

  /** This process has one more store open through which others may judge it. Answers why nobody can, or null. */
  enter(self: ProcessIdentity): string | null {
    const name = ownNameOf(self)
    this.#entered.set(name, (this.#entered.get(name) ?? 0) + 1)
    if (this.#write(name)) return null
    return `no mark of this process can be left in ${this.#folders().join(' or ')}, which must be a folder of this user with mode 700`
  }

  /** It is still there. */
  refresh(self: ProcessIdentity): void {
    this.#write(ownNameOf(self))
  }

  /** One store less; nobody has to judge a process that has none. */
  leave(self: ProcessIdentity): void {
    const name = ownNameOf(self)
    const left = (this.#entered.get(name) ?? 1) - 1
    if (left > 0) {
      this.#entered.set(name, left)
      return
    }
    this.#entered.delete(name)
    for (const folder of this.#folders()) if (isPrivateFolder(folder)) remove(join(folder, name))
  }

  /** Shows processes of this machine that one it knows runs here too; gone when it is old. */
  leaveMark(process: ProcessIdentity): void {
    this.#write(nameOf(process))
  }

  has(process: ProcessIdentity): boolean {
    const names = [ownNameOf(process), nameOf(process)]
    return this.#folders()
      .filter(isPrivateFolder)
      .some((folder) => names.some((name) => isPlainFile(join(folder, name))))
  }

  /** False: without a mark nobody judges this process, and its leases lapse by themselves. */
  #write(name: string): boolean {
    for (const folder of this.#folders()) {
      if (!makeFolder(folder)) continue
      this.#sweepOnce(folder)
      if (touch(join(folder, name))) return true
    }
    return false
  }

  #sweepOnce(folder: string): void {
    if (this.#hasSwept) return
    this.#hasSwept = true
    const stamp = join(folder, 'swept')
    const sweptAt = lstatSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0
    if (Date.now() - sweptAt < sweptEveryMs || !touch(stamp)) return
    sweep(folder)
  }
}

const marks = new Marks(runtimeFolders)
export const ownMark = marks
export const leaveMark = (process: ProcessIdentity) => marks.leaveMark(process)
export const hasMark = (process: ProcessIdentity) => marks.has(process)

function nameOf({ bootId, pidNamespace, pid, startTime }: ProcessIdentity): string {
  const digest = createHash('sha1')
    .update(`${bootId}\n${pidNamespace}\n${startTime}`)
    .digest('hex')
    .slice(0, 16)
  return `${pid}-${digest}`
}

/** Of the process itself, which takes it away; its agent may have been registered besides. */
function ownNameOf(self: ProcessIdentity): string {
  return `${nameOf(self)}-own`
}

function touch(path: string): boolean {
  try {
    // Neither through a link nor into a pipe, and nothing is ever emptied.
    const { O_CREAT, O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants
    const file = openSync(path, O_CREAT | O_WRONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0), 0o600)
    try {
      const now = new Date()
      futimesSync(file, now, now)
      return true
    } finally {
      closeSync(file)
    }
  } catch {
    return false
  }
}

function sweep(folder: string): void {
  try {
    const names = opendirSync(folder)
    try {
      for (let looked = 0, entry = names.readSync(); entry && looked < maxSwept; entry = names.readSync()) {
        looked++
        if (entry.isFile() && isSweptName.test(entry.name)) removeIfOld(join(folder, entry.name))
      }
    } finally {
      names.closeSync()
    }
  } catch {
    // The folder went away (its user has logged out), and its marks with it.
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
    // The folder is read-only by now: it is swept another time.
  }
}

function isPlainFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
}
