/** The whole fleet at a glance: queues, what is held and by whom, agents, runs, messages, healing, alerts. */
import * as z from 'zod'
import { suspectAgents } from '../../domain/crash-pattern.ts'
import { isLost, type Judged } from '../../domain/holding.ts'
import { type Instance, lastSweptAt } from '../../domain/instance.ts'
import { crashNeeds } from '../lease/watch.ts'
import { ask, type OutputOf, operation, reply, view } from '../operation.ts'
import { runView, viewRun } from '../run/view.ts'
import { alertsFor, alertView, type CrashRows } from './alerts.ts'
import { type HeldView, heldNeeds, heldThings, heldView, isOver, judged } from './held.ts'
import { glancesOf, queueRow, queueRows, watchedNeed } from './queue-row.ts'

/** How many held things are shown. */
const maxShown = 20
/** Processes that send messages check at least every 10 s. */
const unsentMs = 60_000
/** How many adapters are named. */
const maxUnsent = 5
/** Dead letters are counted up to this number. */
const maxLetters = 100

const statusView = view(() => ({
  at: z.number(),
  queues: z.array(queueRow()).describe('By name; if there are many, the hundred that most need attention.'),
  moreQueues: z.boolean().describe('There are more queues than shown.'),
  held: z.object({
    total: z.number(),
    expired: z.number(),
    stale: z.number(),
    /** Soonest expiry first. */
    shown: z.array(heldView()),
  }),
  agents: z.array(
    z.object({
      agent: z.string(),
      processes: z.number(),
      alive: z.number(),
      dead: z.number(),
      holds: z.number(),
      beatAt: z.number().nullable(),
      crashes: z.number(),
      suspect: z.boolean(),
    }),
  ),
  runs: z.array(runView()),
  messages: z.object({ pending: z.number(), dead: z.number() }),
  recovery: z.object({
    /** What a recovery run would free now. */
    due: z.number(),
    lastRunAt: z.number().nullable(),
    lastSweptAt: z.number().nullable(),
  }),
  alerts: z.array(alertView()),
}))
/** The whole fleet at a glance. */
export type FleetStatus = OutputOf<typeof statusView>

export const fleetNeeds = {
  ...heldNeeds,
  ...crashNeeds,
  queues: watchedNeed,
  runs: { select: 'runPage', status: 'running', after: null, limit: maxShown } as const,
  pending: { select: 'openMessageCount', sender: null } as const,
  letters: { select: 'messages', phase: 'dead', sender: null, after: null, limit: maxLetters } as const,
  unsent: { select: 'overdueDeliveries', overdueMs: unsentMs, limit: maxUnsent } as const,
  history: { select: 'recoveryHistory', queue: null } as const,
  lapsed: { select: 'lapsedCounts', queue: null, name: null, instances: [] } as const,
}

export const status = operation({
  name: 'fleet.status',
  summary: 'Show the whole fleet: queues, who holds what, agents, runs, messages, alerts.',
  effect: 'read',
  facts: ['judged'],
  input: () => ({ judged: judged() }),
  output: statusView,
  needs: () => fleetNeeds,
  decide(rows, input, context) {
    return ask(glancesOf(rows.queues.queues), ({ glances }) => {
      const held = heldThings(rows, { instances: rows.running, judged: input.judged }, context.now)
      const queues = queueRows(rows, glances, context)
      const swept = lastSweptAt(rows.running)
      return reply({
        at: context.wall,
        queues,
        moreQueues: rows.queues.more,
        held: {
          total: held.length,
          expired: held.filter(({ holder }) => isOver(holder)).length,
          stale: held.filter(({ holder }) => holder.status === 'stale').length,
          shown: held.slice(0, maxShown),
        },
        agents: agentRows(rows, held, input.judged),
        runs: rows.runs.rows.map((run) => viewRun(run, context.now)),
        messages: { pending: rows.pending, dead: rows.letters.rows.length },
        recovery: {
          due: dueNow(rows.lapsed, held),
          lastRunAt: rows.history.last?.at ?? null,
          lastSweptAt: swept,
        },
        alerts: alertsFor({ held, queues, glances, swept, rows, context }),
      })
    })
  },
})

/** Lapsed leases, plus those that dead holders have and that have not lapsed yet. */
function dueNow(lapsed: Lapsed, held: readonly HeldView[]): number {
  const orphans = held.filter(({ holder }) => isLost(holder) && !isOver(holder)).length
  return lapsed.items + lapsed.locks + lapsed.deliveries + orphans
}

interface Lapsed {
  readonly items: number
  readonly locks: number
  readonly deliveries: number
}

/** Every agent that has a process here, holds something, or lost something in the last hour. */
function agentRows(
  rows: {
    readonly running: readonly Instance[]
    readonly losses: readonly { readonly agent: string }[]
    readonly ends: CrashRows
  },
  held: readonly HeldView[],
  seen: readonly Judged[],
): FleetStatus['agents'] {
  const suspects = new Set(suspectAgents(rows.ends))
  const names = new Set([
    ...rows.running.map(({ agent }) => agent),
    ...held.flatMap(({ holder }) => holder.agent ?? []),
    ...rows.losses.map(({ agent }) => agent),
  ])
  return [...names].sort().map((agent) => {
    const processes = rows.running.filter((each) => each.agent === agent)
    const count = (liveness: Judged['liveness']) =>
      processes.filter(({ id }) => seen.some((each) => each.instance === id && each.liveness === liveness))
        .length
    return {
      agent,
      processes: processes.length,
      alive: count('alive'),
      dead: count('dead'),
      holds: held.filter(({ holder }) => holder.agent === agent).length,
      beatAt: processes.length === 0 ? null : Math.max(...processes.map(({ beatAt }) => beatAt)),
      crashes: rows.losses.filter((loss) => loss.agent === agent).length,
      suspect: suspects.has(agent),
    }
  })
}
