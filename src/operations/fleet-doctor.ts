/** What is wrong with the store and its fleet: the facts of whoever looks, judged together with the rows. */
import * as z from 'zod'
import { examine, isUnhealthy } from '../domain/doctor.ts'
import { alertsFor, countNeeds, fleetNeeds, heldThings, judged, queueRows, sweptAt } from './fleet.ts'
import { ask, operation } from './operation.ts'

const size = z.number().min(0).nullable()

const storeFacts = z.strictObject({
  engine: z.string().max(100),
  location: z.string().max(4096),
  durability: z.enum(['full', 'normal']),
  schemaVersion: z.number(),
  engineVersion: z.string().max(100),
  version: z.string().max(100),
  node: z.string().max(100),
  storeBytes: size,
  logBytes: size,
  freeBytes: size,
  recoveryError: z.string().max(10_000).nullable(),
})

const doctorView = z.object({
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
})
/** Findings, each with its remedy. */
export type DoctorReport = z.output<typeof doctorView>

export const doctor = operation({
  name: 'fleet.doctor',
  summary: 'What is wrong with the store and its fleet; each finding with its remedy.',
  effect: 'read',
  input: z.strictObject({
    judged,
    store: storeFacts.describe('What whoever looks knows of the store itself.'),
  }),
  output: doctorView,
  needs: () => fleetNeeds,
  decide(rows, input, context) {
    return ask(countNeeds(rows.queues), (counts) => {
      const held = heldThings(rows, { instances: rows.running, judged: input.judged }, context.now)
      const findings = examine({
        store: input.store,
        clockAheadMs: context.now - context.wall,
        processes: rows.running.flatMap(({ id, agent, pid }) => {
          const seen = input.judged.find(({ instance }) => instance === id)
          return seen ? [{ ...seen, agent, pid }] : []
        }),
        lapsed: rows.lapsed.items + rows.lapsed.locks + rows.lapsed.deliveries,
        orphaned: held.filter(({ holder }) => holder.kind === 'bound' && holder.liveness === 'dead').length,
        alerts: alertsFor({
          held,
          queues: queueRows(rows.queues, counts, context),
          swept: sweptAt(rows.running),
          rows,
          context,
        }),
      })
      return { changes: [], result: { healthy: !isUnhealthy(findings), findings } }
    })
  },
})
