/** Processes of the fleet: start, beat, end, list. The runtime's own. */
import * as z from 'zod'
import {
  endInstance,
  type Instance,
  isSameProcess,
  type ProcessIdentity,
  startInstance,
} from '../domain/instance.ts'
import { HoldfastError } from '../errors.ts'
import { lazily } from '../lazily.ts'
import * as fields from './fields.ts'
import { operation } from './operation.ts'

const id = lazily(() => fields.text(100).min(1))

export const identity = lazily(() => ({
  bootId: fields.text(200).describe('Which start of the machine.'),
  pidNamespace: fields.text(200).describe('Which container, as the kernel names it.'),
  hostName: fields.text(300).describe('Name of the machine.'),
  pid: z.int().min(0).describe('Number of the process.'),
  startTime: fields.text(100).nullable().describe('When it was started, as the kernel counts.'),
}))

export const instanceView = lazily(() =>
  z.object({
    id: z.string(),
    agent: z.string(),
    ...identity(),
    startedAt: z.number(),
    beatAt: z.number(),
    sweptAt: z.number().nullable(),
    endedAt: z.number().nullable(),
    endReason: z.string().nullable(),
    registeredBy: z.string().nullable(),
    version: z.number(),
  }),
)

export const start = operation({
  name: 'instance.start',
  summary: 'A process joins the fleet.',
  effect: 'write',
  internal: true,
  input: () => z.strictObject({ id: id(), ...identity() }),
  output: instanceView,
  needs: (input) => ({ known: { select: 'instances', ids: [input.id] } as const }),
  decide({ known: [known] }, input, context) {
    if (known) return { changes: [], result: requireSame(known, input) }
    const after = startInstance(input, { agent: context.agent, registeredBy: null }, context.wall)
    return {
      changes: [
        { table: 'instance', before: null, after, event: { kind: 'instance.started', agent: context.agent } },
      ],
      result: after,
    }
  },
})

/** Processes among which one that a claim names is looked for. */
const knownMax = 500

export const join = operation({
  name: 'instance.join',
  summary: 'The process that a single claim names: known already, or from now on.',
  effect: 'write',
  internal: true,
  freshIds: () => 1,
  input: () => z.strictObject(identity()),
  output: instanceView,
  needs: () => ({ running: { select: 'runningInstances', limit: knownMax } as const }),
  decide({ running }, input, context) {
    const known = running.find((each) => each.agent === context.agent && isSameProcess(each, input))
    if (known) return { changes: [], result: known }
    const named = { agent: context.agent, registeredBy: null }
    const after = startInstance({ id: context.ids[0] as string, ...input }, named, context.wall)
    const event = { kind: 'instance.started', agent: context.agent } as const
    return { changes: [{ table: 'instance', before: null, after, event }], result: after }
  },
})
/** Joining twice is joining once; ids are never used by two. */
function requireSame(known: Instance, process: ProcessIdentity): Instance {
  if (known.endedAt === null && isSameProcess(known, process)) return known
  throw new HoldfastError('DUPLICATE', {
    what: `instance ${known.id} is another process (${known.pid} on ${known.hostName})`,
    next: 'join under a new id',
    facts: { id: known.id },
  })
}

export const beat = operation({
  name: 'instance.beat',
  summary: 'A process shows that it lives and when it last looked for things to heal.',
  effect: 'write',
  internal: true,
  input: () => z.strictObject({ id: id(), sweptAt: fields.wallTime.nullable() }),
  output: () => z.boolean(),
  needs: ({ id }) => ({ found: { select: 'instances', ids: [id] } as const }),
  decide({ found }, input, context) {
    const [instance] = found
    if (!instance) return { changes: [], result: false }
    const after = { ...instance, beatAt: context.wall, sweptAt: input.sweptAt }
    return { changes: [{ table: 'instance', before: instance, after }], result: instance.endedAt === null }
  },
})

export const end = operation({
  name: 'instance.end',
  summary: 'A process leaves the fleet in good order.',
  effect: 'write',
  internal: true,
  input: () => z.strictObject({ id: id(), reason: fields.text(200) }),
  output: () => z.boolean(),
  needs: ({ id }) => ({ found: { select: 'instances', ids: [id] } as const }),
  decide({ found }, input, context) {
    const [instance] = found
    if (!instance || instance.endedAt !== null) return { changes: [], result: false }
    const after = endInstance(instance, input.reason, context.wall)
    return {
      changes: [
        {
          table: 'instance',
          before: instance,
          after,
          event: { kind: 'instance.ended', agent: context.agent },
        },
      ],
      result: true,
    }
  },
})

export const list = operation({
  name: 'instance.list',
  summary: 'Running processes of the fleet.',
  effect: 'read',
  internal: true,
  input: () => z.strictObject({ limit: fields.limit }),
  output: () => z.array(instanceView()),
  needs: ({ limit }) => ({ running: { select: 'runningInstances', limit: limit ?? 100 } as const }),
  decide: ({ running }) => ({ changes: [], result: [...running] }),
})
