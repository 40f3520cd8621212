/** For tests of programs that use Holdfast: an environment whose clock you move. */
import type { ProcessIdentity } from './domain/instance.ts'
import type { Environment, Host, Spare, Spares, Verdict } from './environment.ts'
import { judge } from './host/process.ts'
import { systemEnvironment } from './host/system.ts'

export { type Replica, renewalFields, replay } from './domain/event.ts'
export type { ProcessIdentity } from './domain/instance.ts'
export type { Environment, Host, Spare, Spares, Verdict } from './environment.ts'
export { systemEnvironment }

/** How a movable environment starts out. */
export interface MovableOptions {
  /** Wall time at the start; default 2026-01-01. */
  readonly now?: number
  /** Seed of the random numbers; default 1. */
  readonly seed?: number
  readonly host?: Partial<Host>
  readonly identity?: Partial<ProcessIdentity>
  readonly reached?: (point: string) => void
  readonly answered?: (operation: string, answer: unknown) => void
  /** Shared by environments whose stores are opened one after the other, as by the tests of a suite. */
  readonly spares?: Spares
}

/**
 * Connections that outlive the stores they were opened for. A suite whose tests each open a store on the same
 * PostgreSQL schema takes half the time with them. Call `close()` after the last test.
 */
export class SpareConnections implements Spares {
  #spares: { readonly use: string; readonly spare: Spare }[] = []
  readonly #max: number

  /** Keeps at most `max` connections and closes the one that has been idle longest. */
  constructor(max = 8) {
    this.#max = max
  }

  take(use: string): Spare | null {
    const found = this.#spares.find((each) => each.use === use && each.spare.isOpen)
    this.#spares = this.#spares.filter((each) => each !== found)
    return found?.spare ?? null
  }

  keep(use: string, spare: Spare): void {
    this.#spares.push({ use, spare })
    if (this.#spares.length <= this.#max) return
    const { spare: oldest } = this.#spares.shift() as { spare: Spare }
    // A connection that cannot be closed is as good as closed.
    oldest.close().catch(() => {})
  }

  async close(): Promise<void> {
    await Promise.all(this.#spares.splice(0).map(({ spare }) => spare.close()))
  }
}

/** An environment whose clock stands still until you move it; timers then fire in order. */
export class MovableEnvironment implements Environment {
  readonly isLocal = true
  readonly host: Host
  readonly reached?: (point: string) => void
  readonly answered?: (operation: string, answer: unknown) => void
  readonly spares?: Spares
  #wall: number
  #monotonic = 1_000_000
  #sleptMs = 0
  #seed: number
  #timers: { at: number; order: number; run: () => void }[] = []
  #order = 0
  /** Outside work that holds the clock. */
  readonly #awaited = new Set<Promise<unknown>>()
  #onAllArrived: (() => void)[] = []

  /**
   * How long one piece of outside work may hold the clock, in real ms. After that, time moves on without it: it may be
   * waiting for what the test does next, such as a query that waits for a row the test keeps locked.
   */
  patienceMs = 5_000

  constructor(options: MovableOptions = {}) {
    this.#wall = options.now ?? Date.UTC(2026, 0, 1)
    this.#seed = options.seed ?? 1
    if (options.spares) this.spares = options.spares
    if (options.reached) this.reached = options.reached
    if (options.answered) this.answered = options.answered
    const identity = { ...systemEnvironment.host.identity, ...options.identity }
    const kernel = () => ({ bootedAt: this.now() - this.uptime(), awakeMs: this.monotonic() })
    // Without a seat, each process looks for dead holders itself, by this clock.
    const { proberSeat, ...host } = systemEnvironment.host
    this.host = {
      ...host,
      identity,
      kernel,
      judge: (other, storeIsLocal): Verdict =>
        judge(other, { self: systemEnvironment.host.identity, storeIsLocal, kernel }),
      ...options.host,
    }
  }

  now(): number {
    return Math.floor(this.#wall)
  }

  monotonic(): number {
    return this.#monotonic
  }

  uptime(): number {
    return this.#monotonic + this.#sleptMs
  }

  random(): number {
    // No need for stronger mixing, such as Mulberry: a small linear generator is repeatable, and random enough here.
    this.#seed = (this.#seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return this.#seed / 2_147_483_648
  }

  id(): string {
    return systemEnvironment.id()
  }

  timer(ms: number, run: () => void): () => void {
    const timer = { at: this.#monotonic + ms, order: this.#order++, run }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer)
    }
  }

  /** Holds the clock until this work has settled, however long it really takes; see `patienceMs`. */
  outside<Result>(work: Promise<Result>): Promise<Result> {
    this.#awaited.add(work)
    const arrive = () => this.#forget(work)
    work.then(arrive, arrive)
    return work
  }

  /**
   * Moves the clock forward. Timers fire one after the other, and everything a timer starts settles before the next one
   * fires.
   */
  async advance(ms: number): Promise<void> {
    const until = this.#monotonic + ms
    await this.#settle()
    for (let next = this.#due(until); next; next = this.#due(until)) {
      this.#timers = this.#timers.filter((each) => each !== next)
      this.#move(Math.max(0, next.at - this.#monotonic))
      next.run()
      await this.#settle()
    }
    this.#move(until - this.#monotonic)
    await this.#settle()
  }

  /** Suspends the host: wall time and time since boot move on, awake time does not. */
  suspend(ms: number): void {
    this.#wall += ms
    this.#sleptMs += ms
  }

  /** Sets the wall clock, as somebody changing the date would. */
  setWall(now: number): void {
    this.#wall = now
  }

  #move(ms: number): void {
    this.#monotonic += ms
    this.#wall += ms
  }

  #due(until: number) {
    const due = this.#timers.filter((timer) => timer.at <= until)
    return due.sort((left, right) => left.at - right.at || left.order - right.order)[0]
  }

  /** Waits until everything already under way has settled: promises, queued commands and outside work. */
  async #settle(): Promise<void> {
    for (let quietTurns = 0; quietTurns < 6; quietTurns++) {
      await new Promise((done) => setImmediate(done))
      if (this.#awaited.size === 0) continue
      await this.#arrival()
      // What arrived may lead to more.
      quietTurns = -1
    }
  }

  async #arrival(): Promise<void> {
    const awaited = [...this.#awaited]
    await new Promise<void>((resolve) => {
      const patience = setTimeout(() => {
        for (const work of awaited) this.#forget(work)
        resolve()
      }, this.patienceMs)
      this.#onAllArrived.push(() => {
        clearTimeout(patience)
        resolve()
      })
    })
  }

  #forget(work: Promise<unknown>): void {
    this.#awaited.delete(work)
    if (this.#awaited.size > 0) return
    for (const arrive of this.#onAllArrived.splice(0)) arrive()
  }
}
