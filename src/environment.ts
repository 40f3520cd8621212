/**
 * Everything that is not a function of its input: time, randomness, timers, and what the host knows about processes.
 * The real one is `systemEnvironment` in `host/`. Tests use one whose clock they move, and the simulator has its own.
 * Nothing else reads a clock.
 */
import { onAbort } from './abort.ts'
import type { KernelTimes, SignsOfLife } from './domain/boot.ts'
import type { ProcessIdentity } from './domain/instance.ts'
import type { ProberRecord } from './domain/prober.ts'

/** The outside world as Holdfast sees it. */
export interface Environment {
  /** Wall time, ms since 1970. For `runAt`, retention and display; never for leases. */
  now(): number
  /** Awake time of this host, ms: the same clock for all processes since boot, unaffected by NTP and by suspend. */
  monotonic(): number
  /** Time since boot, including suspend, ms. */
  uptime(): number
  /**
   * Calls `run` once after `ms`; the returned function cancels it. Keeps the process alive only if `keepsAlive` is
   * true.
   */
  timer(ms: number, run: () => void, keepsAlive?: boolean): () => void
  /** A number in [0, 1). */
  random(): number
  /** A new unique id; ids sort by creation time. */
  id(): string
  readonly host: Host
  /** True when the functions of this environment cannot be recreated in a thread (tests, simulator). */
  readonly isLocal: boolean
  /**
   * Every request an engine makes to the outside world, such as a query to a server, passes through here and is
   * returned unchanged. This is how an environment with a stopped clock learns that something is under way. Absent in
   * production.
   */
  outside?<Result>(work: Promise<Result>): Promise<Result>
  /**
   * Takes connections that an engine would otherwise close, to reuse them for the next one that is opened. Absent in
   * production.
   */
  readonly spares?: Spares
  /** Called with every answer of an engine that was opened in this environment. Absent in production. */
  readonly answered?: (operation: string, answer: unknown) => void
  /** Called at named points, so that a test can stop or kill the process there. Absent in production. */
  readonly reached?: (point: string) => void
}

/** Idle connections, by what they can be used for. */
export interface Spares {
  take(use: string): Spare | null
  keep(use: string, spare: Spare): void
}

/** An idle connection. */
export interface Spare {
  readonly isOpen: boolean
  close(): Promise<void>
}

/** Whether a process is alive: `unknown` whenever there is any doubt. */
export type Liveness = 'alive' | 'dead' | 'unknown'

/** What is known about a process, and how. */
export interface Verdict {
  readonly liveness: Liveness
  /** How we know, in words an operator can check. */
  readonly evidence: string
  /** It died with its machine, which has been restarted since. */
  readonly isReboot?: true
  /** It exists, but somebody stopped it (SIGSTOP, Ctrl-Z). */
  readonly isStopped?: true
}

/** What this machine knows about processes and file systems. */
export interface Host {
  readonly identity: ProcessIdentity
  /** The identity of another process on this machine; null when there is none with this pid. */
  identify(pid: number): ProcessIdentity | null
  /** When this machine was started, and how long it has been awake. */
  kernel(): KernelTimes
  /**
   * Judges another process; 'unknown' whenever there is doubt. With a local store, more can be proven: see
   * `host/process.ts`.
   */
  judge(other: ProcessIdentity & SignsOfLife, storeIsLocal: boolean): Verdict
  /** Leaves a mark by which other processes of this machine can see that a given process runs here too. */
  leaveMark(process: ProcessIdentity): void
  /** The same for this process itself, while it has a store open. */
  readonly ownMark: OwnMark
  /** Where processes agree which of them looks for dead holders in a store. Absent where each looks for itself. */
  proberSeat?(store: string): ProberSeat
  /** Name of the network file system that a path is on; null when it is local. */
  networkFileSystem(path: string): string | null
  /**
   * Type of a file system that is provided by a program (FUSE, virtiofs), unless it is known to be a network file
   * system.
   */
  userFileSystem(path: string): string | null
  /** Whether something is mounted at exactly this path. */
  isMountPoint(path: string): boolean
}

/** A record that says which process looks for dead holders. */
export interface ProberSeat {
  /** Null when no process has the seat. */
  read(): ProberRecord | null
  /** False where no process can have it. */
  write(record: ProberRecord): boolean
  /** Lets the others notice at once when this process, which has the seat, ends. `former`: who had it until now. */
  serve(id: string, former: ProberRecord | null): void
  /**
   * Whether the end of the process in the record will be noticed: then `gone` is called, once, and also when it gives up
   * the seat. Ask again a little later if not: connecting takes a while. Where it never works, use `isAble`.
   */
  watch(record: ProberRecord, gone: () => void): boolean
  /** Gives up the seat, unless another process has it. */
  leave(id: string): void
  /** Whether the process in the record is able to look: alive and not stopped. */
  isAble(record: ProberRecord): boolean
  close(): void
}

interface OwnMark {
  /** Returns why nobody can judge this process, or null. */
  enter(self: ProcessIdentity): string | null
  refresh(self: ProcessIdentity): void
  leave(self: ProcessIdentity): void
}

/**
 * Resolves after `ms` of the environment's time, or as soon as the signal fires. Keeps the process alive meanwhile,
 * because somebody is waiting for what comes next.
 */
export function pause(environment: Environment, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const finish = () => {
      cancel()
      unheard()
      resolve()
    }
    const cancel = environment.timer(ms, finish, true)
    const unheard = onAbort(signal, finish)
  })
}

/** False when the work takes longer than `ms`. It then continues, and nobody learns whether it failed. */
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
