/**
 * The command that `run` runs, in its own process group unless it shares our terminal. If `run` itself is killed with
 * no chance to clean up, its lease is lost at once, so a guard stops the command: a small shell that notices when `run`
 * is gone.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, type Stats, statSync } from 'node:fs'
import { constants as osConstants } from 'node:os'
import { delimiter, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { pause } from '../environment.ts'
import { HoldfastError } from '../errors.ts'
import { descendantsOf } from '../host/process.ts'
import { systemEnvironment } from '../host/system.ts'
import { unlessRefused } from '../host/unless-refused.ts'

export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ChildOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  /** Time between TERM and KILL. */
  readonly graceMs: number
  /** It shares our terminal, so it stays in our process group: in its own session it would lose the terminal. */
  readonly sharesTerminal: boolean
}

/**
 * First reads what to stop and the grace period, then waits for a word. If the pipe closes without one, `run` is gone.
 * Ignores signals and runs in its own session: whatever ends `run` must not end the guard.
 */
const guardScript = `trap '' INT TERM HUP QUIT TSTP
read -r target && read -r grace || exit 0
read -r word && exit 0
kill -s TERM -- "$target" 2>/dev/null || exit 0
while [ "$grace" -gt 0 ] && kill -s 0 -- "$target" 2>/dev/null; do
  sleep 1
  grace=$((grace - 1))
done
kill -s KILL -- "$target" 2>/dev/null`

/** Waits for the go-ahead, then execs the command. If `run` dies before that, exits without running anything. */
const heldBack = 'read -r go <&3 && exec 3<&- "$@"'

const lookEveryMs = 50

export class Child {
  readonly ended: Promise<Ending>
  readonly #process: ChildProcess
  readonly #guard: ChildProcess | null
  readonly #options: ChildOptions
  #isOver = false

  constructor(options: ChildOptions) {
    this.#options = options
    this.#guard = startGuard()
    const { command, args, env, cwd, sharesTerminal, graceMs } = options
    // Held back until the guard knows what to stop. Otherwise a kill -9 of `run` in between would orphan the command.
    const isHeldBack = this.#guard !== null && Object.keys(env).every(isKeptByShells)
    const [program, words] = isHeldBack
      ? ['/bin/sh', ['-c', heldBack, 'sh', command, ...args]]
      : [command, args]
    try {
      this.#process = spawn(program, [...words], {
        stdio: ['inherit', 'inherit', 'inherit', ...(isHeldBack ? ['pipe' as const] : [])],
        detached: !sharesTerminal,
        env,
        cwd,
      })
    } catch (cause) {
      this.#guard?.stdin?.end()
      throw notStarted(command, cause as NodeJS.ErrnoException)
    }
    const { pid } = this.#process
    if (pid !== undefined) this.#guard?.stdin?.write(`${this.#target(pid)}\n${Math.ceil(graceMs / 1000)}\n`)
    const gate = this.#process.stdio[3] as Writable | null | undefined
    // It may have been killed before the go-ahead.
    gate?.on('error', () => {})
    gate?.end('go\n')
    this.ended = new Promise<Ending>((resolve, reject) => {
      this.#process.once('error', (cause: NodeJS.ErrnoException) => reject(notStarted(command, cause)))
      this.#process.once('exit', (code, signal) => resolve({ code, signal }))
    }).finally(() => this.#over())
    // Awaited later. Until then, a failure to start must not crash us as an unhandled rejection.
    this.ended.catch(() => {})
  }

  /** A negative number means the whole process group. */
  #target(pid: number): number {
    return this.#options.sharesTerminal ? pid : -pid
  }

  #over(): void {
    this.#isOver = true
    this.#guard?.stdin?.end('over\n')
  }

  send(signal: NodeJS.Signals): void {
    if (!this.#isOver) this.#send(signal)
  }

  #send(signal: NodeJS.Signals): void {
    const { pid } = this.#process
    if (pid === undefined) return
    const others = this.#options.sharesTerminal ? descendantsOf(pid) : []
    for (const target of [this.#target(pid), ...others]) {
      try {
        process.kill(target, signal)
      } catch {
        // It has already ended.
      }
    }
  }

  /** Sends TERM, then KILL after the grace period. Resolves once it has ended and the rest of its group is killed. */
  async stop(): Promise<void> {
    const killAt = systemEnvironment.monotonic() + this.#options.graceMs
    this.send('SIGTERM')
    const ended = new AbortController()
    const over = this.ended.catch(() => null).then(() => ended.abort())
    await pause(systemEnvironment, this.#options.graceMs, ended.signal)
    this.send('SIGKILL')
    await over
    // Its descendants get the same grace period. Nothing signals their end, so poll.
    while (this.#hasGroup() && systemEnvironment.monotonic() < killAt)
      await pause(systemEnvironment, lookEveryMs)
    if (this.#hasGroup()) this.#send('SIGKILL')
  }

  /** Always false on a terminal, where its process group is ours. */
  #hasGroup(): boolean {
    const { pid } = this.#process
    if (pid === undefined || this.#options.sharesTerminal) return false
    try {
      return process.kill(-pid, 0)
    } catch {
      return false
    }
  }
}

/** Some shells drop variables whose names are not valid identifiers. If there is one, no shell starts the command. */
function isKeptByShells(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
}

/**
 * Null where there is no shell, as in some containers. The command runs without a guard too; only a kill -9 of `run`
 * would then orphan it.
 */
function startGuard(): ChildProcess | null {
  if (process.platform === 'win32') return null
  const guard = spawn('/bin/sh', ['-c', guardScript], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  guard.on('error', () => {})
  guard.stdin?.on('error', () => {})
  guard.unref()
  return guard.pid === undefined ? null : guard
}

/** Exits as a shell would: 127 when there is no such command, 126 when it cannot be run. */
export class NotStartedError extends HoldfastError {
  override get exitCode(): number {
    return (this.cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT' ? 127 : 126
  }
}

function notStarted(command: string, cause: NodeJS.ErrnoException): NotStartedError {
  return new NotStartedError('INVALID', {
    what: `${command} cannot be started`,
    next: 'check the command after --; nothing is held for it',
    facts: { command },
    cause,
  })
}

/** Looks the command up as a shell would, so that a typo is refused before anything is claimed. */
export function assertStartable({ command, env, cwd }: Pick<ChildOptions, 'command' | 'env' | 'cwd'>): void {
  const isPath = command.includes('/')
  const folders = isPath ? [''] : (env.PATH ?? '').split(delimiter)
  const paths = folders.map((folder) => resolve(cwd, folder, command))
  const found = paths.filter((path) => statOf(path)?.isFile() === true)
  if (found.some(isExecutable)) return
  // In a search along PATH, a folder of that name is skipped.
  const isFolder = isPath && paths.some((path) => statOf(path)?.isDirectory() === true)
  const [code, why] = isFolder ? ['EISDIR', 'it is a folder'] : unfitness(found)
  throw notStarted(command, Object.assign(new Error(why), { code }))
}

function unfitness(found: readonly string[]): [code: string, why: string] {
  return found.length === 0 ? ['ENOENT', 'there is no such command'] : ['EACCES', 'it is not executable']
}

function statOf(path: string): Stats | null {
  return unlessRefused(() => statSync(path))
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** As a shell reports it: the exit code, or 128 plus the number of the signal. */
export function exitCodeOfEnding({ code, signal }: Ending): number {
  if (signal !== null) return 128 + osConstants.signals[signal]
  return code ?? 1
}
