/** The main thread's side of an engine that runs in a thread: commands go over, answers come back. */
import type { Worker } from 'node:worker_threads'
import { Listeners } from '../../engines/listeners.ts'
import type { OpenedEngine } from '../../engines/open.ts'
import { closedError, revive } from '../../errors.ts'
import { checkCommand } from '../../operations/decide.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { Command } from '../../port/command.ts'
import type { EngineOptions, StoreStatus } from '../../port/engine.ts'
import type { CaretakerOptions } from '../caretaker/caretaker.ts'
import type { CaretakerHandle } from '../caretaker/caretaker-handle.ts'
import type { Board } from '../lease/board.ts'
import type { EngineThreadData, FromEngine, ToEngine } from './engine-messages.ts'
import { SentCommands } from './sent-commands.ts'
import { notStarted, startThread } from './thread.ts'

const restartAfterMs = 1000
const hearingEveryMs = 500

/** How the caretaker was started: after the thread has died, it is started again the same way. */
interface StartedCaretaker {
  options: CaretakerOptions
  readonly board: Board
  readonly lost: (lease: LeaseRef) => void
  readonly rejoined: (instance: string) => void
}

export async function openThreaded(url: string, options: EngineOptions): Promise<ThreadedEngine> {
  const engine = new ThreadedEngine(url, options)
  await engine.begin()
  return engine
}

export class ThreadedEngine implements OpenedEngine {
  readonly #url: string
  readonly #options: EngineOptions
  readonly #commands = new SentCommands()
  readonly #listeners = new Listeners<number>()
  /** The bells that the thread reports to us. */
  readonly #listening = new Set<number>()
  #hearsRings = false
  #hearingAskedAt = Number.NEGATIVE_INFINITY
  #thread: Worker | null = null
  #status: StoreStatus | null = null
  #started: StartedCaretaker | null = null
  #onDismissed: () => void = () => {}
  /** Callers waiting to hear which instance this process continues as. */
  readonly #askingInstance = new Set<(instance: string | null) => void>()
  /** Restarts the thread after a pause; null while there is a thread or one is starting. */
  #restart: { readonly run: () => void; cancel: () => void } | null = null
  /** The caretaker has been told to stop: from here on somebody waits for the thread until it has ended. */
  #isLeaving = false
  #closed = false

  constructor(url: string, options: EngineOptions) {
    this.#url = url
    this.#options = options
  }

  get status(): StoreStatus {
    return this.#status as StoreStatus
  }

