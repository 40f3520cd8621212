/** Progress as callers see it, with figures derived from the counts. */
import * as z from 'zod'
import { paceOf, processedOf, type Run } from '../../domain/run.ts'
import { type OutputOf, view } from '../operation.ts'

export const runView = view(() => ({
  run: z.string(),
  lock: z.string(),
  token: z.number(),
  status: z.enum(['running', 'paused', 'completed', 'failed']),
  total: z.number().nullable(),
  done: z.number(),
  failed: z.number(),
  skipped: z.number(),
  /** Done, failed and skipped together. */
  processed: z.number(),
  remaining: z.number().nullable(),
  cursor: z.unknown(),
  completion: z.enum(['processed', 'successful']),
  /** Why it is paused or has failed. */
  pauseReason: z.string().nullable(),
  startedAt: z.number(),
  updatedAt: z.number(),
  endedAt: z.number().nullable(),
  /** When retention removed the outcomes of its items. */
  outcomesRemovedAt: z.number().nullable(),
  /** Based on the time it actually ran, without pauses. */
  ratePerSecond: z.number().nullable(),
  etaMs: z.number().nullable(),
  version: z.number(),
}))
/** The progress of a run. */
export type RunView = OutputOf<typeof runView>

export function viewRun(progress: Run, now: number): RunView {
  const { runningSince, activeMs, ...rest } = progress
  const processed = processedOf(progress)
  return {
    ...rest,
    processed,
    remaining: progress.total === null ? null : Math.max(0, progress.total - processed),
    ...paceOf(progress, now),
  }
}
