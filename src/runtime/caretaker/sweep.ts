/**
 * One sweep: heals what has lapsed and what ended processes held, warns of leases near their end, and visits the other
 * namespaces if that is up to this process.
 */
import type { Environment } from '../../environment.ts'
import { messageOf } from '../../errors.ts'
import { maxNear, maxWarnings } from '../../operations/lease/warning.ts'
import type { ResultOf } from '../../operations/table.ts'
import { type Death, deathsAmong, endAmong, endedHolders, type Healing, heal } from './heal.ts'
import type { CaretakerReports } from './reports.ts'
import { isUpTo, StoreHealer, type StoreHealing } from './store-healing.ts'

interface Parts {
  readonly environment: Environment
  readonly reports: CaretakerReports
  readonly instance: () => string
  readonly own: () => Healing
  readonly others: () => StoreHealing
  /** Our own instance has ended, or others think so. */
  readonly missing: () => Promise<void>
  readonly isClosed: () => boolean
}

/** How long it heals in one go. Deaths are noticed in between. */
const healMs = 200

export class Sweep {
  readonly #parts: Parts
  readonly #storeHealer = new StoreHealer()
  /** Where the next page of silent processes starts: those that hold something must not hide the others. */
  #silentAfter: string | undefined
  /** There is more to heal, left by opening the store or by the last sweep. */
  hasMore: boolean
  /** When it last ran, wall time. */
  sweptAt: number | null = null

  constructor(parts: Parts, hasMore: boolean) {
    this.#parts = parts
    this.hasMore = hasMore
  }

  close(): Promise<void> {
    return this.#storeHealer.close()
  }

  /** Does some of what was left. */
  async goOn(): Promise<void> {
    try {
      await this.#healSome([])
    } catch (error) {
      this.hasMore = false
      this.#logFailure(error)
    }
  }

  async #healSome(deaths: readonly Death[]): Promise<void> {
    const { environment, own, isClosed } = this.#parts
    const until = environment.monotonic() + healMs
    const isOver = () => isClosed() || environment.monotonic() >= until
    const { more } = await heal({ ...own(), isOver }, deaths)
    this.hasMore = more
  }

  async run(): Promise<void> {
    try {
      const healing = this.#parts.own()
      const { execute } = healing
      const { bootId, hostName, pidNamespace } = this.#parts.environment.host.identity
      const machine = { bootId, hostName, pidNamespace }
      // Concurrently: on a server they share one transaction.
      const [{ isDue, healers, hasEnded }, ended, silent, near] = await Promise.all([
        execute('recovery.look', { machine, instance: this.#parts.instance() }),
        endedHolders(healing),
        execute('instance.listSilent', { after: this.#silentAfter }),
        execute('lease.listNear', {}),
      ])
      if (hasEnded) await this.#parts.missing()
      const deaths = deathsAmong(ended)
      // Usually there is nothing to do, and then nobody should wait for a write that changes nothing.
      if (isDue || deaths.length > 0) await this.#healSome(deaths)
      else await endAmong(healing, silent.instances)
      this.#silentAfter = silent.next ?? undefined
      await this.#warnNear(healing, near)
      this.sweptAt = this.#parts.environment.now()
      if (isUpTo(this.#parts.instance(), healers, healing)) this.#storeHealer.begin(this.#parts.others())
    } catch (error) {
      this.#logFailure(error)
    }
  }

  /** One transaction per piece, and none if there is nothing to warn about. `first`: those found first. */
  async #warnNear({ execute }: Healing, first: ResultOf<'lease.listNear'>): Promise<void> {
    for (let near = first, warned = 1; near.length > 0 && warned > 0 && !this.#parts.isClosed(); ) {
      warned = 0
      for (let start = 0; start < near.length; start += maxWarnings) {
        const leases = near.slice(start, start + maxWarnings)
        warned += await execute('lease.warnNear', { leases })
      }
      near = near.length < maxNear ? [] : await execute('lease.listNear', {})
    }
  }

  #logFailure(error: unknown): void {
    this.#parts.reports.log('warn', 'recovery.failed', { trigger: 'timer', error: messageOf(error) })
  }
}
