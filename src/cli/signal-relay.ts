/**
 * Signals that reach `run`: as long as it waits they end the wait, later they belong to its command. Heard from the
 * first moment to the last, because one that comes in between would end `run` and leave its command behind.
 */
import { constants } from 'node:os'
import type { Ending } from './child.ts'
import { Interrupted } from './interrupt.ts'
import { Witness } from './witness.ts'

const stopping = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
/**
 * Whatever else can be heard and would end `run`; USR1 would open Node's debugger instead. Not those that tell of a
 * fault in the process itself.
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
/** A terminal stops everybody in the foreground by itself. Off it the command would go on while nobody renews. */
const pausing = ['SIGTSTP', 'SIGCONT'] as const
type Stopping = (typeof stopping)[number]
type Pausing = (typeof pausing)[number]
type Passed = Stopping | (typeof others)[number]
type Heard = Passed | Pausing
/** In a group without a shell that could let it go on, TSTP would not be heard. */
type Sent = Passed | 'SIGSTOP' | 'SIGCONT'

export class SignalRelay {
  /** Somebody wants the command to end; how it ends then is nobody's failure. */
  #wasStopped = false
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

  /** Fires when a signal comes before there is a command. */
  get interrupted(): AbortSignal {
    return this.#interrupted.signal
  }

  /** Whether the command ended because somebody wanted it to, well or not. */
  hasStopped({ signal }: Ending): boolean {
    return this.#wasStopped || (signal !== null && this.#passed.has(signal))
  }

  /** Before the command is started: what is typed as soon as that runs must have a witness. */
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
    if (stops) this.#wasStopped = true
    if (this.#send !== null) void this.#pass(signal)
    else if (stops) this.#interrupted.abort(new Interrupted(signal))
  }

  /** What a terminal sends to everybody in the foreground has reached the command by itself. */
  async #pass(signal: Passed): Promise<void> {
    if (this.#sharesTerminal && signal === 'SIGWINCH') return
    if (signal === 'SIGINT' || signal === 'SIGQUIT') {
      if (await this.#witness?.heard(signal)) return
    }
    this.#passed.add(signal)
    this.#send?.(signal)
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
