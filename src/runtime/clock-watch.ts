/** Notices when the clocks of this host disagree: a suspend, or a date set by hand. A reason for doubt, not for giving up. */
import type { Environment } from '../environment.ts'

const toleranceMs = 2000

export class ClockWatch {
  readonly #environment: Environment
  #last: { monotonic: number; uptime: number; wall: number }

  constructor(environment: Environment) {
    this.#environment = environment
    this.#last = this.#read()
  }

  /** How far the other clocks ran away from the awake time since the last look, or null. */
  look(): { sleptMs: number; wallJumpMs: number } | null {
    const now = this.#read()
    const awakeMs = now.monotonic - this.#last.monotonic
    const sleptMs = Math.round(now.uptime - this.#last.uptime - awakeMs)
    const wallJumpMs = Math.round(now.wall - this.#last.wall - awakeMs)
    this.#last = now
    return Math.abs(sleptMs) > toleranceMs || Math.abs(wallJumpMs) > toleranceMs
      ? { sleptMs, wallJumpMs }
      : null
  }

  #read() {
    return {
      monotonic: this.#environment.monotonic(),
      uptime: this.#environment.uptime(),
      wall: this.#environment.now(),
    }
  }
}
