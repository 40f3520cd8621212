/** Queues and workflows themselves: define, pause, resume. */
import * as z from 'zod'
import { builtInWorkflow, builtInWorkflows } from '../../domain/built-in-workflows.ts'
import { assertRenewable } from '../../domain/lease.ts'
import {
  adjustQueue,
  assertSameWorkflow,
  createQueue,
  pauseQueue,
  type Queue,
  resumeQueue,
} from '../../domain/queue.ts'
import { isOneStep, isSameWorkflow, type Workflow } from '../../domain/workflow.ts'
import { assertWorkflow } from '../../domain/workflow-faults.ts'
import { InvalidError, NotFoundError } from '../../errors.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import * as fields from '../fields.ts'
import { change, type OutputOf, operation, reply, view } from '../operation.ts'
import { requireQueue, workflowOf } from '../subject.ts'

/** The queue a new item goes to; created if it does not exist yet. */
export function ensureQueue(
  defined: DefinedQueue | null,
  name: string,
  context: Context,
  workflowName: 'job' | 'merge' | 'task' = 'job',
): { queue: Queue; workflow: Workflow; changes: Change[] } {
  if (defined) return { queue: defined.queue, workflow: workflowOf(defined), changes: [] }
  const workflow = builtInWorkflow(workflowName) as Workflow
  const queue = createQueue(name, workflow, {}, context.wall)
  return { queue, workflow, changes: [change('queue', null, queue, 'queue.created', context)] }
}

const queueView = view(() => ({
  name: z.string(),
  workflow: z.string(),
  slots: z.number().nullable(),
  maxAttempts: z.number(),
  maxCrashes: z.number(),
  leaseMs: z.number().nullable(),
  manualLeaseMs: z.number().nullable(),
  backoff: z.object({ baseMs: z.number(), factor: z.number(), maxMs: z.number() }).nullable(),
  pausedAt: z.number().nullable(),
  pausedBy: z.string().nullable(),
  pauseReason: z.string().nullable(),
  createdAt: z.number(),
  version: z.number(),
}))
/** A queue and its settings. */
export type QueueView = OutputOf<typeof queueView>

export const defineWorkflow = operation({
  name: 'workflow.define',
  summary: 'Define a custom workflow. Defining the same one again is a no-op.',
  effect: 'admin',
  input: () => ({ workflow: fields.workflow }),
  output: () => z.object({ name: z.string(), defined: z.boolean() }),
  needs: ({ workflow }) => ({ stored: { select: 'workflow', name: workflow.name } }),
  decide({ stored }, input, context) {
    const workflow = input.workflow as Workflow
    assertWorkflow(workflow)
    if (stored && !isSameWorkflow(stored.definition, workflow)) {
      throw new InvalidError({
        what: `workflow "${workflow.name}" is already defined differently`,
        next: 'choose another name: items are already in states of the old one',
        facts: { workflow: workflow.name },
      })
    }
    if (stored) return reply({ name: workflow.name, defined: false })
    const after = { name: workflow.name, definition: workflow, version: 1 }
    return {
      changes: [change('workflow', null, after, 'workflow.defined', context)],
      result: { name: workflow.name, defined: true },
    }
  },
})

