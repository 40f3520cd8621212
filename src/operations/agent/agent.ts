/**
 * Agents: register a process, beat, list. With a registered process, an agent gets bound leases without opening a
 * store.
 */
import * as z from 'zod'
import { suspectAgents } from '../../domain/crash-pattern.ts'
import { isSameProcess } from '../../domain/instance.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { crashNeeds } from '../lease/watch.ts'
import { type OutputOf, operation, reply } from '../operation.ts'
import { maxDeaths } from '../recovery/report.ts'
import { identity, instanceView, started } from './instance.ts'

export const register = operation({
  name: 'agents.register',
  summary:
    'Register the process that runs an agent: its leases end at once when that process is proven dead.',
  effect: 'write',
  agentIdentifies: 'request',
  freshIds: () => 1,
  facts: ['bootId', 'pidNamespace', 'hostName', 'startTime'],
  input: identity,
  output: instanceView,
  needs: (_input, { agent }) => ({ known: { select: 'registeredInstance', agent } }),
  decide({ known }, input, context) {
    if (known && isSameProcess(known, input)) {
      const after = { ...known, beatAt: context.wall }
      return { changes: [{ table: 'instance', before: known, after }], result: after }
    }
    const process = { id: context.ids[0] as string, ...input }
    return started(process, { registeredBy: context.agent, seenAt: null }, context)
  },
})

export const beat = operation({
  name: 'agents.beat',
  summary: 'Record that an agent is alive, if its registered process is.',
  effect: 'write',
  agentIdentifies: 'request',
  facts: ['dead'],
  input: () => ({
    dead: z
      .array(fields.text(100))
      .max(maxDeaths)
      .default([])
      .describe('Instances that the caller has found dead, by lack of any sign of life.'),
  }),
  output: () => z.boolean(),
  needs: (_input, { agent, instance }) => ({
    registered: { select: 'registeredInstance', agent },
    own: { select: 'instances', ids: instance === null ? [] : [instance] },
  }),
  decide({ registered, own }, { dead }, context) {
    const running = [...own, ...(registered ? [registered] : [])].filter(
      ({ id, endedAt }) => endedAt === null && !dead.includes(id),
    )
    return {
      changes: running.map((before) => ({
        table: 'instance',
        before,
        after: {
          ...before,
          beatAt: context.wall,
          seenAt: before.seenAt === null ? null : context.now,
        },
      })),
      result: running.length > 0,
    }
  },
})

const agentView = lazily(() =>
  instanceView().extend({
    crashes: z.number().describe('Leases its agent lost in the last hour.'),
    suspect: z.boolean().describe('Its last three claims all ended in a crash.'),
  }),
)
/** A running process of the fleet, as the store knows it. */
export type AgentView = OutputOf<typeof agentView>

export const list = operation({
  name: 'agents.list',
  summary: 'List running processes and anything suspicious about them.',
  effect: 'read',
  input: () => ({ limit: fields.limit }),
  output: () => z.array(agentView()),
  needs: ({ limit }) => ({
    running: { select: 'runningInstances', limit: limit ?? 100 },
    ...crashNeeds,
  }),
  decide({ running, losses, ends }) {
    const suspects = new Set(suspectAgents(ends))
    return reply(
      running.map((instance) => ({
        ...instance,
        crashes: losses.filter(({ agent }) => agent === instance.agent).length,
        suspect: suspects.has(instance.agent),
      })),
    )
  },
})
