/**
 * Recovery before claims. The engine finds that something has lapsed or is due, and recovers it in a transaction of its
 * own; whoever opened the store is told.
 */
import type { Command } from './command.ts'

/** Claims that wait in one batch: who asks first, and the queues they claim from. */
export interface Claims extends Pick<Command, 'namespace' | 'caller'> {
  readonly queues: readonly string[]
}

export interface HealingBeforeClaims {
  /** False: it takes nothing from anybody, and only ends delays. */
  readonly reclaims: boolean
  done(report: unknown, ms: number): void
  /** The claims go ahead all the same. `queue`: the first queue they claim from. */
  failed(error: unknown, queue: string | null): void
}
