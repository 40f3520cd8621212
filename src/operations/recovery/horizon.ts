/** The date that ages are counted back from when something is removed because of its age. */
import * as z from 'zod'
import {
  agreedWall,
  type Horizon,
  isSettled,
  settleHorizon,
  usualWaitMs,
  waitFor,
} from '../../domain/horizon.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { type OutputOf, operation, reply } from '../operation.ts'

/** Everything that ended at least `ageMs` before `from`, a trusted wall time. */
export const past = lazily(() => z.strictObject({ from: z.int().min(0), ageMs: z.int().min(0) }))
export type Past = OutputOf<typeof past>

export function beforeOf({ from, ageMs }: Past): number {
  return from - ageMs
}

/** Checked again on removal, which may take long: the date may have been corrected in the meantime. */
export function isPast({ from }: Past, { isDoubtful, wall }: Context): boolean {
  return !isDoubtful && isSettled(from, { wall })
}

const maxAges = 10

export const settle = operation({
  name: 'retention.settle',
  summary:
    'For each age, the date it is counted back from; null while no date can be trusted, and for 0, which means for ever.',
  effect: 'admin',
  class: 'internal',
  input: () => ({ agesMs: z.array(z.int().min(0)).max(maxAges) }),
  output: () => z.array(past().nullable()),
  needs: () => ({ kept: { select: 'horizons' } }),
  decide({ kept }, { agesMs }, context) {
    if (context.isDoubtful) return reply(agesMs.map(() => null))
    const waits = new Set(agesMs.filter((ageMs) => ageMs > 0).map(waitFor))
    const settled = [...waits].map((waitMs) => settledFor(waitMs, kept, context))
    const fromFor = (ageMs: number) =>
      settled.find(({ horizon }) => ageMs > 0 && horizon.waitMs === waitFor(ageMs))?.horizon.settledAt
    return {
      changes: settled.flatMap(({ change }) => change),
      result: agesMs.map((ageMs) => {
        const from = fromFor(ageMs)
        return from == null ? null : { from, ageMs }
      }),
    }
  },
})

/** For a removal on request: uses a date that both clocks agree on, without waiting until it is trusted. */
export function agreedPast(
  ageMs: number,
  kept: readonly Horizon[],
  context: Context,
): { readonly past: Past; readonly change: readonly Change[] } {
  const { horizon, change } = settledFor(usualWaitMs, kept, context)
  return { past: { from: agreedWall(horizon, context), ageMs }, change }
}

function settledFor(
  waitMs: number,
  kept: readonly Horizon[],
  context: Context,
): { readonly horizon: Horizon; readonly change: readonly Change[] } {
  const before = kept.find((horizon) => horizon.waitMs === waitMs) ?? null
  const after = settleHorizon(before, waitMs, context)
  return { horizon: after, change: after === before ? [] : [{ table: 'horizon', before, after }] }
}
