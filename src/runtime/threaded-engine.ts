/** The main thread's side of an engine that lives in a thread: commands go over, answers come back. */
import { Worker } from 'node:worker_threads'
import type { Command, EngineOptions, StoreStatus } from '../engines/engine.ts'
import type { OpenedEngine } from '../engines/open.ts'
import { unavailable } from '../engines/postgres/classify.ts'
import { closedError, HoldfastError, revive } from '../errors.ts'
import { prepare } from '../operations/decide.ts'
import type { LeaseRef } from '../operations/lease.ts'
import type { Board } from './board.ts'
import type { CaretakerOptions } from './caretaker.ts'
import type { Answered, Asked, EngineThreadData, FromEngine, ToEngine } from './engine-messages.ts'

const restartAfterMs = 1000

interface Pending {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/** The caretaker as it was employed: a thread that died is started anew with it. */
interface Employed {
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
  readonly #pending = new Map<number, Pending>()
  readonly #wakeListeners = new Set<() => void>()
  readonly #commitListeners = new Set<() => void>()
  #thread: Worker | null = null
  #status: StoreStatus | null = null
  #asked: Asked[] = []
  #lastId = 0
  #employed: Employed | null = null
  #onDismissed: () => void = () => {}
  #closed = false

  constructor(url: string, options: EngineOptions) {
    this.#url = url
    this.#options = options
  }

  get status(): StoreStatus {
    return this.#status as StoreStatus
  }

  begin(): Promise<void> {
    return new Promise((resolve, reject) => this.#start(resolve, reject))
  }

  #start(opened: () => void, failed: (error: unknown) => void): void {
    const { durability, busyTimeoutMs, recoverOnClaim, manualGraceMs } = this.#options
    const settings = { durability, busyTimeoutMs, recoverOnClaim, manualGraceMs }
    const workerData: EngineThreadData = { url: this.#url, ...settings }
    const thread = new Worker(new URL('./engine-thread.js', import.meta.url), {
      workerData,
      name: 'holdfast engine',
    })
    let cause: unknown = 'its thread was ended'
    thread.on('message', (message: FromEngine) => {
      if (message.type === 'opened') {
        this.#thread = thread
        this.#status = message.status
        this.#letGo()
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
      this.#loseAll(cause)
      if (!this.#closed) this.#startAgain(cause)
    })
  }

  /** The thread alone must not keep the program running; what waits for an answer does. */
  #letGo(): void {
    if (this.#pending.size > 0) this.#thread?.ref()
    else this.#thread?.unref()
  }

  #startAgain(cause: unknown): void {
    const { environment, log } = this.#options
    log('warn', 'renew.failed', { error: String(cause) })
    environment.timer(restartAfterMs, () => {
      if (this.#closed) return
      this.#start(
        () => this.#employAgain(),
        (error) => {
          this.#refuseUnsent(error)
          this.#startAgain(error)
        },
      )
    })
  }

  #employAgain(): void {
    if (this.#employed)
      this.#post({ type: 'employ', options: this.#employed.options, board: this.#employed.board.buffer })
    this.#flush()
  }

  #loseAll(cause: unknown): void {
    const unsent = new Set(this.#asked.map(({ id }) => id))
    for (const [id, { reject }] of this.#pending) {
      if (unsent.has(id)) continue
      this.#pending.delete(id)
      reject(
        new HoldfastError('STORE_UNAVAILABLE', {
          what: 'the thread of the engine ended before it answered: whether a change was made is not known',
          next: 'look before you repeat it, or repeat it under the same idempotency key',
          facts: { inDoubt: true },
          cause,
        }),
      )
    }
  }

  /** What was asked while there was no thread was never sent to anybody. */
  #refuseUnsent(cause: unknown): void {
    for (const { id } of this.#asked) {
      this.#pending.get(id)?.reject(unavailable(this.status.location, cause))
      this.#pending.delete(id)
    }
    this.#asked = []
  }

  #hear(message: FromEngine): void {
    switch (message.type) {
      case 'news':
        for (const answer of message.answers) this.#answer(answer)
        this.#letGo()
        if (message.committed) for (const listener of this.#commitListeners) listener()
        break
      case 'woke':
        for (const listener of this.#wakeListeners) listener()
        break
      case 'status':
        this.#status = message.status
        break
      case 'recovered':
        this.#options.onRecovered(message.report, 'claim', message.ms)
        break
      case 'recovery-failed':
        this.#options.onRecoveryFailed(message.error, 'claim', message.queue)
        break
      case 'lost':
        this.#employed?.lost(message.lease)
        break
      case 'rejoined':
        this.#goOnAs(message.instance)
        break
      case 'dismissed':
        this.#onDismissed()
        break
      case 'log':
        this.#options.log(message.level, message.name, message.facts)
        break
      default:
    }
  }

  #answer(answer: Answered): void {
    const pending = this.#pending.get(answer.id)
    this.#pending.delete(answer.id)
    if ('error' in answer) pending?.reject(revive(answer.error))
    else pending?.resolve(answer.result)
  }

  #goOnAs(instance: string): void {
    if (!this.#employed) return
    this.#employed.options = { ...this.#employed.options, instance }
    this.#employed.rejoined(instance)
  }

  onWake(listener: () => void): () => void {
    this.#wakeListeners.add(listener)
    return () => this.#wakeListeners.delete(listener)
  }

  onCommit(listener: () => void): () => void {
    this.#commitListeners.add(listener)
    return () => this.#commitListeners.delete(listener)
  }

  execute(command: Command): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(closedError(this.status.location))
      this.#lastId++
      this.#pending.set(this.#lastId, { resolve, reject })
      this.#asked.push({ id: this.#lastId, command })
      // Everything asked in this turn goes over as one message, and into one batch. At the end of the turn: a worker that
      // finishes an item asks for the next one a few steps later.
      if (this.#asked.length === 1) setImmediate(() => this.#flush())
    })
  }

  #flush(): void {
    if (this.#thread === null || this.#asked.length === 0) return
    const asked = this.#asked
    this.#asked = []
    this.#letGo()
    try {
      this.#post({ type: 'execute', asked })
    } catch {
      for (const each of asked) this.#sendAlone(each)
    }
  }

  /** Something in a command cannot be sent: its own check says what. */
  #sendAlone(each: Asked): void {
    try {
      prepare(each.command)
      this.#post({ type: 'execute', asked: [each] })
    } catch (error) {
      this.#pending.get(each.id)?.reject(error)
      this.#pending.delete(each.id)
    }
  }

  #post(message: ToEngine): void {
    this.#thread?.postMessage(message)
  }

  /** Runs the caretaker in the engine's thread; returns how to stop it. */
  employ(employed: Employed): () => Promise<void> {
    this.#employed = employed
    this.#post({ type: 'employ', options: employed.options, board: employed.board.buffer })
    return async () => {
      this.#employed = null
      if (this.#thread === null) return
      const dismissed = new Promise<void>((resolve) => {
        this.#onDismissed = resolve
        this.#thread?.once('exit', () => resolve())
      })
      this.#thread.ref()
      this.#post({ type: 'dismiss' })
      await dismissed
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const thread = this.#thread
    if (thread === null) return
    const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
    thread.ref()
    this.#post({ type: 'close' })
    await ended
  }
}
