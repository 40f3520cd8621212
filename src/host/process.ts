/**
 * Which process is which, and whether it is dead. A pid alone says nothing: it may belong to another machine, container
 * or boot, and pids are reused. Death is proven only if boot, pid namespace and host name are the same as ours, or if
 * the kernel has been restarted since. Everything else is 'unknown', and then the lease decides.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { hostname } from 'node:os'
import {
  isOfEarlierBoot,
  isUnknownBoot,
  type KernelTimes,
  type SignsOfLife,
  unknownBoot,
} from '../domain/boot.ts'
import type { ProcessIdentity } from '../domain/instance.ts'
import type { Verdict } from '../environment.ts'
import { marks } from './mark.ts'
import { unlessRefused } from './unless-refused.ts'

let own: ProcessIdentity | undefined

export function identify(): ProcessIdentity {
  own ??= {
    bootId: bootId(),
    pidNamespace: pidNamespace(),
    hostName: hostname(),
    pid: process.pid,
    startTime: startTime(process.pid),
  }
  return own
}

/** The identity of the process that runs under a pid on this machine, as it would report it; null if there is none. */
export function identifyPid(pid: number): ProcessIdentity | null {
  return processExists(pid) ? { ...identify(), pid, startTime: startTime(pid) } : null
}

const maxPid = 2 ** 31 - 1

/** Whether a process runs under this pid here. Informational: pids are reused, and other machines have their own. */
export function processExists(pid: number): boolean {
  // 0 and negative numbers mean process groups.
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid > maxPid) return false
  return judgePid(pid, null).liveness === 'alive'
}

export interface Judge {
  readonly self: ProcessIdentity
  /** The store is on a disk of this machine, so every process that opened it ran on this machine. */
  readonly storeIsLocal: boolean
  kernel(): KernelTimes
}

export function judge(other: ProcessIdentity & SignsOfLife, { self, storeIsLocal, kernel }: Judge): Verdict {
  if (isUnknownBoot(self.bootId)) {
    return {
      liveness: 'unknown',
      evidence: 'this process cannot read the boot id, so it cannot judge others',
    }
  }
  if (isUnknownBoot(other.bootId)) {
    return { liveness: 'unknown', evidence: 'it could not read the boot id, so nobody can judge it' }
  }
  if (other.bootId !== self.bootId) {
    if (storeIsLocal && isOfEarlierBoot(other, kernel()))
      return { liveness: 'dead', evidence: 'the machine has been restarted since', isReboot: true }
    return { liveness: 'unknown', evidence: `it runs on ${other.hostName}, or did before a restart` }
  }
  if (other.hostName !== self.hostName || other.pidNamespace !== self.pidNamespace) {
    return { liveness: 'unknown', evidence: `it runs on ${other.hostName} in another container` }
  }
  if (!storeIsLocal && !marks.has(other)) {
    return { liveness: 'unknown', evidence: `process ${other.pid} has left no mark on this machine` }
  }
  return judgePid(other.pid, other.startTime)
}

/** `procfs`: where the kernel lists its processes. */
export function judgePid(pid: number, startedAt: string | null, procfs = '/proc'): Verdict {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM: it exists, under another user.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH')
      return { liveness: 'dead', evidence: `process ${pid} is gone` }
    return { liveness: 'alive', evidence: `process ${pid} is there` }
  }
  const stat = statOf(`${procfs}/${pid}`)
  if (stat === null) return { liveness: 'alive', evidence: `process ${pid} is there` }
  if (hasEnded(stat)) {
    // Its first thread becomes a zombie as soon as it ends; others may still be in a system call, for instance writing.
    if (hasNoThreadLeft(pid, procfs))
      return { liveness: 'dead', evidence: `process ${pid} has ended (zombie)` }
    return { liveness: 'alive', evidence: `process ${pid} is ending, but one of its threads is still there` }
  }
  if (startedAt !== null && stat.startTime !== startedAt)
    return { liveness: 'dead', evidence: `pid ${pid} belongs to a newer process` }
  if (stat.state === 'T') return { liveness: 'alive', evidence: `process ${pid} is stopped`, isStopped: true }
  return { liveness: 'alive', evidence: `process ${pid} is running` }
}

