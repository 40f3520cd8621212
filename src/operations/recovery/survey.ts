/** Where recovery is needed: here, and in all other namespaces. Reads only; each look is bounded. */
import * as z from 'zod'
import { healerSilentMs, isHealing } from '../../domain/healer.ts'
import { silentAfterMs } from '../../domain/instance.ts'
import { instanceView, machine, machineProcesses } from '../agent/instance.ts'
import * as fields from '../fields.ts'
import { operation, reply } from '../operation.ts'

/** The oldest heals. The others matter once it has died, and a dead process soon drops off the list. */
const maxHealers = 10

export const look = operation({
  name: 'recovery.look',
  summary:
    'Say whether anything here needs recovery, which processes of this machine run it, and whether this one still counts.',
  effect: 'read',
  class: 'internal',
  input: () => ({ machine: machine(), instance: fields.text(100).min(1) }),
  output: () =>
    z.object({
      isDue: z.boolean(),
      healers: z.array(instanceView()).describe('Oldest first.'),
      hasEnded: z.boolean().describe('Other processes took the caller for dead.'),
    }),
  needs: (input) => ({
    isDue: { select: 'isHealingDue' },
    self: { select: 'instances', ids: [input.instance] },
    healers: {
      select: 'healers',
      machine: input.machine,
      silentMs: healerSilentMs,
      limit: maxHealers,
    },
  }),
  decide: ({ isDue, healers, self: [self] }, _input, { now }) =>
    reply({
      isDue,
      healers: healers.filter((instance) => isHealing(instance, now)),
      hasEnded: self === undefined || self.endedAt !== null,
    }),
})

const maxSurveyed = 1000

export const survey = operation({
  name: 'recovery.survey',
  summary: 'List other namespaces that need recovery, and their processes on this machine.',
  effect: 'read',
  class: 'internal',
  input: () => ({
    namespaces: z.strictObject({ after: fields.after }).optional().describe('Look for what is due.'),
    processes: z.strictObject(machineProcesses()).optional().describe('List processes.'),
    limit: fields.whole(1, maxSurveyed).default(maxSurveyed),
  }),
  output: () =>
    z.object({
      due: z.array(z.string()),
      namespacesNext: z.string().nullable(),
      processes: z.array(instanceView().extend({ namespace: z.string(), awakeAt: z.number().nullable() })),
      processesNext: z.string().nullable(),
    }),
  needs: ({ namespaces, processes, limit }) => ({
    namespaces: namespaces
      ? {
          select: 'dueNamespaces',
          after: namespaces.after ?? '',
          silentMs: silentAfterMs,
          limit,
        }
      : null,
    processes: processes
      ? { select: 'otherProcesses', ...processes, after: processes.after ?? '', limit }
      : null,
  }),
  decide: ({ namespaces, processes }) =>
    reply({
      due: [...(namespaces?.due ?? [])],
      namespacesNext: namespaces?.next ?? null,
      processes: (processes?.rows ?? []).map(({ instance, ...where }) => ({ ...instance, ...where })),
      processesNext: processes?.next ?? null,
    }),
})
