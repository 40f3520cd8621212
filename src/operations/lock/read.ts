/** Reading locks: who has what. A lapsed lease shows as lapsed even before a sweep. */
import * as z from 'zod'
import { isExpired } from '../../domain/lease.ts'
import type { Lock } from '../../domain/lock.ts'
import { maxWaiters } from '../../domain/lock-line.ts'
import { InvalidError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, type OutputOf, operation, reply, view } from '../operation.ts'
import { runView, viewRun } from '../run/view.ts'
import { lockView, viewLock } from '../view.ts'
import { runNeeds } from './lock-change.ts'

const name = lazily(() => fields.name.describe('Name of the lock.'))

const lockInfo = view(() => ({
  name: z.string(),
  isLocked: z.boolean(),
  /** The run it is held for, or its holder if there is none; for a stale lock, the last one. */
  lockedBy: z.string().nullable(),
  lockedByUser: z.string().nullable(),
  lockedAt: z.number().nullable(),
  lockReason: z.string().nullable(),
  holder: z.string().nullable(),
  /** Its lease has lapsed: nobody holds it, and the next caller gets it. Other fields describe the last holder. */
  stale: z.boolean(),
  expiresAt: z.number().nullable(),
  renewedAt: z.number().nullable(),
  token: z.number().nullable(),
  version: z.number().nullable(),
  /** How many are waiting in line. */
  waiting: z.number(),
  /** Every taken slot. */
  slots: z.array(lockView()),
  progress: runView().nullable(),
}))
/** A lock, its holders and its line. */
export type LockInfo = OutputOf<typeof lockInfo>

export const getCurrentLockInfo = operation({
  name: 'locks.getCurrentLockInfo',
  summary: 'Show who holds a lock, why, since and until when, and the progress of its run.',
  effect: 'read',
  input: () => ({ name: name() }),
  output: lockInfo,
  needs: (of) => ({ line: { select: 'lockLine', name: of.name, waiter: null, limit: maxWaiters } }),
  decide({ line }, of, { now }) {
    const lock = line.locks.find((each) => isHeld(each, now)) ?? line.locks[0]
    const shown = lock && lock.delayedSince === null ? lock : undefined
    const isLocked = shown !== undefined && isHeld(shown, now)
    return ask(runNeeds(shown ? [shown] : []), ({ runs }) =>
      reply({
        name: of.name,
        isLocked,
        lockedBy: shown?.run ?? shown?.agent ?? null,
        lockedByUser: shown?.user ?? null,
        lockedAt: shown?.acquiredAt ?? null,
        lockReason: shown?.reason ?? null,
        holder: shown?.agent ?? null,
        stale: shown !== undefined && !isLocked,
        expiresAt: shown?.expiresAt ?? null,
        renewedAt: shown?.renewedAt ?? null,
        token: shown?.token ?? null,
        version: shown?.version ?? null,
        waiting: line.waiting,
        slots: line.locks.map((each) => viewLock(each, now)),
        progress: runs[0] ? viewRun(runs[0], now) : null,
      }),
    )
  },
})

export const isLockedBy = operation({
  name: 'locks.isLockedBy',
  summary: 'Say whether a lock is held by an agent (default: the caller) or for a run.',
  effect: 'read',
  input: () => ({
    name: name(),
    agent: fields.name.optional().describe('By this agent; default the caller.'),
    run: fields.name.optional().describe('For this run.'),
  }),
  output: () => z.boolean(),
  needs: (of) => ({ locks: { select: 'lock', name: of.name } }),
  decide({ locks }, { agent, run }, context) {
    const by = agent ?? (run === undefined ? context.agent : undefined)
    const result = locks.some(
      (lock) =>
        isHeld(lock, context.now) && lock.agent === (by ?? lock.agent) && lock.run === (run ?? lock.run),
    )
    return reply(result)
  },
})

export const isAnyLocked = operation({
  name: 'locks.isAnyLocked',
  summary: 'Say whether any named lock is held. Processing locks and reservations do not count.',
  effect: 'read',
  input: () => ({}),
  output: () => z.boolean(),
  needs: () => ({ isLocked: { select: 'isAnyLocked' } }),
  decide: ({ isLocked }) => reply(isLocked),
})

export const list = operation({
  name: 'locks.list',
  summary: 'List locks, processing locks and reservations; lapsed ones are marked stale.',
  effect: 'read',
  input: () => ({
    prefix: fields.text(200).optional().describe('Only names with this prefix.'),
    agent: fields.name.optional().describe('Only what this agent holds.'),
    limit: fields.limit,
    after: fields.after,
  }),
  output: () => z.object({ locks: z.array(lockView()), next: z.string().nullable() }),
  needs: ({ prefix, agent, limit, after }) => ({
    page: {
      select: 'locks',
      prefix: prefix ?? '',
      agent: agent ?? null,
      limit: limit ?? 100,
      after: after === undefined ? null : pageOf(after),
    },
  }),
  decide: ({ page }, _input, { now }) =>
    reply({ locks: page.rows.map((lock) => viewLock(lock, now)), next: page.next }),
})

function pageOf(after: string): string {
  if (/#\d{1,9}$/.test(after)) return after
  throw new InvalidError({
    what: `"${after.slice(0, 60)}" does not mark a page of this list`,
    next: 'pass `next` of the previous page, unchanged',
  })
}

export function isHeld(lock: Lock, now: number): boolean {
  return lock.delayedSince === null && !isExpired(lock, now)
}
