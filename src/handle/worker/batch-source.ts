/** The items of a batch as they are read, by several runners at once. A batch that is over waits for no source. */
import { onAbort } from '../../abort.ts'

export class BatchSource<Work> {
  readonly #rest: AsyncGenerator<Work>
  /** Reads that the source has not answered. */
  #unanswered = 0

  constructor(rest: AsyncGenerator<Work>) {
    this.#rest = rest
  }

  /** Null when there are no more, or once the signal has fired. */
  async next(over: AbortSignal): Promise<Work | null> {
    let unheard = () => {}
    const ended = new Promise<null>((resolve) => {
      unheard = onAbort(over, () => resolve(null))
    })
    try {
      return await Promise.race([this.#read(), ended])
    } finally {
      unheard()
    }
  }

  async #read(): Promise<Work | null> {
    this.#unanswered++
    try {
      const next = await this.#rest.next()
      return next.done ? null : next.value
    } finally {
      this.#unanswered--
    }
  }

  /** A batch that stopped has not read its source to the end; this is the last chance to close it. */
  async close(): Promise<void> {
    const closed = this.#rest.return(undefined)
    if (this.#unanswered === 0) await closed
    // It is closed once it has answered, which may be never.
    else closed.catch(() => {})
  }
}
