/** What a recovery did, or would do. */
import * as z from 'zod'
import type { Delivery } from '../../domain/delivery.ts'
import type { Instance } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import type { LeaseColumns } from '../../domain/lease.ts'
import { holderOf, type Lock } from '../../domain/lock.ts'
import { countRecovered, type Death, type Deaths, type Reclaimed } from '../../domain/recovery.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import * as fields from '../fields.ts'
import { type OutputOf, view } from '../operation.ts'

/** Rows that one transaction takes: keeps it under 20 ms. */
export const maxReclaimed = 100

/** Dead processes that one command can name: a dry run names all of them, a real run one batch. */
export const maxDeaths = 10_000

export const recoveryTriggers = ['claim', 'completion', 'open', 'timer', 'waiter', 'death', 'manual'] as const

export type RecoveryTrigger = (typeof recoveryTriggers)[number]

export const report = view(() => ({
  locksCleaned: z.number(),
  entriesReclaimed: z.number(),
  quarantined: z.number(),
  messagesReclaimed: z.number(),
  promoted: z.number(),
  instancesEnded: z.number(),
  waitersRemoved: z.number(),
  runsPaused: z.number(),
  recoveryTimestamp: z.number(),
  ids: z.array(z.string()),
  byState: z.record(z.string(), z.number()),
  /** What was taken, from whom and why, for the log. */
  reclaimed: z.array(
    z.object({
      kind: z.enum(['item', 'lock', 'delivery']),
      id: z.string(),
      holder: z.string().nullable(),
      expiresAt: z.number().nullable(),
      expiredForMs: z.number(),
      evidence: z.string(),
    }),
  ),
  /** True if there may be more than one transaction takes. */
  more: z.boolean(),
}))

/** What recovery gave back. */
export type RecoveryReport = OutputOf<typeof report>

export const death = lazily(() =>
  z.strictObject({
    instance: fields.text(100),
    evidence: fields.text(1000),
    isReboot: z.boolean().default(false),
  }),
)

/** The process that heals, in a namespace that is not its own. */
export const healer = lazily(() => z.strictObject({ host: fields.text(300), pid: fields.whole(0) }))

export type ProvenDeath = Death & { readonly instance: string }

/** `known`: what the store knows about these processes. */
export function deathsIn(deaths: readonly ProvenDeath[], known: readonly Instance[]): Deaths {
  const ended = new Set(known.filter(({ endedAt }) => endedAt !== null).map(({ id }) => id))
  return new Map(deaths.map(({ instance, ...how }) => [instance, { ...how, hasEnded: ended.has(instance) }]))
}

export interface Taken {
  readonly items: readonly Reclaimed<Item>[]
  readonly locks: readonly Reclaimed<Lock>[]
  readonly deliveries: readonly Reclaimed<Delivery>[]
}

function describeReclaimed({ items, locks, deliveries }: Taken): RecoveryReport['reclaimed'] {
  const told = (
    named: Pick<RecoveryReport['reclaimed'][number], 'kind' | 'id' | 'holder'>,
    { before, expiredForMs, evidence }: Reclaimed<LeaseColumns>,
  ) => ({ ...named, expiresAt: before.expiresAt, expiredForMs, evidence })
  return [
    ...items.map((each) => told({ kind: 'item', id: each.before.id, holder: each.before.agent }, each)),
    ...locks.map((each) => told({ kind: 'lock', id: each.before.name, holder: holderOf(each.before) }, each)),
    ...deliveries.map((each) =>
      told({ kind: 'delivery', id: each.before.id, holder: each.before.agent }, each),
    ),
  ]
}

interface Summary extends Taken {
  readonly lines: Pick<RecoveryReport, 'waitersRemoved' | 'runsPaused'>
  readonly promoted: number
  readonly ended: number
  readonly more: boolean
}

export const nothingTaken = {
  items: [],
  locks: [],
  deliveries: [],
  lines: { waitersRemoved: 0, runsPaused: 0 },
  promoted: 0,
  ended: 0,
}

export function summaryOf(taken: Summary, { wall }: Context): RecoveryReport {
  const { ids, byState, ...counts } = countRecovered(taken.items, taken.locks)
  return {
    ...counts,
    ids: [...ids],
    byState: { ...byState },
    messagesReclaimed: taken.deliveries.length,
    promoted: taken.promoted,
    instancesEnded: taken.ended,
    waitersRemoved: taken.lines.waitersRemoved,
    runsPaused: taken.lines.runsPaused,
    recoveryTimestamp: wall,
    reclaimed: describeReclaimed(taken),
    more: taken.more,
  }
}
