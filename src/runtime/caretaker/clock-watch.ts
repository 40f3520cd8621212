/**
 * Notices when the clocks of this host disagree: a suspend, or a changed date. A reason for doubt, not for giving up.
 */
import type { Environment } from '../../environment.ts'

const toleranceMs = 2000
/**
 * Between full looks the clocks drift apart by themselves over hours; a look this often resets them before it shows.
 */
const maxGlanceMs = 5000

export class ClockWatch {
  readonly #environment: Environment
  #last: { monotonic: number; uptime: number; wall: number }

  constructor(environment: Environment) {
    this.#environment = environment
    this.#last = this.#read()
  }

  /** How far the other clocks diverged from awake time since the last look; null if within tolerance. */
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

  /** Like `look`, but reads the time since boot only if something seems wrong or the last look is 5 s ago. */
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
