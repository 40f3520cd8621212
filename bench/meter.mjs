/**
 * Counts finished jobs and computes their rate. The clock starts after a warm-up (running code compiles it, so on a
 * busy machine time alone warms nothing), at the end of a job, and stops at the
 * end of a job, so that neither compiling nor a half-done batch is counted. Ours and theirs go through the same meter.
 */
export class Meter {
  #warmMs
  #warmJobs
  #measureMs
  #count = 0
  #begunAt = null
  #from = null
  #to = null
  #cpu = null
  #finish
  /** Resolves at the end. */
  finished = new Promise((resolve) => {
    this.#finish = resolve
  })
  isOver = false

  constructor({ warmMs, warmJobs, measureMs }) {
    this.#warmMs = warmMs
    this.#warmJobs = warmJobs
    this.#measureMs = measureMs
  }

  /** One more job is done. */
  count() {
    if (this.isOver) return
    const at = performance.now()
    this.#count++
    this.#begunAt ??= at
    if (this.#from === null) {
      const isWarm = at - this.#begunAt >= this.#warmMs && this.#count >= this.#warmJobs
      if (isWarm) this.#from = { count: this.#count, at, cpu: process.cpuUsage() }
      return
    }
    this.#to = { count: this.#count, at }
    if (at - this.#from.at >= this.#measureMs) this.end()
  }

  /** Enough was measured, or there is nothing left to do. */
  end() {
    if (this.isOver) return
    this.isOver = true
    if (this.#from !== null) this.#cpu = process.cpuUsage(this.#from.cpu)
    this.#finish()
  }

  /** Jobs per second, and the processor time of a job in this process, which is meaningful on a busy machine too. */
  get result() {
    if (this.#to === null) throw new Error(`${this.#count} jobs were too few to measure anything`)
    const jobs = this.#to.count - this.#from.count
    return {
      rate: (jobs / (this.#to.at - this.#from.at)) * 1000,
      cpuMicroseconds: (this.#cpu.user + this.#cpu.system) / jobs,
    }
  }
}
