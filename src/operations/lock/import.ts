/** Imports locks and runs that another program left behind: once each. The locks arrive lapsed. */
import * as z from 'zod'
import { arriveLock, arriveRun } from '../../domain/arrival.ts'
import type { StoredEvent } from '../../domain/event.ts'
import type { Lock } from '../../domain/lock.ts'
import { queueOfLock } from '../../domain/queue.ts'
import { isReservationName } from '../../domain/reservation.ts'
import { runMoves } from '../../domain/run.ts'
import { uniqueBy } from '../../domain/unique.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { ask, change, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import { count } from '../run/control.ts'
import { newestEvents } from '../subject.ts'

/** Locks, and also runs, that one transaction imports. */
export const maxImportedLocks = 100
/** How many events back to look for an earlier import of a lock: once freed, it has no row, only its events. */
const maxPast = 500

export const lockEntry = lazily(() =>
  z.strictObject({
    name: fields.name.refine((name) => !isReservationName(name), {
      error: 'names beginning with "paths:" are reservations',
    }),
    holder: fields.name,
    user: fields.name.nullable().default(null),
    run: fields.name.nullable().default(null),
    reason: fields.text(2000).nullable().default(null),
    acquiredAt: fields.wallTime.nullable().default(null),
  }),
)
export type LockEntry = z.input<ReturnType<typeof lockEntry>>

export const runEntry = lazily(() =>
  z.strictObject({
    run: fields.name,
    /** The lock it ran under. If that lock is imported with it and held for it, the run continues under its token. */
    lock: fields.name,
    status: z.enum(Object.keys(runMoves) as (keyof typeof runMoves)[]),
    total: count().nullable().default(null),
    done: count().default(0),
    failed: count().default(0),
    skipped: count().default(0),
    pauseReason: fields.text(2000).nullable().default(null),
    startedAt: fields.wallTime,
    updatedAt: fields.wallTime,
  }),
)
export type RunEntry = z.input<ReturnType<typeof runEntry>>

const names = lazily(() => z.array(z.string()))
const output = view(() => ({
  locks: z.object({ imported: names(), known: names(), held: names() }),
  runs: z.object({ imported: names(), known: names() }),
}))
type LocksImported = OutputOf<typeof output>

export const importLocks = operation({
  name: 'locks.import',
  summary: 'Import locks and runs from another tool. The locks arrive lapsed.',
  effect: 'admin',
  class: 'client',
  input: () => ({
    from: fields.name,
    locks: z.array(lockEntry()).max(maxImportedLocks),
    runs: z.array(runEntry()).max(maxImportedLocks),
    dryRun: z.boolean().default(false),
  }),
  output,
  needs: ({ locks, runs }) => ({
    floor: { select: 'tokenFloor' },
    known: { select: 'runsByName', runs: runs.map(({ run }) => run) },
    ...Object.fromEntries(locks.map(({ name }) => [`lock ${name}`, { select: 'lock', name }])),
    ...Object.fromEntries(
      locks.map(({ name }) => [`past ${name}`, pastOf('lock', lockRef({ name, slot: 0 }))]),
    ),
  }),
  decide(rows, input, context): Step<LocksImported> {
    const arrived = arriveLocks(rows, input.locks, { ...context, floor: rows.floor })
    const running = new Set(rows.known.map(({ run }) => run))
    const unseen = uniqueBy(input.runs, ({ run }) => run).filter(({ run }) => !running.has(run))
    const past = Object.fromEntries(unseen.map(({ run }) => [run, pastOf('run', run)]))
    return ask(past, (events) => {
      const fresh = unseen.filter(({ run }) => (events[run] ?? []).length === 0)
      const imported = fresh.map(({ run }) => run)
      const known = input.runs.map(({ run }) => run).filter((run) => !imported.includes(run))
      const { locks, ...lists } = arrived
      const result = { locks: lists, runs: { imported, known } }
      if (input.dryRun) return reply(result)
      const tokenOf = ({ run, lock: name }: { run: string; lock: string }) =>
        locks.find(({ lock }) => lock.run === run && lock.name === name)?.lock.token ?? 0
      return {
        changes: [
          ...locks.map(({ lock, entry: { holder, acquiredAt } }) => {
            const detail = { from: input.from, holder, acquiredAt }
            return change('lock', null, lock, 'lock.imported', context, detail)
          }),
          ...fresh.map((run) => {
            const after = arriveRun({ ...run, token: tokenOf(run) }, context)
            return change('run', null, after, 'run.imported', context, { from: input.from })
          }),
        ],
        result,
      }
    })
  },
})

function pastOf(subject: 'lock' | 'run', id: string) {
  return newestEvents({ subject, id }, maxPast)
}

function arriveLocks(
  rows: object,
  entries: readonly OutputOf<typeof lockEntry>[],
  at: Parameters<typeof arriveLock>[2],
) {
  const held = (name: string) => (rows as Record<string, readonly Lock[]>)[`lock ${name}`] ?? []
  const past = (name: string) => (rows as Record<string, readonly StoredEvent[]>)[`past ${name}`] ?? []
  const locks: { lock: Lock; entry: Grant }[] = []
  const known: string[] = []
  const busy: string[] = []
  for (const entry of uniqueBy(entries, ({ name }) => name)) {
    if (past(entry.name).some((event) => isArrivalOf(event, entry))) {
      known.push(entry.name)
      continue
    }
    const slots = queueOfLock(entry.name) === null ? 1 : null
    const lock = arriveLock({ ...entry, slots }, held(entry.name), at)
    if (lock === null) busy.push(entry.name)
    else locks.push({ lock, entry })
  }
  return { locks, imported: locks.map(({ lock }) => lock.name), known, held: busy }
}

type Grant = Pick<OutputOf<typeof lockEntry>, 'holder' | 'acquiredAt'>

/** Compares the grant, because another grant of the same name is another lock. */
function isArrivalOf({ kind, detail }: StoredEvent, entry: Grant): boolean {
  return kind === 'lock.imported' && detail?.holder === entry.holder && detail.acquiredAt === entry.acquiredAt
}