  async begin(): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => this.#start(resolve, reject))
    } catch (error) {
      throw notStarted('the thread of the engine', error)
    }
  }

  #start(opened: () => void, failed: (error: unknown) => void): void {
    const { mustExist, durability, busyTimeoutMs, patienceMs, manualGraceMs, healing } = this.#options
    // A restarted thread has leases to renew first, and heals later.
    const recoverOnOpen = this.#options.recoverOnOpen && this.#status === null
    const settings = { mustExist, durability, busyTimeoutMs, patienceMs, recoverOnOpen, manualGraceMs }
    const reclaims = healing?.reclaims ?? false
    const workerData: EngineThreadData = { url: this.#url, settings, reclaims }
    const file = new URL('./engine-thread.js', import.meta.url)
    const thread = startThread(file, { name: 'holdfast engine', workerData })
    let cause: unknown = 'its thread was ended'
    thread.on('message', (message: FromEngine) => {
      if (message.type === 'opened') {
        this.#thread = thread
        this.#status = message.status
        this.#letGo()
        // The store was closed while the thread was restarting.
        if (this.#closed) this.#post({ type: 'close', withinMs: 0 })
        opened()
      } else if (message.type === 'failed') cause = revive(message.error)
      else this.#hear(message)
    })
    thread.once('error', (error) => {
      cause = error
    })
    thread.once('exit', () => {
      if (this.#thread !== thread) return failed(cause)
      this.#thread = null
      this.#tellWhoAsked(null)
      this.#commands.loseSent(cause)
      if (!this.#closed) this.#startAgain(cause)
    })
  }

  /** The thread alone must not keep the program running; a caller waiting for an answer, or for its end, does. */
  #letGo(): void {
    const isAwaited = this.#commands.size + this.#askingInstance.size > 0
    if (isAwaited || this.#isLeaving || this.#closed) this.#thread?.ref()
    else this.#thread?.unref()
  }

  #startAgain(cause: unknown): void {
    const { environment, log } = this.#options
    log('warn', 'renew.failed', { error: String(cause) })
    const run = () => {
      this.#restart = null
      if (this.#closed) return
      this.#start(
        () => this.#restartCaretaker(),
        (error) => {
          this.#commands.refuseUnsent(this.status.location, error)
          this.#startAgain(error)
        },
      )
    }
    this.#restart = { run, cancel: environment.timer(restartAfterMs, run, this.#commands.size > 0) }
  }

  /** A command sent meanwhile waits for the new thread: the program must not end before that. */
  #waitForRestart(): void {
    if (this.#restart === null || this.#commands.size > 1) return
    this.#restart.cancel()
    this.#restart.cancel = this.#options.environment.timer(restartAfterMs, this.#restart.run, true)
  }

  #restartCaretaker(): void {
    for (const bell of this.#listening) this.#post({ type: 'listen', bell })
    // Rings in the meantime were not heard.
    for (const bell of this.#listeners.awaited) this.#listeners.call(bell)
    if (this.#started)
      this.#post({
        type: 'startCaretaker',
        options: this.#started.options,
        board: this.#started.board.buffer,
      })
    this.#flush()
  }

  #hear(message: FromEngine): void {
    switch (message.type) {
      case 'news':
        for (const answer of message.answers) this.#commands.answer(answer)
        this.#letGo()
        break
      case 'rung':
        this.#rung(message.bell)
        break
      case 'hearing':
        this.#hearsRings = message.hearsRings
        break
      case 'status':
        this.#status = message.status
        break
      case 'recovered':
        this.#options.healing?.done(message.report, message.ms)
        break
      case 'recoveryFailed':
        this.#options.healing?.failed(message.error, message.queue)
        break
      case 'cascadeFailed':
        this.#options.onCascadeFailed(message.error)
        break
      case 'lost':
        this.#started?.lost(message.lease)
        break
      case 'rejoined':
        this.#goOnAs(message.instance)
        break
      case 'instance':
        this.#tellWhoAsked(message.instance)
        break
      case 'caretakerStopped':
        this.#onDismissed()
        break
      case 'log':
        this.#options.log(message.level, message.name, message.facts)
        break
      default:
    }
  }

  #tellWhoAsked(instance: string | null): void {
    for (const tell of this.#askingInstance) tell(instance)
    this.#askingInstance.clear()
    this.#letGo()
  }

  #goOnAs(instance: string): void {
    if (!this.#started) return
    this.#started.options = { ...this.#started.options, instance }
    this.#started.rejoined(instance)
  }

  /** Whatever is sent after this reaches a thread that already listens: messages keep their order. */
  onRing(bell: number, listener: () => void): () => void {
    if (!this.#listening.has(bell)) {
      this.#listening.add(bell)
      this.#post({ type: 'listen', bell })
    }
    return this.#listeners.add(bell, listener)
  }

  /**
   * Stops listening when a bell rings and nobody listens, not when the last listener leaves: most come back at once.
   */
  #rung(bell: number): void {
    if (this.#listeners.has(bell)) this.#listeners.call(bell)
    else {
      this.#listening.delete(bell)
      this.#post({ type: 'ignore', bell })
    }
  }

  /** As of the thread's last answer. */
  get hearsRings(): boolean {
    const now = this.#options.environment.monotonic()
    if (now - this.#hearingAskedAt >= hearingEveryMs) {
      this.#hearingAskedAt = now
      this.#post({ type: 'hears' })
    }
    return this.#hearsRings && this.#thread !== null
  }

  execute(command: Command): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(closedError(this.status.location))
      // Here, not in the thread: only the object itself knows its JSON form; the copy in the thread would have lost it.
      const isFirst = this.#commands.add(checkCommand(command), { resolve, reject })
      this.#waitForRestart()
      // Everything asked in this turn of the event loop goes over as one message and into one batch. Sent at the end of
      // the turn, because a worker that finishes an item asks for the next one a few steps later.
      if (isFirst) setImmediate(() => this.#flush())
    })
  }

  #flush(): void {
    if (this.#thread === null) return
    const asked = this.#commands.take()
    if (asked.length === 0) return
    this.#letGo()
    this.#post({ type: 'execute', asked })
  }

  #post(message: ToEngine): void {
    this.#thread?.postMessage(message)
  }

  /** Runs the caretaker in the engine's thread. */
  startCaretaker(started: StartedCaretaker): CaretakerHandle {
    this.#started = started
    started.board.onEarlierDuty(() => this.#post({ type: 'wake' }))
    this.#post({ type: 'startCaretaker', options: started.options, board: started.board.buffer })
    return { stop: () => this.#stopCaretaker(), rejoin: () => this.#rejoin(started) }
  }

  async #stopCaretaker(): Promise<void> {
    this.#started = null
    this.#isLeaving = true
    if (this.#thread === null) return
    const caretakerStopped = new Promise<void>((resolve) => {
      this.#onDismissed = resolve
      this.#thread?.once('exit', () => resolve())
    })
    this.#letGo()
    this.#post({ type: 'stopCaretaker' })
    await caretakerStopped
  }

  async #rejoin(started: StartedCaretaker): Promise<string> {
    if (this.#thread === null) return started.options.instance
    const answer = new Promise<string | null>((resolve) => this.#askingInstance.add(resolve))
    this.#letGo()
    this.#post({ type: 'rejoin' })
    return (await answer) ?? started.options.instance
  }

  async close(withinMs?: number): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const thread = this.#thread
    if (thread === null)
      return this.#commands.refuseUnsent(this.status.location, new Error('the store was closed'))
    const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
    this.#letGo()
    this.#post({ type: 'close', withinMs })
    await ended
  }
}
