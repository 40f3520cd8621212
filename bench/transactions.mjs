/** How long others had to wait for one write transaction of a process, ms. */
import { systemEnvironment } from 'holdfast/testing'

export class TransactionWatch {
  longestMs = 0
  #begunAt = 0

  /** The environment for `open`: the real one, instrumented. */
  environment = {
    ...systemEnvironment,
    isLocal: true,
    reached: (point) => {
      if (point === 'transaction.begun') this.#begunAt = performance.now()
      if (point === 'transaction.committed')
        this.longestMs = Math.max(this.longestMs, performance.now() - this.#begunAt)
    },
  }
}
