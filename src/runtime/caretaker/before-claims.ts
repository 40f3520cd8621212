/**
 * Heals before claims: the one place where such a recovery is requested. Engines run it when they find that a lease has
 * lapsed or a delay has ended.
 */
import type { Environment } from '../../environment.ts'
import { maxReclaimed, type RecoveryReport } from '../../operations/recovery/report.ts'
import { entropyFor } from '../../operations/table.ts'
import type { HealingBeforeClaims } from '../../port/healing.ts'

export interface ClaimHealingOptions {
  readonly environment: Environment
  /** False if healing before claims is turned off: delays still end on time. */
  readonly reclaims: boolean
  done(report: RecoveryReport, ms: number): void
  failed(error: unknown, queue: string | null): void
}

export function healingBeforeClaims(options: ClaimHealingOptions): HealingBeforeClaims {
  const { environment, reclaims, done, failed } = options
  return {
    reclaims,
    commandBefore({ namespace, caller, queues }) {
      const only = reclaims ? undefined : 'due'
      const input = { trigger: 'claim', only, first: queues.slice(0, maxReclaimed) }
      const entropy = entropyFor('recovery.run', input, environment)
      return { operation: 'recovery.run', input, namespace, caller, entropy }
    },
    done: (report, ms) => done(report as RecoveryReport, ms),
    failed,
  }
}