export const defineQueue = operation({
  name: 'queue.define',
  summary: 'Create a queue with its workflow and limits, or change the limits of one.',
  effect: 'admin',
  input: () => ({
    queue: fields.queue,
    workflow: fields.name.optional().describe('job (default), merge, task, or one you defined.'),
    slots: fields.whole(1, 100).optional().describe('Slots of the processing lock.'),
    maxAttempts: fields.maxAttempts
      .optional()
      .describe(
        'Attempts in all, the first included: once this many have failed, an item fails for good; default 3.',
      ),
    maxCrashes: fields
      .whole(0, 1000)
      .optional()
      .describe('Crashes without progress before quarantine; 0 = never.'),
    leaseMs: fields.leaseMs.describe(
      'Length of leases on its items and lock that a process renews, at least 500 ms; default that of the process.',
    ),
    manualLeaseMs: fields.leaseMs.describe(
      'Length of leases on its items and lock that nobody renews; default 300 s, 30 min for tasks.',
    ),
    backoff: fields.backoff(),
  }),
  output: queueView,
  needs: (input) => ({
    defined: { select: 'queue', name: input.queue },
    custom:
      input.workflow !== undefined && !builtInWorkflow(input.workflow)
        ? { select: 'workflow', name: input.workflow }
        : null,
  }),
  decide({ defined, custom }, input, context) {
    assertRenewable(input.leaseMs)
    if (defined) {
      if (input.workflow !== undefined) assertSameWorkflow(defined.queue, input.workflow)
      const after = adjustQueue(defined.queue, input)
      return {
        changes: after ? [change('queue', defined.queue, after, 'queue.changed', context)] : [],
        result: after ?? defined.queue,
      }
    }
    const workflow = custom?.definition ?? builtInWorkflow(input.workflow ?? 'job')
    if (!workflow) {
      throw new NotFoundError({
        what: `there is no workflow "${input.workflow}"`,
        next: `define it first; built in are ${Object.keys(builtInWorkflows).join(', ')}`,
        facts: { workflow: input.workflow },
      })
    }
    const after = createQueue(input.queue, workflow, input, context.wall)
    return { changes: [change('queue', null, after, 'queue.created', context)], result: after }
  },
})

export const describe = operation({
  name: 'queue.describe',
  summary: 'Get a queue with its workflow and limits; null when there is none.',
  effect: 'read',
  input: () => ({ queue: fields.queue }),
  output: () => queueView().nullable(),
  needs: (input) => ({ defined: { select: 'queue', name: input.queue } }),
  decide: ({ defined }) => reply(defined?.queue ?? null),
})

export const checkOneStep = operation({
  name: 'queue.checkOneStep',
  summary:
    'Say whether a claimed item of a queue can be completed or failed directly; null when there is no queue.',
  effect: 'read',
  class: 'client',
  input: () => ({ queue: fields.queue }),
  output: () => z.boolean().nullable(),
  needs: (input) => ({ defined: { select: 'queue', name: input.queue } }),
  decide: ({ defined }) => reply(defined && isOneStep(workflowOf(defined))),
})

export const listQueues = operation({
  name: 'queue.listQueues',
  summary: 'List every queue with its workflow and limits.',
  effect: 'read',
  input: () => ({}),
  output: () => z.object({ queues: z.array(queueView()) }),
  needs: () => ({ defined: { select: 'queues', names: null } }),
  decide: ({ defined }) =>
    reply({
      queues: defined.map(({ queue }) => queue).sort((left, right) => (left.name < right.name ? -1 : 1)),
    }),
})

const pauseOutput = view(() => ({ changed: z.boolean(), queue: queueView() }))

/** `after` is null if the queue already was that way. */
function switched(
  queue: Queue,
  after: Queue | null,
  kind: 'queue.paused' | 'queue.resumed',
  context: Context,
) {
  return {
    changes: after ? [change('queue', queue, after, kind, context)] : [],
    result: { changed: after !== null, queue: after ?? queue },
  }
}

export const pause = operation({
  name: 'queue.pause',
  summary: 'Pause a queue: no new claims. Held items carry on.',
  effect: 'admin',
  input: () => ({ queue: fields.queue, reason: fields.reason }),
  output: pauseOutput,
  needs: (input) => ({ defined: { select: 'queue', name: input.queue } }),
  decide({ defined }, input, context) {
    const { queue } = requireQueue(defined, input.queue)
    const after = pauseQueue(queue, context.agent, input.reason ?? null, context.wall)
    return switched(queue, after, 'queue.paused', context)
  },
})

export const resume = operation({
  name: 'queue.resume',
  summary: 'Resume a paused queue.',
  effect: 'admin',
  input: () => ({ queue: fields.queue }),
  output: pauseOutput,
  needs: (input) => ({ defined: { select: 'queue', name: input.queue } }),
  decide({ defined }, input, context) {
    const { queue } = requireQueue(defined, input.queue)
    return switched(queue, resumeQueue(queue), 'queue.resumed', context)
  },
})
