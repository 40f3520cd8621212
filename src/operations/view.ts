/** Rows as callers see them: a lapsed lease shows as lapsed even before a sweep, and JSON text is parsed. */
import * as z from 'zod'
import type { Item } from '../domain/item.ts'
import { isExpired, leaseStatus } from '../domain/lease.ts'
import type { Lock } from '../domain/lock.ts'
import { type OutputOf, view } from './operation.ts'

const leaseView = view(() => ({
  agent: z.string().nullable(),
  instance: z.string().nullable(),
  token: z.number(),
  grantedAt: z.number().nullable(),
  renewedAt: z.number().nullable(),
  expiresAt: z.number().nullable(),
  leaseMs: z.number().nullable(),
  remainingMs: z.number(),
  status: z.enum(['live', 'near', 'expired', 'stale']),
}))
export type LeaseView = OutputOf<typeof leaseView>

export const itemView = view(() => ({
  id: z.string(),
  queue: z.string(),
  workflow: z.string(),
  state: z.string(),
  phase: z.enum(['ready', 'suspect', 'waiting', 'held', 'closed']),
  priority: z.number(),
  key: z.string().nullable(),
  dedupeKey: z.string().nullable(),
  parent: z.string().nullable(),
  stackRoot: z.string(),
  stackDepth: z.number(),
  blockers: z.array(z.string()),
  waitingFor: z.array(z.string()),
  runAt: z.number().nullable(),
  /** The only agent that may claim it before `runAt`. */
  offeredTo: z.string().nullable(),
  attempts: z.number(),
  failures: z.number(),
  crashes: z.number().describe('Crashes blamed on it since its last new progress.'),
  exposures: z.number().describe('How often it was lost together with other items since then.'),
  suspectedAt: z
    .number()
    .nullable()
    .describe('Suspected of killing its holders since; each process takes one such item at a time.'),
  maxAttempts: z.number(),
  quarantine: z.object({ at: z.number(), reason: z.string().nullable() }).nullable(),
  cancelRequestedAt: z.number().nullable(),
  submittedBy: z.string().nullable(),
  addedAt: z.number(),
  startedAt: z.number().nullable(),
  stateChangedAt: z.number(),
  closedAt: z.number().nullable(),
  outcome: z.enum(['succeeded', 'failed']).nullable(),
  previousState: z.string().nullable(),
  version: z.number(),
  /** Who is working on it now; also null once the lease has lapsed. */
  holder: z.string().nullable(),
  lease: leaseView().nullable(),
  token: z.number(),
  error: z
    .object({
      message: z.string(),
      code: z.string().optional(),
      retryable: z.boolean().optional(),
      /** Where it was thrown, shortened. */
      stack: z.string().optional(),
    })
    .nullable(),
  progress: z.unknown(),
  result: z.unknown(),
  payload: z.unknown(),
  data: z.record(z.string(), z.unknown()),
}))
/** An item as callers see it. */
export type ItemView = OutputOf<typeof itemView>

export function viewItem(item: Item, now: number): ItemView {
  const held = item.phase === 'held'
  return {
    id: item.id,
    queue: item.queue,
    workflow: item.workflow,
    state: item.state,
    phase: item.phase,
    priority: item.priority,
    key: item.key,
    dedupeKey: item.dedupeKey,
    parent: item.parent,
    stackRoot: item.ancestors[0] ?? item.id,
    stackDepth: item.ancestors.length,
    blockers: [...item.blockers],
    waitingFor: [...item.waitingFor],
    runAt: item.runAt,
    offeredTo: item.offeredTo,
    attempts: item.attempts,
    failures: item.failures,
    crashes: item.crashes,
    exposures: item.exposures,
    suspectedAt: item.suspectedAt,
    maxAttempts: item.maxAttempts,
    quarantine:
      item.quarantinedAt === null ? null : { at: item.quarantinedAt, reason: item.quarantineReason },
    cancelRequestedAt: item.cancelRequestedAt,
    submittedBy: item.submittedBy,
    addedAt: item.addedAt,
    startedAt: item.startedAt,
    stateChangedAt: item.stateChangedAt,
    closedAt: item.closedAt,
    outcome: item.outcome,
    previousState: item.previousState,
    version: item.version,
    holder: held && !isExpired(item, now) ? item.agent : null,
    lease: held ? viewLease(item, now) : null,
    token: item.token,
    error: item.error,
    progress: item.progress,
    result: item.result === null ? null : JSON.parse(item.result),
    payload: JSON.parse(item.payload),
    data: { ...item.data },
  }
}

export function viewLease(row: Item | Lock, now: number): LeaseView {
  const { agent, instance, token, grantedAt, renewedAt, expiresAt, leaseMs } = row
  return {
    agent,
    instance,
    token,
    grantedAt,
    renewedAt,
    expiresAt,
    leaseMs,
    remainingMs: (expiresAt ?? now) - now,
    status: leaseStatus(row, now),
  }
}

export const lockView = view(() => ({
  name: z.string(),
  slot: z.number(),
  reason: z.string().nullable(),
  item: z.string().nullable(),
  acquiredAt: z.number(),
  version: z.number(),
  /** The user on whose behalf it is held, and the run it is held for. */
  user: z.string().nullable(),
  run: z.string().nullable(),
  /** How many times its holder has entered it. */
  depth: z.number(),
  /** Path patterns it reserves; null for a plain named lock. */
  patterns: z.array(z.string()).nullable(),
  mode: z.enum(['shared', 'exclusive']).nullable(),
  /** True during the delay after a loss: nobody holds the lock, and nobody gets it until its lease ends. */
  delayed: z.boolean(),
  holder: z.string().nullable(),
  stale: z.boolean(),
  lease: leaseView(),
}))
/** A held lock. */
export type LockView = OutputOf<typeof lockView>

export function viewLock(lock: Lock, now: number): LockView {
  const { name, slot, reason, item, acquiredAt, version, user, run, depth, mode } = lock
  const stale = isExpired(lock, now)
  const delayed = lock.delayedSince !== null
  return {
    name,
    slot,
    reason,
    item,
    acquiredAt,
    version,
    user,
    run,
    depth,
    patterns: lock.patterns === null ? null : [...lock.patterns],
    mode,
    delayed,
    holder: stale || delayed ? null : lock.agent,
    stale,
    lease: viewLease(lock, now),
  }
}

/** For answers about a queue that may be a mistyped name. */
export const queueExists = () =>
  z.boolean().describe('False: nobody has defined the queue or added anything to it yet.')
