/** What ends a task or its lease: renew, release, review, complete, hand over, drop. */
import * as z from 'zod'
import type { Item } from '../../domain/item.ts'
import { assertHolds, completeItem, isCompletedUnder, moveItem, releaseItem } from '../../domain/item-end.ts'
import { assertUnneeded } from '../../domain/item-waiting.ts'
import {
  assertMayRemove,
  handTo,
  noteTask,
  offerMsDefault,
  stateOfStatus,
  taskQueue,
} from '../../domain/task.ts'
import { HeldError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Loaded } from '../../port/selector.ts'
import * as fields from '../fields.ts'
import { ask, change, type InputWith, mapStep, operation, reply, type Step } from '../operation.ts'
import { removal } from '../queue/control.ts'
import { dependentsOf, freed } from '../queue/dependents.ts'
import { finishItem, refusedRelease, renew } from '../queue/finish.ts'
import { assertVersion, requireItem, requireQueue } from '../subject.ts'
import { viewItem } from '../view.ts'
import { asTask, note, ref, type TaskView, taskNeeds, taskView, viewTask } from './view.ts'

const target = lazily(() => ({ ref: ref(), token: fields.token }))

/** What most operations on one task have in common. */
const taskWrite = { effect: 'write', output: taskView, needs: taskNeeds } as const

export const renewLease = operation({
  name: 'tasks.renewLease',
  summary: 'Renew the lease of a task for its full length.',
  ...taskWrite,
  input: () => ({ ...target(), leaseMs: fields.leaseMs }),
  decide: (rows, input, context) => asTask(renew.decide(rows, { ...input, queue: taskQueue }, context)),
})

export const releaseTask = operation({
  name: 'tasks.releaseTask',
  summary: 'Release a task you hold. If somebody else holds it, the refusal names the holder.',
  effect: 'write',
  input: () => ({
    ...target(),
    status: z.enum(['Todo', 'Review', 'Done']).optional().describe('Where it goes; default Todo.'),
    note: note(),
  }),
  output: () => z.boolean(),
  needs: taskNeeds,
  decide(rows, input, context) {
    if (!rows.item && input.token !== undefined) return reply(false)
    const item = requireItem(rows.item, taskQueue, input.ref)
    const { workflow } = requireQueue(rows.defined, taskQueue)
    if (item.phase !== 'held') return refusedRelease(item, input.token, context)
    if (item.token !== input.token) {
      throw new HeldError(
        {
          subject: `task ${item.key ?? item.id}`,
          holder: item.agent ?? 'an unknown agent',
          expiresAt: item.expiresAt,
        },
        'only its holder can release it; if that is you, give the token of your grant',
      )
    }
    const { late } = assertHolds(item, { agent: context.agent, token: input.token }, context.now)
    const noted = noteTask(item, input.note, context.agent, context.wall)
    const to = stateOfStatus(input.status ?? 'Todo')
    const after =
      to === 'todo' ? releaseItem(noted, workflow, context) : moveItem(noted, workflow, to, context)
    const kind = to === 'todo' ? 'item.released' : 'item.moved'
    return mapStep(finishItem(item, after as Item, { kind }, context, late), () => true)
  },
})

const finishInput = lazily(() => ({ ...target(), note: note(), expectedVersion: fields.expectedVersion }))
const completeInput = lazily(() => ({ ...finishInput(), result: fields.result }))

export const reviewTask = operation({
  name: 'tasks.reviewTask',
  summary: 'Send a task to review and release its lease.',
  ...taskWrite,
  input: finishInput,
  decide: (rows, input, context) => end(rows, input, context, 'review'),
})

export const completeTask = operation({
  name: 'tasks.completeTask',
  summary: 'Complete a task you hold, or one in review. Tasks that depended on it become ready.',
  ...taskWrite,
  input: completeInput,
  decide: (rows, input, context) => end(rows, input, context, 'done'),
})

