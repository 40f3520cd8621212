/**
 * Signals that reach `run`: as long as it waits they end the wait, later they belong to its command. Heard from the
 * first moment to the last, because one that comes in between would end `run` and leave its command behind.
 */
import { Interrupted } from './interrupt.ts'

const stopping = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
const others = ['SIGUSR2', 'SIGWINCH'] as const
type Stopping = (typeof stopping)[number]
type Passed = Stopping | (typeof others)[number]

/** The terminal sends these to everybody in the foreground, the command included. */
const fromTerminal: readonly Passed[] = ['SIGINT', 'SIGQUIT', 'SIGWINCH']

export class SignalRelay {
  /** Somebody wants the command to end; how it ends then is nobody's failure. */
  wasStopped = false
  readonly #interrupted = new AbortController()
  readonly #sharesTerminal: boolean
  readonly #listeners: readonly { readonly signal: Passed; readonly hear: () => void }[]
  #send: ((signal: Passed) => void) | null = null

  constructor(sharesTerminal: boolean) {
    this.#sharesTerminal = sharesTerminal
    this.#listeners = [...stopping, ...others].map((signal) => ({ signal, hear: () => this.#hear(signal) }))
    for (const { signal, hear } of this.#listeners) process.on(signal, hear)
  }

  /** Fires when a signal comes before there is a command. */
  get interrupted(): AbortSignal {
    return this.#interrupted.signal
  }

  passTo(send: (signal: Passed) => void): void {
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
}

function isStopping(signal: Passed): signal is Stopping {
  return (stopping as readonly string[]).includes(signal)
}
