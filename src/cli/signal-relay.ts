/**
 * Signals that reach `run`: as long as it waits they end the wait, later they belong to its command. Heard from the
 * first moment to the last, because one that comes in between would end `run` and leave its command behind.
 */
import { Interrupted } from './interrupt.ts'

const stopping = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
const others = ['SIGUSR2', 'SIGWINCH'] as const
/** A terminal stops everybody in the foreground by itself. Off it the command would go on while nobody renews. */
const pausing = ['SIGTSTP', 'SIGCONT'] as const
type Stopping = (typeof stopping)[number]
type Pausing = (typeof pausing)[number]
type Passed = Stopping | (typeof others)[number]
type Heard = Passed | Pausing
/** In a group without a shell that could let it go on, TSTP would not be heard. */
type Sent = Passed | 'SIGSTOP' | 'SIGCONT'

/** The terminal sends these to everybody in the foreground, the command included. */
const fromTerminal: readonly Passed[] = ['SIGINT', 'SIGQUIT', 'SIGWINCH']

export class SignalRelay {
  /** Somebody wants the command to end; how it ends then is nobody's failure. */
  wasStopped = false
  readonly #interrupted = new AbortController()
  readonly #sharesTerminal: boolean
  readonly #listeners: readonly { readonly signal: Heard; readonly hear: () => void }[]
  #send: ((signal: Sent) => void) | null = null

  constructor(sharesTerminal: boolean) {
    this.#sharesTerminal = sharesTerminal
    this.#listeners = [
      ...[...stopping, ...others].map((signal) => ({ signal, hear: () => this.#hear(signal) })),
      ...(sharesTerminal ? [] : pausing).map((signal) => ({ signal, hear: () => this.#pauseOrGoOn(signal) })),
    ]
    for (const { signal, hear } of this.#listeners) process.on(signal, hear)
  }

  /** Fires when a signal comes before there is a command. */
  get interrupted(): AbortSignal {
    return this.#interrupted.signal
  }

  passTo(send: (signal: Sent) => void): void {
    this.#send = send
  }

  end(): void {
    for (const { signal, hear } of this.#listeners) process.off(signal, hear)
  }

  #hear(signal: Passed): void {
    const stops = isStopping(signal)
    if (stops) this.wasStopped = true
    if (this.#send === null) {
      if (stops) this.#interrupted.abort(new Interrupted(signal))
    } else if (!this.#sharesTerminal || !fromTerminal.includes(signal)) this.#send(signal)
  }

  /** The command first: once we are stopped, we cannot. */
  #pauseOrGoOn(signal: Pausing): void {
    this.#send?.(signal === 'SIGCONT' ? signal : 'SIGSTOP')
    if (signal === 'SIGTSTP') process.kill(process.pid, 'SIGSTOP')
  }
}

function isStopping(signal: Passed): signal is Stopping {
  return (stopping as readonly string[]).includes(signal)
}
