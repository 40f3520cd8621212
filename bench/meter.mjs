/**
 * Counts finished jobs and tells their rate. The clock starts after a warm-up, at the end of a job, and stops at the
 * end of a job, so that neither compiling nor a half-done batch is counted. Ours and theirs go through the same meter.
 */
export class Meter {
  #warmMs
  #measureMs
  #count = 0
  #begunAt = null
  #from = null
  #to = null
  #finish
  /** Resolves when enough was measured, or when `end` is called because there is nothing left to do. */
  finished = new Promise((resolve) => {
    this.#finish = resolve
  })
  isOver = false

  constructor({ warmMs, measureMs }) {
    this.#warmMs = warmMs
    this.#measureMs = measureMs
  }

  /** One more job is done. */
  count() {
    if (this.isOver) return
    const at = performance.now()
    this.#count++
    this.#begunAt ??= at
    if (this.#from === null) {
      if (at - this.#begunAt >= this.#warmMs) this.#from = { count: this.#count, at }
      return
    }
    this.#to = { count: this.#count, at }
    if (at - this.#from.at >= this.#measureMs) this.end()
  }

  end() {
    this.isOver = true
    this.#finish()
  }

  /** Jobs a second. */
  get rate() {
    if (this.#to === null) throw new Error(`${this.#count} jobs were too few to measure anything`)
    return ((this.#to.count - this.#from.count) / (this.#to.at - this.#from.at)) * 1000
  }
}
