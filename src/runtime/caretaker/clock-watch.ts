/** Notices when the clocks of this host disagree: a suspend, or a date set by hand. A reason for doubt, not for giving up. */
import type { Environment } from '../../environment.ts'

const toleranceMs = 2000
/** Clocks that are only glanced at drift apart by themselves over hours, and are set anew before that shows. */
const maxGlanceMs = 5000

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

  /** As a look, but asks the system for the time since boot only if there is a reason to, or now and then. */
  glance(): ReturnType<ClockWatch['look']> {
    const awakeMs = this.#environment.monotonic() - this.#last.monotonic
    const wallJumpMs = this.#environment.now() - this.#last.wall - awakeMs
    return awakeMs < maxGlanceMs && Math.abs(wallJumpMs) <= toleranceMs ? null : this.look()
  }

  #read() {
    return {
      monotonic: this.#environment.monotonic(),
      uptime: this.#environment.uptime(),
      wall: this.#environment.now(),
    }
  }
}
