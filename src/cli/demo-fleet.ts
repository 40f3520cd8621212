/** The demo's worker processes: started, killed, frozen and thawed like any other. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export type WorkerMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'working'; readonly item: string }
  | { readonly type: 'answered'; readonly item: string; readonly answer: string }

export class Fleet {
  readonly #store: string
  readonly #queue: string
  readonly #members = new Map<string, ChildProcess>()
  readonly #listeners = new Set<(name: string, message: WorkerMessage) => void>()
  #started = 0
  #isStopped = false

  constructor(store: string, queue: string) {
    this.#store = store
    this.#queue = queue
  }

  async start(): Promise<void> {
    // Interrupted between two starts: nothing would stop this worker.
    if (this.#isStopped) throw new Error('the fleet was stopped')
    const name = `worker-${++this.#started}`
    const script = fileURLToPath(new URL('./demo-worker.js', import.meta.url))
    const child = fork(script, [this.#store, this.#queue, name], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#members.set(name, child)
    const ready = this.#message((from, message) => from === name && message.type === 'ready')
    child.on('message', (message: WorkerMessage) => this.#heard(name, message))
    await ready
  }

  /** A worker that has just started an item. */
  async workingOne(): Promise<{ name: string; item: string }> {
    const [name, message] = await this.#message((_, each) => each.type === 'working')
    return { name, item: message.type === 'working' ? message.item : '' }
  }

  /** What the store answers when this worker reports this item as done. */
  async answerOf(name: string, item: string): Promise<string> {
    const [, message] = await this.#message(
      (from, each) => from === name && each.type === 'answered' && each.item === item,
    )
    return message.type === 'answered' ? message.answer : ''
  }

  kill(name: string): void {
    this.#members.get(name)?.kill('SIGKILL')
    this.#members.delete(name)
  }

  freeze(name: string): void {
    this.#members.get(name)?.kill('SIGSTOP')
  }

  thaw(name: string): void {
    this.#members.get(name)?.kill('SIGCONT')
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(
      [...this.#members.values()].map((child) => {
        const ended = new Promise((resolve) => child.once('exit', resolve))
        child.kill('SIGKILL')
        return child.exitCode === null && child.signalCode === null ? ended : undefined
      }),
    )
  }

  #heard(name: string, message: WorkerMessage): void {
    for (const listener of this.#listeners) listener(name, message)
  }

  #message(matches: (name: string, message: WorkerMessage) => boolean): Promise<[string, WorkerMessage]> {
    return new Promise((resolve) => {
      const listener = (name: string, message: WorkerMessage) => {
        if (!matches(name, message)) return
        this.#listeners.delete(listener)
        resolve([name, message])
      }
      this.#listeners.add(listener)
    })
  }
}
