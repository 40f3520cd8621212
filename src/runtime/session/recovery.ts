/** Recovery as this process does it: at open, before claims, and on request. */
import { shown } from '../../domain/text.ts'
import type { Environment } from '../../environment.ts'
import { InvalidError, isClosedError, isHoldfastError, revive } from '../../errors.ts'
import type { CheckedLogger } from '../../logger.ts'
import type { RecoveryReport, RecoveryTrigger } from '../../operations/recovery/report.ts'
import type { RecoveryStats } from '../../operations/recovery/stats.ts'
import type { AskedOf, Execute } from '../../operations/table.ts'
import type { Settings } from '../../options.ts'
import { findDeaths, type Healing, heal, healAtOpen } from '../caretaker/heal.ts'
import type { RecoveryFailures } from '../caretaker/recovery-failures.ts'
import { healerOf, healOthers, type StoreHealing } from '../caretaker/store-healing.ts'

type HealingOptions = Pick<Healing, 'queue' | 'dryRun' | 'maxAgeMs' | 'pauseReason'>

/** What to recover. */
export interface RecoverOptions extends Pick<AskedOf<'recovery.run'>, 'dryRun' | 'maxAgeMs'> {
  /** Also what lapsed or was lost in all other namespaces of the store. */
  readonly allNamespaces?: boolean | undefined
}

/** What was reclaimed. */
export interface StoreRecoveryReport extends RecoveryReport {
  /** `namespace`: where it was, if that is not the handle's own. */
  readonly reclaimed: (RecoveryReport['reclaimed'][number] & { readonly namespace?: string })[]
  /** With `allNamespaces`: the other namespaces in which there was something to do. */
  readonly namespaces?: readonly string[] | undefined
}

interface Parts {
  readonly environment: Environment
  readonly settings: Settings
  readonly logger: CheckedLogger
  readonly failures: RecoveryFailures
  readonly storeIsLocal: boolean
  readonly execute: Execute
  /** No instance is registered in other namespaces, so nothing is claimed there. */
  readonly executeIn: StoreHealing['executeIn']
}

const probeEveryMs = 1000

export class Recovery {
  readonly #parts: Parts
  #probeAt = 0

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Reclaims lapsed leases and those of processes proven dead. */
  async heal(trigger: RecoveryTrigger, options: HealingOptions = {}): Promise<RecoveryReport> {
    const healing = this.#healingBy(trigger, options)
    return heal(healing, await findDeaths(healing))
  }

  /** Heals what has to be healed before the store is used; `more` says whether some is left. */
  async #healAtOpen(): Promise<RecoveryReport> {
    const healing = this.#healingBy('open', {})
    return healAtOpen(healing, await findDeaths(healing))
  }

  /**
   * The dead ring no bell, so whoever waits looks for them: perhaps nobody else would. Once a second is enough for all
   * that wait in this process. Writes nothing, unless somebody is dead.
   */
  async healTheDead(): Promise<void> {
    const { environment, settings } = this.#parts
    const now = environment.monotonic()
    if (!settings.recovery.onWait || now < this.#probeAt) return
    this.#probeAt = Number.POSITIVE_INFINITY
    const healing = this.#healingBy('waiter', {})
    await this.#ifPossible('waiter', async () => {
      const deaths = await findDeaths(healing)
      if (deaths.length > 0) await heal(healing, deaths)
    })
    this.#probeAt = now + probeEveryMs
  }

  healIfPossible(trigger: RecoveryTrigger): Promise<RecoveryReport | null> {
    return this.#ifPossible(trigger, () => (trigger === 'open' ? this.#healAtOpen() : this.heal(trigger)))
  }

  /** A failure to heal is logged and keeps nobody from working. */
  async #ifPossible<Done>(trigger: RecoveryTrigger, healing: () => Promise<Done>): Promise<Done | null> {
    try {
      return await healing()
    } catch (error) {
      // A handle that is closed has nothing to heal any more.
      if (!isClosedError(error)) this.#parts.logger.warn({ trigger, error: String(error) }, 'recovery.failed')
      return null
    }
  }

  /** Recovery on request. If it fails, the caller is told what happened and what to do, and the store records it. */
  async recover({
    allNamespaces = false,
    ...options
  }: RecoverOptions & { queue?: string } = {}): Promise<StoreRecoveryReport> {
    if (typeof allNamespaces !== 'boolean') {
      throw new InvalidError({
        what: `detectAndRecoverStale: allNamespaces: ${shown(allNamespaces)} is neither true nor false`,
        next: 'give true for all namespaces of the store, or leave it out',
      })
    }
    try {
      const own = await this.heal('manual', options)
      return allNamespaces ? await this.#healOthers(options, own) : own
    } catch (error) {
      if (!isHoldfastError(error) || error.code === 'INVALID') throw error
      this.#parts.failures.note({ trigger: 'manual', queue: options.queue, error: error.message })
      throw revive({
        code: error.code,
        what: `recovery failed: ${error.what}`,
        next: `${error.next}; what was already released stays released, and retrying is safe`,
        facts: error.facts,
        cause: error,
      })
    }
  }

  /** Does the same in all other namespaces, and adds it to the report on our own. */
  #healOthers(options: HealingOptions, own: RecoveryReport): Promise<StoreRecoveryReport> {
    const healing = this.#healingBy('manual', options)
    return healOthers({ ...healing, healer: healerOf(healing), executeIn: this.#parts.executeIn }, own)
  }

  #healingBy(trigger: RecoveryTrigger, options: HealingOptions): Healing {
    const { environment, storeIsLocal, settings, logger, execute } = this.#parts
    return {
      ...(trigger === 'open' ? { pauseReason: settings.recovery.pauseReason } : {}),
      ...options,
      environment,
      storeIsLocal,
      trigger,
      execute,
      log: (level, name, facts) => logger[level]?.(facts, name),
    }
  }

  /** Instances that this machine can prove dead and that nobody has ended yet. */
  async deadInstances(): Promise<string[]> {
    return (await findDeaths(this.#parts)).map(({ instance }) => instance)
  }

  /** Counts what a recovery would act on: lapsed leases, and those of processes this machine can prove dead. */
  async stats(of: { queue?: string }): Promise<RecoveryStats> {
    const { failures, execute } = this.#parts
    await failures.flush()
    const stats = await execute('recovery.stats', { ...of, dead: await this.deadInstances() })
    // Failures that could not be written to the store are known only here.
    const { pending, last } = failures
    if (pending === 0 || of.queue !== undefined) return stats
    return {
      ...stats,
      totals: { ...stats.totals, failures: stats.totals.failures + pending },
      lastError: last,
    }
  }
}
