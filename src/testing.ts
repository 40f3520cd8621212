/** For tests of programs that use Holdfast: an environment whose time you move. */
import type { ProcessIdentity } from './domain/instance.ts'
import type { Environment, Host, Verdict } from './environment.ts'
import { systemEnvironment } from './host/system.ts'

export { type Replica, renewalFields, replay } from './domain/event.ts'
export type { ProcessIdentity } from './domain/instance.ts'
export type { Environment, Host, Verdict } from './environment.ts'
export { systemEnvironment }

export interface MovableOptions {
  /** Wall time at the start; default 2026-01-01. */
  readonly now?: number
  /** Seed of the random numbers; default 1. */
  readonly seed?: number
  readonly host?: Partial<Host>
  readonly identity?: Partial<ProcessIdentity>
  readonly reached?: (point: string) => void
}

/** Time stands still until it is moved; timers then fire in order. */
export class MovableEnvironment implements Environment {
  readonly isLocal = true
  readonly host: Host
  readonly reached?: (point: string) => void
  #wall: number
  #monotonic = 1_000_000
  #sleptMs = 0
  #seed: number
  #timers: { at: number; order: number; run: () => void }[] = []
  #order = 0

  constructor(options: MovableOptions = {}) {
    this.#wall = options.now ?? Date.UTC(2026, 0, 1)
    this.#seed = options.seed ?? 1
    if (options.reached) this.reached = options.reached
    const identity = { ...systemEnvironment.host.identity, ...options.identity }
    this.host = {
      identity,
      identify: (pid) => systemEnvironment.host.identify(pid),
      judge: (other, storeIsLocal): Verdict => systemEnvironment.host.judge(other, storeIsLocal),
      networkFileSystem: (path) => systemEnvironment.host.networkFileSystem(path),
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
    // Mulberry-style mixing is not needed here: a small linear generator is repeatable and spread enough.
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

  /** Lets time pass: timers fire one after the other, each with everything it starts settled before the next. */
  async advance(ms: number): Promise<void> {
    const until = this.#monotonic + ms
    await settle()
    for (let next = this.#due(until); next; next = this.#due(until)) {
      this.#timers = this.#timers.filter((each) => each !== next)
      this.#move(Math.max(0, next.at - this.#monotonic))
      next.run()
      await settle()
    }
    this.#move(until - this.#monotonic)
    await settle()
  }

  /** The host sleeps: wall and boot time go on, awake time does not. */
  suspend(ms: number): void {
    this.#wall += ms
    this.#sleptMs += ms
  }

  /** Somebody sets the date. */
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
}

/** Everything already under way comes to rest: promises, and commands waiting for their turn. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 6; turn++) await new Promise((done) => setImmediate(done))
}
