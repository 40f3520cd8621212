/** This process as a member of the fleet: it sends heartbeats, and rejoins when others took it for dead. */

import type { Environment } from '../../environment.ts'
import { messageOf } from '../../errors.ts'
import type { Execute } from '../../operations/table.ts'
import type { CaretakerReports } from './reports.ts'

export interface MembershipOptions {
  readonly instance: string
  readonly storeIsLocal: boolean
  readonly execute: Execute
}

/** A peer that misjudged us once may do it again: rejoining must not fill the store. */
const rejoinEveryMs = 10_000

export class Membership {
  readonly #environment: Environment
  readonly #options: MembershipOptions
  readonly #reports: CaretakerReports
  #instance: string
  #rejoinedAt = Number.NEGATIVE_INFINITY
  #rejoining: Promise<void> | null = null
  #hasLeft = false

  constructor(environment: Environment, options: MembershipOptions, reports: CaretakerReports) {
    this.#environment = environment
    this.#options = options
    this.#reports = reports
    this.#instance = options.instance
  }

  get instance(): string {
    return this.#instance
  }

  /** After this it does not rejoin. */
  leave(): void {
    this.#hasLeft = true
  }

  /** `sweptAt`: when this process last looked for things to heal. */
  async beat(sweptAt: number | null): Promise<void> {
    const { host } = this.#environment
    try {
      // Old marks are removed, so keep ours fresh.
      if (!this.#options.storeIsLocal) host.ownMark.refresh(host.identity)
      const id = this.#instance
      const isRunning = await this.#options.execute('instance.beat', { id, sweptAt })
      // Several callers may have asked at once: they rejoin together.
      if (isRunning !== false || id !== this.#instance) return
      this.#rejoining ??= this.#rejoin()
      await this.#rejoining
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: 0, error: messageOf(error) })
    }
  }

  /**
   * Somebody took this process for dead. What it held then is lost. What it claims from now on must belong to an
   * instance whose death can still be noticed.
   */
  async #rejoin(): Promise<void> {
    const now = this.#environment.monotonic()
    try {
      if (this.#hasLeft || now - this.#rejoinedAt < rejoinEveryMs) return
      this.#rejoinedAt = now
      const id = this.#environment.id()
      await this.#options.execute('instance.start', { id, ...this.#environment.host.identity })
      this.#reports.log('warn', 'process.rejoined', { former: this.#instance, instance: id })
      this.#instance = id
      this.#reports.rejoined(id)
    } finally {
      this.#rejoining = null
    }
  }
}
