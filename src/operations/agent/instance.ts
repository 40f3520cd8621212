/** Processes of the fleet: start, beat, end, list. Used by the runtime only. */
import * as z from 'zod'
import {
  endableInstances,
  endInstance,
  type Instance,
  isSameProcess,
  isSilent,
  type ProcessIdentity,
  silentAfterMs,
  startInstance,
} from '../../domain/instance.ts'
import { HoldfastError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Decision } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { ask, change, operation, reply, view } from '../operation.ts'
import { signedBy } from '../recovery/reclaim.ts'
import { healer } from '../recovery/report.ts'

const id = lazily(() => fields.text(100).min(1))

export const identity = lazily(() => ({
  bootId: fields.text(200).describe('Boot id of the machine.'),
  pidNamespace: fields.text(200).describe('Pid namespace, as the kernel names it.'),
  hostName: fields.text(300).describe('Name of the machine.'),
  pid: fields.whole(0).describe('Process id.'),
  startTime: fields.text(100).nullable().describe('Start time, as the kernel counts it.'),
}))

export const machine = lazily(() => {
  const { bootId, hostName, pidNamespace } = identity()
  return z.strictObject({ bootId, hostName, pidNamespace })
})

/** Which processes of a machine are listed. */
export const machineProcesses = lazily(() => ({
  machine: machine(),
  otherBoots: z.boolean().describe('Include those from before this machine restarted.'),
  after: fields.after,
}))

export const instanceView = view(() => ({
  id: z.string(),
  agent: z.string(),
  ...identity(),
  startedAt: z.number(),
  beatAt: z.number(),
  seenAt: z.number().nullable(),
  sweptAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  endReason: z.string().nullable(),
  registeredBy: z.string().nullable(),
  lostAt: z.number().nullable().describe('When something it held was first found lost, on the lease clock.'),
  lostItems: z.number().describe('How many items its process held then.'),
  lostSuspects: z.number().describe('How many of these were suspects.'),
  version: z.number(),
}))

export const start = operation({
  name: 'instance.start',
  summary: 'Register a process with the fleet.',
  effect: 'write',
  class: 'client',
  input: () => ({ id: id(), ...identity() }),
  output: instanceView,
  needs: (input) => ({ known: { select: 'instances', ids: [input.id] } }),
  decide({ known: [known] }, input, context) {
    if (known) return reply(requireSame(known, input))
    return started(input, { registeredBy: null, seenAt: context.now }, context)
  },
})

export function started(
  process: ProcessIdentity & { readonly id: string },
  how: Pick<Instance, 'registeredBy' | 'seenAt'>,
  context: Context,
): Decision<Instance> {
  const after = startInstance(process, { agent: context.agent, ...how }, context.wall)
  return { changes: [change('instance', null, after, 'instance.started', context)], result: after }
}

/** One process may have joined for many agents. */
const maxKnown = 500

export const join = operation({
  name: 'instance.join',
  summary: 'Find or register the process that a claim names.',
  effect: 'write',
  class: 'client',
  freshIds: () => 1,
  input: identity,
  output: instanceView,
  needs: ({ bootId, hostName, pidNamespace, pid }) => ({
    running: {
      select: 'machineInstances',
      machine: { bootId, hostName, pidNamespace },
      pid,
      otherBoots: false,
      after: null,
      limit: maxKnown,
    },
  }),
  decide({ running: { rows } }, input, context) {
    const known = rows.find((each) => each.agent === context.agent && isSameProcess(each, input))
    if (known) return reply(known)
    // It sends no heartbeat, so nobody may take its silence for its end.
    const process = { id: context.ids[0] as string, ...input }
    return started(process, { registeredBy: null, seenAt: null }, context)
  },
})
/** Joining twice is the same as joining once. Two processes never share an id. */
function requireSame(known: Instance, process: ProcessIdentity): Instance {
  if (known.endedAt === null && isSameProcess(known, process)) return known
  throw new HoldfastError('DUPLICATE', {
    what: `instance ${known.id} is another process (${known.pid} on ${known.hostName})`,
    next: 'join under a new id',
    facts: { field: 'id', value: known.id, existing: known.id },
  })
}