const statBytes = 1024

/**
 * One process, judged repeatedly. Its stat file stays open, so a look is one system call. A reused pid cannot be
 * mistaken for it, because the open file belongs to the process and not to its number.
 */
export class WatchedProcess {
  readonly #pid: number
  readonly #startedAt: string | null
  readonly #buffer = Buffer.alloc(statBytes)
  #file: number | null

  constructor(pid: number, startedAt: string | null) {
    this.#pid = pid
    this.#startedAt = startedAt
    this.#file = openStat(pid)
  }

  judge(): Verdict {
    const stat = this.#read()
    const isRunning = stat !== null && !hasEnded(stat) && stat.state !== 'T'
    if (isRunning && stat.startTime === this.#startedAt)
      return { liveness: 'alive', evidence: `process ${this.#pid} is running` }
    return judgePid(this.#pid, this.#startedAt)
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }

  #read(): Stat | null {
    if (this.#file === null) return null
    try {
      const length = readSync(this.#file, this.#buffer, 0, statBytes, 0)
      return parseStat(this.#buffer.toString('latin1', 0, length))
    } catch {
      // The process is gone.
      return null
    }
  }
}

function openStat(pid: number): number | null {
  return process.platform === 'linux' ? unlessRefused(() => openSync(`/proc/${pid}/stat`, 'r')) : null
}

interface Stat {
  readonly state: string
  readonly parent: number
  readonly startTime: string
}

function hasEnded({ state }: Stat): boolean {
  return state === 'Z' || state === 'X'
}

/** Whether all threads have ended; false if that cannot be determined. */
function hasNoThreadLeft(pid: number, procfs: string): boolean {
  const folder = `${procfs}/${pid}/task`
  try {
    return readdirSync(folder).every((name) => {
      const stat = statOf(`${folder}/${name}`)
      return stat === null || hasEnded(stat)
    })
  } catch (error) {
    // Its parent has reaped it, and with that it is gone.
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

/** State and start time of a process or thread, from its folder in procfs; null if there is none. */
function statOf(folder: string): Stat | null {
  if (process.platform !== 'linux') return null
  return unlessRefused(() => parseStat(readFileSync(`${folder}/stat`, 'utf8')))
}

function parseStat(text: string): Stat {
  // The command name may contain spaces and parentheses: count fields after the last parenthesis.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0] ?? '', parent: Number(fields[1]), startTime: fields[19] ?? '' }
}

/** All running descendants of a process; empty if that cannot be determined. */
export function descendantsOf(pid: number): number[] {
  if (process.platform !== 'linux') return []
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const parent = statOf(`/proc/${name}`)?.parent
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  return withTheirs(pid, children)
}

function withTheirs(pid: number, children: ReadonlyMap<number, readonly number[]>): number[] {
  return (children.get(pid) ?? []).flatMap((child) => [child, ...withTheirs(child, children)])
}

function startTime(pid: number): string | null {
  if (process.platform === 'darwin') return commandOutput('ps', ['-o', 'lstart=', '-p', String(pid)])
  return statOf(`/proc/${pid}`)?.startTime ?? null
}

function bootId(): string {
  if (process.platform === 'linux') return readBootId()
  if (process.platform === 'darwin')
    return commandOutput('sysctl', ['-n', 'kern.bootsessionuuid']) ?? unknownBoot
  // One machine without containers: pids can be judged, and a restart shows in its awake time.
  return `a boot of ${process.platform}`
}

/** A sandbox may have no /proc, or one without this file. */
function readBootId(): string {
  return unlessRefused(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))?.trim() || unknownBoot
}

function pidNamespace(): string {
  return unlessRefused(() => readlinkSync('/proc/self/ns/pid')) ?? 'none'
}

function commandOutput(command: string, args: string[]): string | null {
  const run = () => execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  return unlessRefused(run)?.trim() || null
}
