/**
 * Handles the signals sent to `run`. While it waits, they end the wait; afterwards they are passed to its command. The
 * handlers are installed for the whole time, because a signal in a gap would end `run` and orphan its command.
 */
import { constants } from 'node:os'
import { isStopHeeded, type StopSignal } from '../domain/stop-request.ts'
import { systemEnvironment } from '../host/system.ts'
import type { Ending } from './child.ts'
import { Interrupted } from './interrupt.ts'
import { Witness } from './witness.ts'

const stopping = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const satisfies StopSignal[]
/**
 * The other signals that can be caught and would end `run` (USR1 would start Node's debugger instead), except those
 * that report a fault in the process itself.
 */
const others = [
  'SIGUSR1',
  'SIGUSR2',
  'SIGALRM',
  'SIGVTALRM',
  'SIGPROF',
  'SIGIO',
  'SIGPWR',
  'SIGSTKFLT',
  'SIGXCPU',
  'SIGWINCH',
] as const
/**
 * A terminal stops the whole foreground group by itself. Without one, the command would keep running while nothing
 * renews its lease.
 */
const pausing = ['SIGTSTP', 'SIGCONT'] as const
type Pausing = (typeof pausing)[number]
type Passed = StopSignal | (typeof others)[number]
type Heard = Passed | Pausing
/** STOP instead of TSTP, which has no effect in a process group without a shell that could resume it. */
type Sent = Passed | 'SIGSTOP' | 'SIGCONT'

export class SignalRelay {
  readonly #askedAt = new Map<StopSignal, number>()
  readonly #passed = new Set<NodeJS.Signals>()
  readonly #interrupted = new AbortController()
  readonly #sharesTerminal: boolean
  readonly #listeners: readonly { readonly signal: Heard; readonly hear: () => void }[]
  #send: ((signal: Sent) => void) | null = null
  #witness: Witness | null = null

  constructor(sharesTerminal: boolean) {
    this.#sharesTerminal = sharesTerminal
    const heard = [...stopping, ...others].filter((signal) => signal in constants.signals)
    this.#listeners = [
      ...heard.map((signal) => ({ signal, hear: () => this.#hear(signal) })),
      ...(sharesTerminal ? [] : pausing).map((signal) => ({ signal, hear: () => this.#pauseOrGoOn(signal) })),
    ]
    for (const { signal, hear } of this.#listeners) process.on(signal, hear)
  }

  /** Fires when a signal arrives before there is a command. */
  get interrupted(): AbortSignal {
    return this.#interrupted.signal
  }

  /** Whether the command, which has just ended, did so because it was asked to, successfully or not. */
  hasStopped({ signal }: Ending): boolean {
    const wasPassed = signal !== null && this.#passed.has(signal)
    return wasPassed || isStopHeeded(this.#askedAt, systemEnvironment.monotonic())
  }

  /** Call before the command starts: the witness must be there for keys typed as soon as the command runs. */
  expectCommand(): void {
    if (this.#sharesTerminal) this.#witness = new Witness()
  }

  passTo(send: (signal: Sent) => void): void {
    this.#send = send
  }

  end(): void {
    this.#witness?.end()
    for (const { signal, hear } of this.#listeners) process.off(signal, hear)
  }

  #hear(signal: Passed): void {
    const stops = isStopping(signal)
    if (stops) this.#askedAt.set(signal, systemEnvironment.monotonic())
    if (this.#send !== null) void this.#pass(signal)
    else if (stops) this.#interrupted.abort(new Interrupted(signal))
  }

  /** Skips what the terminal sent to the whole foreground group: the command has already received it. */
  async #pass(signal: Passed): Promise<void> {
    if (this.#sharesTerminal && signal === 'SIGWINCH') return
    if (signal === 'SIGINT' || signal === 'SIGQUIT') {
      if (await this.#witness?.heard(signal)) return
    }
    this.#passed.add(signal)
    this.#send?.(signal)
  }

  /** Stops the command first: once we are stopped, we no longer can. */
  #pauseOrGoOn(signal: Pausing): void {
    this.#send?.(signal === 'SIGCONT' ? signal : 'SIGSTOP')
    if (signal === 'SIGTSTP') process.kill(process.pid, 'SIGSTOP')
  }
}

function isStopping(signal: Passed): signal is StopSignal {
  return (stopping as readonly string[]).includes(signal)
}