export const beat = operation({
  name: 'instance.beat',
  summary: 'Record that a process is alive and when it last swept.',
  effect: 'write',
  class: 'client',
  isUrgent: true,
  input: () => ({ id: id(), sweptAt: fields.wallTime.nullable() }),
  output: () => z.boolean(),
  needs: ({ id }) => ({ found: { select: 'instances', ids: [id] } }),
  decide({ found }, input, context) {
    const [instance] = found
    if (!instance) return reply(false)
    const after = { ...instance, beatAt: context.wall, seenAt: context.now, sweptAt: input.sweptAt }
    return { changes: [{ table: 'instance', before: instance, after }], result: instance.endedAt === null }
  },
})

export const list = operation({
  name: 'instance.list',
  summary: 'List running processes that this machine can judge.',
  effect: 'read',
  class: 'internal',
  input: () => ({ ...machineProcesses(), limit: fields.limit }),
  output: () => {
    const awakeAt = z
      .number()
      .nullable()
      .describe('For another boot: awake time of its machine at its last beat or renewal.')
    return z.object({
      instances: z.array(instanceView().extend({ awakeAt })),
      next: z.string().nullable(),
    })
  },
  needs: ({ machine, otherBoots, ...page }) => ({
    page: { select: 'machineInstances', machine, pid: null, otherBoots, ...fields.paging(page) },
  }),
  decide({ page: { rows, next } }, { machine }) {
    const others = rows.filter(({ bootId }) => bootId !== machine.bootId).map(({ id }) => id)
    const result = (times: readonly { instance: string; awakeAt: number }[]) => {
      const known = new Map(times.map(({ instance, awakeAt }) => [instance, awakeAt]))
      return { instances: rows.map((each) => ({ ...each, awakeAt: known.get(each.id) ?? null })), next }
    }
    if (others.length === 0) return reply(result([]))
    return ask({ times: { select: 'awakeTimes', instances: others } }, ({ times }) => reply(result(times)))
  },
})

const page = view(() => ({ instances: z.array(instanceView()), next: z.string().nullable() }))

/** Read in pages, by whoever looks for something to heal. */
const pages = {
  effect: 'read',
  class: 'internal',
  input: () => ({ after: fields.after }),
  output: page,
} as const

const maxEnded = 100

export const listEndedHolders = operation({
  name: 'instance.listEndedHolders',
  summary: 'List ended processes that still hold something.',
  ...pages,
  needs: ({ after }) => ({
    ended: { select: 'endedHolders', after: after ?? null, limit: maxEnded },
  }),
  decide: ({ ended: { rows, next } }) => reply({ instances: [...rows], next }),
})

const maxSilent = 500

export const listSilent = operation({
  name: 'instance.listSilent',
  summary: 'List running processes that have missed their beats for 10 minutes.',
  ...pages,
  needs: ({ after }) => ({
    silent: {
      select: 'silentInstances',
      silentMs: silentAfterMs,
      after: after ?? null,
      limit: maxSilent,
    },
  }),
  decide: ({ silent: { rows, next } }) => reply({ instances: [...rows], next }),
})

export const endSilent = operation({
  name: 'instance.endSilent',
  summary: 'End processes that have been silent for 10 minutes and hold nothing. Live ones join again.',
  effect: 'write',
  class: 'internal',
  input: () => ({ ids: z.array(id()).max(maxSilent), healer: healer().optional() }),
  output: () => z.number(),
  needs: ({ ids }) => ({
    found: { select: 'instances', ids },
    held: { select: 'heldByInstances', instances: ids },
  }),
  decide({ found, held }, input, context) {
    const { now, wall, isDoubtful } = context
    const silent = isDoubtful ? [] : found.filter((instance) => isSilent(instance, now))
    const changes = endableInstances(silent, held, []).map((before) => {
      const evidence = `no beat for ${now - (before.seenAt ?? now)} ms, and it holds nothing`
      const after = endInstance(before, evidence, wall)
      return change('instance', before, after, 'instance.ended', context, { evidence })
    })
    return { changes: signedBy(input.healer, changes), result: changes.length }
  },
})
