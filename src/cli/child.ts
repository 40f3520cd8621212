/**
 * The command that `run` runs, in a process group of its own where no terminal is shared with it. A guard stands by:
 * a small shell that hears when `run` itself is gone, killed without a chance to say so, and then stops the command,
 * whose lease is lost in the same moment.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
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
kill -TERM -- "$target" 2>/dev/null || exit 0
while [ "$grace" -gt 0 ] && kill -0 -- "$target" 2>/dev/null; do
  sleep 1
  grace=$((grace - 1))
done
kill -KILL -- "$target" 2>/dev/null`

export class Child {
  readonly ended: Promise<Ending>
  readonly #process: ChildProcess
  readonly #guard: ChildProcess | null
  readonly #options: ChildOptions
  #isOver = false

  constructor(options: ChildOptions) {
    this.#options = options
    this.#guard = startGuard()
    this.#process = spawn(options.command, [...options.args], {
      stdio: 'inherit',
      detached: !options.sharesTerminal,
      env: options.env,
      cwd: options.cwd,
    })
    const { pid } = this.#process
    if (pid !== undefined)
      this.#guard?.stdin?.write(`${this.#target(pid)}\n${Math.ceil(options.graceMs / 1000)}\n`)
    this.ended = new Promise<Ending>((resolve, reject) => {
      this.#process.once('error', (cause: NodeJS.ErrnoException) =>
        reject(notStarted(options.command, cause)),
      )
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
    const { pid } = this.#process
    if (pid === undefined || this.#isOver) return
    const others = this.#options.sharesTerminal ? descendantsOf(pid) : []
    for (const target of [this.#target(pid), ...others]) {
      try {
        process.kill(target, signal)
      } catch {
        // It has ended meanwhile.
      }
    }
  }

  /** TERM, and after a while KILL; resolves when it has ended. */
  async stop(): Promise<void> {
    this.send('SIGTERM')
    const ended = new AbortController()
    const over = this.ended.catch(() => null).then(() => ended.abort())
    await pause(systemEnvironment, this.#options.graceMs, ended.signal)
    this.send('SIGKILL')
    await over
  }
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
    next: 'check the command behind --; what was claimed for it was given back',
    facts: { command },
    cause,
  })
}

/** As a shell tells it: the code, or 128 and the number of the signal. */
export function exitCodeOfEnding({ code, signal }: Ending): number {
  if (signal !== null) return 128 + constants.signals[signal]
  return code ?? 1
}
