/** Commands on their way to the engine's thread: collected, sent as one message, and awaited until each is answered. */
import { unavailable } from '../../engines/postgres/classify.ts'
import { HoldfastError, revive } from '../../errors.ts'
import type { Command } from '../../port/command.ts'
import type { Answered, Asked } from './engine-messages.ts'

interface Pending {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

export class SentCommands {
  readonly #pending = new Map<number, Pending>()
  #unsent: Asked[] = []
  #lastId = 0

  /** How many callers wait for an answer. */
  get size(): number {
    return this.#pending.size
  }

  /** True for the first that is not sent yet: whoever gets it has to send them. */
  add(command: Command, pending: Pending): boolean {
    const id = ++this.#lastId
    this.#pending.set(id, pending)
    return this.#unsent.push({ id, command }) === 1
  }

  /** Everything that is not sent yet. The caller sends it. */
  take(): Asked[] {
    const asked = this.#unsent
    this.#unsent = []
    return asked
  }

  answer(answer: Answered): void {
    const pending = this.#pending.get(answer.id)
    this.#pending.delete(answer.id)
    if ('error' in answer) pending?.reject(revive(answer.error))
    else pending?.resolve(answer.result)
  }

  /** The thread has ended: nobody knows what became of the commands it had. Those not sent yet keep waiting. */
  loseSent(cause: unknown): void {
    const unsent = new Set(this.#unsent.map(({ id }) => id))
    for (const [id, { reject }] of this.#pending) {
      if (unsent.has(id)) continue
      this.#pending.delete(id)
      reject(
        new HoldfastError('STORE_UNAVAILABLE', {
          what: 'the thread of the engine ended before it answered: it is not known whether a change was made',
          next: 'check before you repeat it, or repeat it under the same idempotency key',
          facts: { inDoubt: true },
          cause,
        }),
      )
    }
  }

  /** Commands that came in while there was no thread were never sent to anybody. */
  refuseUnsent(location: string, cause: unknown): void {
    for (const { id } of this.take()) {
      this.#pending.get(id)?.reject(unavailable(location, cause))
      this.#pending.delete(id)
    }
  }
}
