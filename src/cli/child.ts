/**
 * The command that `run` runs, in a process group of its own where no terminal is shared with it. A guard stands by:
 * a small shell that hears when `run` itself is gone, killed without a chance to say so, and then stops the command,
 * whose lease is lost in the same moment.
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

export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ChildOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  /** Between TERM and KILL. */
  readonly graceMs: number
  /** It shares our terminal, so it stays in our group: in a session of its own it would lose the terminal. */
  readonly sharesTerminal: boolean
}

/**
 * Reads first whom to stop, then whether all is well. The end of the pipe without a word means that `run` is gone.
 * It hears no signal itself, and sits in a session of its own: what ends `run` must not end it.
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

/** Becomes the command once it is let go; where `run` is gone before that, it ends without having done anything. */
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
    // Held back until the guard knows whom to stop: a kill -9 in between would leave the command behind.
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
    // It may have been stopped before it was let go.
    gate?.on('error', () => {})
    gate?.end('go\n')
    this.ended = new Promise<Ending>((resolve, reject) => {
      this.#process.once('error', (cause: NodeJS.ErrnoException) => reject(notStarted(command, cause)))
      this.#process.once('exit', (code, signal) => resolve({ code, signal }))
    }).finally(() => this.#over())
    // Waited for later; meanwhile a failure to start must not end the program.
    this.ended.catch(() => {})
  }

  /** A negative number means the whole group. */
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
        // It has ended meanwhile.
      }
    }
  }

  /** TERM, and after a while KILL; resolves when it has ended, and what is left of its group is killed. */
  async stop(): Promise<void> {
    const killAt = systemEnvironment.monotonic() + this.#options.graceMs
    this.send('SIGTERM')
    const ended = new AbortController()
    const over = this.ended.catch(() => null).then(() => ended.abort())
    await pause(systemEnvironment, this.#options.graceMs, ended.signal)
    this.send('SIGKILL')
    await over
    // What it started has as long, and nobody tells of its end.
    while (this.#hasGroup() && systemEnvironment.monotonic() < killAt)
      await pause(systemEnvironment, lookEveryMs)
    if (this.#hasGroup()) this.#send('SIGKILL')
  }

  /** On a terminal its group is ours. */
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

/** Some shells pass on no variable whose name they could not write; then the command is started without one. */
function isKeptByShells(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
}

function startGuard(): ChildProcess | null {
  if (process.platform === 'win32') return null
  const guard = spawn('/bin/sh', ['-c', guardScript], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  // Without it the command still runs; only a kill -9 of `run` would leave it behind.
  guard.on('error', () => {})
  guard.stdin?.on('error', () => {})
  guard.unref()
  return guard
}

/** What a shell says: 127 when there is no such command, 126 when it cannot be run. */
export class NotStartedError extends HoldfastError {
  override get exitCode(): number {
    return (this.cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT' ? 127 : 126
  }
}

function notStarted(command: string, cause: NodeJS.ErrnoException): NotStartedError {
  return new NotStartedError('INVALID', {
    what: `${command} cannot be started`,
    next: 'check the command behind --; nothing is held for it',
    facts: { command },
    cause,
  })
}

/** What a shell would look for, before anything is claimed for it. */
export function assertStartable({ command, env, cwd }: Pick<ChildOptions, 'command' | 'env' | 'cwd'>): void {
  const isPath = command.includes('/')
  const folders = isPath ? [''] : (env.PATH ?? '').split(delimiter)
  const paths = folders.map((folder) => resolve(cwd, folder, command))
  const found = paths.filter((path) => statOf(path)?.isFile() === true)
  if (found.some(isExecutable)) return
  // Along the path a folder of that name is passed over.
  const isFolder = isPath && paths.some((path) => statOf(path)?.isDirectory() === true)
  const [code, why] = isFolder ? ['EISDIR', 'it is a folder'] : unfitness(found)
  throw notStarted(command, Object.assign(new Error(why), { code }))
}

function unfitness(found: readonly string[]): [code: string, why: string] {
  return found.length === 0 ? ['ENOENT', 'there is no such command'] : ['EACCES', 'it may not be executed']
}

function statOf(path: string): Stats | null {
  try {
    return statSync(path)
  } catch {
    // Not there, or in a folder nobody may look into.
    return null
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** As a shell tells it: the code, or 128 and the number of the signal. */
export function exitCodeOfEnding({ code, signal }: Ending): number {
  if (signal !== null) return 128 + osConstants.signals[signal]
  return code ?? 1
}
