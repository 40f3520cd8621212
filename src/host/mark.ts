/**
 * Each process leaves a mark in a folder of its user on its machine. Two machines can have the same boot id, host name
 * and pid namespace (clones, containers without their own names), so a process that cannot see another's mark must not
 * judge its pid. If anybody could create or remove marks, a stranger could take leases from the living. So each user
 * has their own folder, and processes of other users are judged by their leases alone.
 */
import { createHash } from 'node:crypto'
import { closeSync, constants, existsSync, futimesSync, lstatSync, opendirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'
import { maxLeaseMs } from '../domain/lease.ts'
import { isPrivateFolder, noFollowFlags } from './access.ts'
import { makeFolder, removeFile, runtimeFolders } from './runtime-folder.ts'

/**
 * The living refresh their marks with every heartbeat. Those of the dead are needed as long as their leases may last.
 */
const keptMs = maxLeaseMs + 3_600_000
/** One process per user sweeps for all. */
const sweptEveryMs = 3_600_000
/** The rest is left for another time: no start may take long because many processes have died. */
const maxSwept = 10_000
/** Marks, and the records of probers (see prober-file.ts). */
const isSweptName = /^(\d+|prober)-[0-9a-f]{16}(-own)?$/
/** The socket of a prober, which is as old as its process, and the record beside it, which a live one keeps fresh. */
const socketName = /^(prober-[0-9a-f]{16})-[0-9a-f]{12}$/

/** `folders`: where this user's marks may be, best first. */
export class Marks {
  readonly #folders: () => readonly string[]
  /** Number of stores this process has open, by its mark. */
  readonly #entered = new Map<string, number>()
  #hasSwept = false

  constructor(folders: () => readonly string[]) {
    this.#folders = folders
  }

  /** Called for each store through which others may judge this process. Returns why nobody can, or null. */
  enter(self: ProcessIdentity): string | null {
    const name = ownNameOf(self)
    this.#entered.set(name, (this.#entered.get(name) ?? 0) + 1)
    if (this.#write(name)) return null
    return `this process cannot leave its mark in ${this.#folders().join(' or ')}, which must be a folder of this user with mode 700`
  }

  /** Keeps the mark of a running process fresh. */
  refresh(self: ProcessIdentity): void {
    this.#write(ownNameOf(self))
  }

  /** Called for each store that closes. A process with no store open need not be judged. */
  leave(self: ProcessIdentity): void {
    const name = ownNameOf(self)
    const left = (this.#entered.get(name) ?? 1) - 1
    if (left > 0) {
      this.#entered.set(name, left)
      return
    }
    this.#entered.delete(name)
    for (const folder of this.#folders()) if (isPrivateFolder(folder)) removeFile(join(folder, name))
  }

  /** Leaves a mark for another process that runs here, so that others on this machine may judge it. Swept when old. */
  leaveMark(process: ProcessIdentity): void {
    this.#write(nameOf(process))
  }

  has(process: ProcessIdentity): boolean {
    const names = [ownNameOf(process), nameOf(process)]
    return this.#folders()
      .filter(isPrivateFolder)
      .some((folder) => names.some((name) => isPlainFile(join(folder, name))))
  }

  /** False: without a mark nobody judges this process, and its leases simply lapse. */
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

export const marks = new Marks(runtimeFolders)

function nameOf({ bootId, pidNamespace, pid, startTime }: ProcessIdentity): string {
  const digest = createHash('sha1')
    .update(`${bootId}\n${pidNamespace}\n${startTime}`)
    .digest('hex')
    .slice(0, 16)
  return `${pid}-${digest}`
}

/** The mark that the process itself removes; its agent's registration may have left another. */
function ownNameOf(self: ProcessIdentity): string {
  return `${nameOf(self)}-own`
}

function touch(path: string): boolean {
  try {
    // Never truncates anything.
    const file = openSync(path, constants.O_CREAT | constants.O_WRONLY | noFollowFlags, 0o600)
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
        const record = entry.isSocket() ? socketName.exec(entry.name)?.[1] : undefined
        const isLeft = record !== undefined && !existsSync(join(folder, record))
        if (isLeft || (entry.isFile() && isSweptName.test(entry.name))) removeIfOld(join(folder, entry.name))
      }
    } finally {
      names.closeSync()
    }
  } catch {
    // The folder is gone (its user has logged out), and its marks with it.
  }
}

function removeIfOld(path: string): void {
  const leftAt = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs
  if (leftAt !== undefined && Date.now() - leftAt > keptMs) removeFile(path)
}

function isPlainFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
}