/** A held task needs its token. A free one can move wherever its state allows. */
function end(
  rows: Loaded<ReturnType<typeof taskNeeds>>,
  input: InputWith<typeof completeInput>,
  context: Context,
  to: 'review' | 'done',
): Step<TaskView> {
  const item = requireItem(rows.item, taskQueue, input.ref, input.token)
  const { workflow } = requireQueue(rows.defined, taskQueue)
  // A repeated call: the answer to the first one may have been lost.
  if (to === 'done' && isCompletedUnder(item, input.token)) return same()
  const isGuarded = item.phase === 'held' || input.token !== undefined
  const claimant = { agent: context.agent, token: input.token }
  const { late } = isGuarded ? assertHolds(item, claimant, context.now) : { late: false }
  assertVersion(item, input.expectedVersion)
  const noted = noteTask(item, input.note, context.agent, context.wall)
  const result = input.result ?? null
  if (item.phase === 'held' && to === 'done') {
    const after = completeItem(noted, workflow, result, context)
    return asTask(finishItem(item, after, { kind: 'item.completed' }, context, late))
  }
  const moved = moveItem(noted, workflow, to, context)
  if (moved === null) return same()
  const kind = to === 'done' ? 'item.completed' : 'item.moved'
  return asTask(finishItem(item, { ...moved, result }, { kind }, context, late))

  function same() {
    return reply(viewTask(viewItem(item, context.now)))
  }
}

const maxHandoff = 200

export const handoff = operation({
  name: 'tasks.handoff',
  summary: 'Release every task an agent holds, with a note for the next one; up to 200 per call.',
  effect: 'write',
  agentIdentifies: 'request',
  input: () => ({
    note: note(),
    to: fields.name
      .nullable()
      .optional()
      .describe('The new owner, to whom they are offered first; null = nobody.'),
    offerMs: fields.leaseMs.describe(
      'How long only the new owner may claim them; default 10 min, 0 = anybody at once.',
    ),
  }),
  output: () =>
    z.object({
      tasks: z.array(z.object({ id: z.string(), token: z.number() })),
      more: z.boolean(),
    }),
  needs: (_input, caller) => ({
    defined: { select: 'queue', name: taskQueue },
    // Another process with the same agent name is a stranger: what it renews stays with it.
    held: { select: 'itemsOfAgent', ...caller, queue: taskQueue, limit: maxHandoff },
  }),
  decide({ defined, held }, input, context) {
    const tasks = held.map(({ id, token }) => ({ id, token }))
    const result = { tasks, more: held.length === maxHandoff }
    if (held.length === 0) return reply(result)
    const { workflow } = requireQueue(defined, taskQueue)
    const changes = held.map((item) => {
      const noted = noteTask(item, input.note, context.agent, context.wall)
      const free = releaseItem(noted, workflow, context)
      const { to, offerMs = offerMsDefault } = input
      const after = to === undefined ? free : handTo(free, workflow, { to, offerMs, wall: context.wall })
      return change('item', item, after, 'item.released', context, {
        act: 'handoff',
        to,
        offeredUntil: after.offeredTo === null ? undefined : (after.runAt ?? undefined),
      })
    })
    return { changes, result }
  },
})

/** How many of the waiting tasks a refusal names. */
const maxNamed = 10

/** There is no state for a dropped task: it is gone, and its events say who dropped it and why. */
export const removeTask = operation({
  name: 'tasks.removeTask',
  summary:
    'Drop a task; its events stay. Refused while it is held or others wait for it, unless told otherwise.',
  effect: 'write',
  needsReason: true,
  input: () => ({
    ref: ref(),
    reason: fields.operatorReason(),
    force: z.boolean().optional().describe('Do it even if somebody holds it; the holder loses it.'),
    dependents: z
      .enum(['release'])
      .optional()
      .describe('What to do with tasks that depend on it: release them.'),
    expectedVersion: fields.expectedVersion,
  }),
  output: () => z.boolean(),
  needs: taskNeeds,
  decide({ item }, { reason, force, dependents, expectedVersion }, context) {
    if (!item) return reply(false)
    assertVersion(item, expectedVersion)
    assertMayRemove(item, { force }, context)
    return ask(dependentsOf(item.id), ({ waiting }) => {
      if (dependents !== 'release') {
        const some = waiting.slice(0, maxNamed).map((dependent) => dependent.item)
        const next = 'remove or change those first, or release them as well (`dependents: release`)'
        assertUnneeded(item, some, next)
      }
      return {
        changes: [removal(item, context, { reason }), ...freed(waiting, item.id, context)],
        result: true,
      }
    })
  },
})
