/**
 * Everything that is not a function of its input: time, randomness, timers and what the host knows about
 * processes. The real one is `systemEnvironment` in `host/`; tests move one of their own, and the
 * simulator owns one. Nobody else reads a clock.
 */
import type { KernelTimes, SignsOfLife } from './domain/boot.ts'
import type { ProcessIdentity } from './domain/instance.ts'
import type { ProberRecord } from './domain/prober.ts'

export interface Environment {
  /** Wall time, ms since 1970. Serves `runAt`, retention and display; never a lease. */
  now(): number
  /** Awake time of this host, ms: one base for all processes of a boot, unmoved by NTP and by suspend. */
  monotonic(): number
  /** Time since boot including suspend, ms. */
  uptime(): number
  /** Calls `run` once after `ms`; the returned function cancels. Keeps the process alive only if told so. */
  timer(ms: number, run: () => void, keepsAlive?: boolean): () => void
  /** A number in [0, 1). */
  random(): number
  /** A fresh unique id that sorts by time of making. */
  id(): string
  readonly host: Host
  /** True when functions of this environment cannot be re-made in a thread (tests, simulator). */
  readonly isLocal: boolean
  /**
   * Everything an engine asks of the world outside (a query to a server) passes through here and comes back as it
   * is. An environment whose time stands still learns so that something is under way. Absent in production.
   */
  outside?<Result>(work: Promise<Result>): Promise<Result>
  /** Where connections go that an engine would close, to serve the next that is opened. Absent in production. */
  readonly spares?: Spares
  /** Told every answer of an engine that was opened in this environment. Absent in production. */
  readonly answered?: (operation: string, answer: unknown) => void
  /** Called at named points; lets a test stop or kill the process there. Absent in production. */
  readonly reached?: (point: string) => void
}

/** Connections that nobody uses at the moment, by what they are good for. */
export interface Spares {
  take(use: string): Spare | null
  keep(use: string, spare: Spare): void
}

export interface Spare {
  readonly isOpen: boolean
  close(): Promise<void>
}

export type Liveness = 'alive' | 'dead' | 'unknown'

export interface Verdict {
  readonly liveness: Liveness
  /** How we know, in words an operator can check. */
  readonly evidence: string
  /** It died with its machine, which was restarted since. */
  readonly isReboot?: true
  /** It is there, but somebody stopped it (SIGSTOP, Ctrl-Z). */
  readonly isStopped?: true
}

export interface Host {
  readonly identity: ProcessIdentity
  /** Who another process of this machine is; null when there is none under this pid. */
  identify(pid: number): ProcessIdentity | null
  /** This machine's start and awake time. */
  kernel(): KernelTimes
  /** Judges another process; 'unknown' whenever there is doubt. A local store proves more: see `host/process.ts`. */
  judge(other: ProcessIdentity & SignsOfLife, storeIsLocal: boolean): Verdict
  /** Shows processes of this machine that one it knows runs here too. */
  leaveMark(process: ProcessIdentity): void
  /** Shows the same of this process itself, while it has a store open. */
  readonly ownMark: OwnMark
  /** Where processes agree on who looks for dead holders in a store. Absent where each looks for itself. */
  proberSeat?(store: string): ProberSeat
  /** Name of the network file system a path lies on, or null when it is local. */
  networkFileSystem(path: string): string | null
  /** Type of a file system that a program provides (FUSE, virtiofs), unless it is known to be a network's. */
  userFileSystem(path: string): string | null
  /** Whether something is mounted at exactly this path. */
  isMountPoint(path: string): boolean
}

export interface ProberSeat {
  /** Null where nobody has it. */
  read(): ProberRecord | null
  /** False where nobody can have it. */
  write(record: ProberRecord): boolean
  /** Nobody has it, unless somebody else does. */
  leave(id: string): void
  /** Whether the process behind the record runs. */
  isAble(record: ProberRecord): boolean
  close(): void
}

interface OwnMark {
  /** Answers why nobody can judge this process, or null. */
  enter(self: ProcessIdentity): string | null
  refresh(self: ProcessIdentity): void
  leave(self: ProcessIdentity): void
}

/**
 * A promise that resolves after `ms` of the environment's time, or at once when the signal fires. The process stays
 * alive meanwhile: somebody waits for what comes after.
 */
export function pause(environment: Environment, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const finish = () => {
      cancel()
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const cancel = environment.timer(ms, finish, true)
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/** False when the work takes longer; it goes on then, and nobody hears whether it failed. */
export async function settlesWithin(
  environment: Environment,
  ms: number,
  work: Promise<unknown>,
): Promise<boolean> {
  const over = new AbortController()
  const late = pause(environment, ms, over.signal).then(() => false)
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    over.abort()
  }
}
