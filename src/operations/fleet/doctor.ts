/** Finds what is wrong with the store and its fleet, from the caller's facts and the rows together. */
import * as z from 'zod'
import { lossOf, lossSubject } from '../../domain/commit-loss.ts'
import { examine, maxVainWaits } from '../../domain/doctor.ts'
import { healerSilentMs } from '../../domain/healer.ts'
import { isOrphaned, runningHosts } from '../../domain/holding.ts'
import { lastSweptAt } from '../../domain/instance.ts'
import { isUnhealthy, longTransactionMs } from '../../domain/store-check.ts'
import { wordIn } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, need, type OutputOf, operation, reply, view } from '../operation.ts'
import { newestEvents } from '../subject.ts'
import { alertsFor, fleetNeeds } from './alerts.ts'
import { heldThings, judged, titleOf } from './held.ts'
import { glancesOf, queueRows } from './queue-row.ts'

const { text } = fields
/** More would hide the other findings. */
const maxTransactions = 5
/** Every process reports what it lost. */
const maxLosses = 100
const maxNamespaces = 1000
/** How far the search for vain waits goes: it must not hold up the store. */
const waitsWindow = 10_000
const maxStranded = 5
const size = lazily(() => z.number().min(0).nullable())

const storeFacts = lazily(() =>
  z.strictObject({
    engine: z.enum(['sqlite', 'postgres']),
    location: text(4096),
    durability: z.enum(['full', 'normal']),
    schemaVersion: z.number(),
    engineVersion: text(100),
    server: z
      .strictObject({
        fsync: z.boolean(),
        synchronousCommit: text(100),
        synchronousStandbys: text(1000),
        formerStandbys: text(1000).nullable(),
      })
      .nullable(),
    version: text(100),
    node: text(100),
    wallAt: fields.wallTime,
    storeBytes: size(),
    logBytes: size(),
    freeBytes: size(),
    warnings: z
      .array(z.strictObject({ check: text(100), what: text(10_000), remedy: text(10_000) }))
      .max(20)
      .default([])
      .describe('Problems with the store itself.'),
    recoveryError: text(10_000).nullable(),
  }),
)

const doctorView = view(() => ({
  healthy: z.boolean(),
  findings: z.array(
    z.object({
      check: z.string(),
      level: z.enum(['ok', 'notice', 'warning', 'error']),
      what: z.string(),
      remedy: z.string().nullable(),
      isFixable: z.boolean(),
    }),
  ),
}))
/** Findings, each with its remedy. */
export type DoctorReport = OutputOf<typeof doctorView>

export const doctor = operation({
  name: 'fleet.doctor',
  summary: 'Check the store and its fleet, and suggest a remedy for each problem.',
  effect: 'read',
  facts: ['judged', 'store'],
  input: () => ({
    judged: judged(),
    store: storeFacts().describe('What the caller knows about the store itself.'),
    longTransactionMs: fields
      .whole(0)
      .default(longTransactionMs)
      .describe('Report transactions of other programs that have been open for this long.'),
  }),
  output: doctorView,
  needs: (input) => ({
    ...fleetNeeds,
    neglected: {
      select: 'neglectedNamespaces',
      silentMs: healerSilentMs,
      limit: maxNamespaces,
    },
    transactions: {
      select: 'longTransactions',
      openForMs: input.longTransactionMs,
      limit: maxTransactions,
    },
    vainWaits: { select: 'vainWaits', window: waitsWindow, limit: maxVainWaits },
    commitLosses: newestEvents(lossSubject, maxLosses),
    lockBlockers: { select: 'lockBlockers', limit: maxTransactions },
  }),
  decide(rows, input, context) {
    const processes = { instances: rows.running, judged: input.judged }
    const hosts = [...runningHosts(processes)]
    const needs = need({
      ...glancesOf(rows.queues.queues),
      // Ready tasks that nobody will be given, because their machine has no running process.
      stranded: { select: 'strandedTasks', hosts, limit: maxStranded + 1 },
    })
    return ask(needs, ({ glances, stranded }) => {
      const held = heldThings(rows, processes, context.now)
      const findings = examine({
        store: input.store,
        leaseClockAheadMs: context.now - context.wall,
        wallAheadMs: input.store.wallAt - context.wall,
        processes: rows.running.flatMap(({ id, agent, pid }) => {
          const seen = input.judged.find(({ instance }) => instance === id)
          return seen ? [{ ...seen, agent, pid }] : []
        }),
        lapsed: rows.lapsed.items + rows.lapsed.locks + rows.lapsed.deliveries,
        neglected: rows.neglected,
        stranded: {
          tasks: stranded
            .slice(0, maxStranded)
            .map((item) => ({ title: titleOf(item), host: wordIn(item.data.host) ?? '' })),
          more: stranded.length > maxStranded,
        },
        transactions: rows.transactions,
        vainWaits: rows.vainWaits,
        lockBlockers: rows.lockBlockers,
        commitLosses: rows.commitLosses.map(lossOf),
        wall: context.wall,
        orphaned: held.filter(({ holder }) => isOrphaned(holder)).length,
        alerts: alertsFor({
          held,
          queues: queueRows(rows, glances, context),
          glances,
          swept: lastSweptAt(rows.running),
          rows,
          context,
        }),
      })
      return reply({ healthy: !isUnhealthy(findings), findings })
    })
  },
})
