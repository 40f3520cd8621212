/** Tasks: add, get, update, and check whether an update would conflict. */
import * as z from 'zod'
import { maxBlockers } from '../../domain/dependency.ts'
import type { Item } from '../../domain/item.ts'
import { createItem } from '../../domain/item-creation.ts'
import { moveItem } from '../../domain/item-end.ts'
import { setItemBlockers } from '../../domain/item-waiting.ts'
import type { Json } from '../../domain/json.ts'
import { assertSameWorkflow } from '../../domain/queue.ts'
import {
  assertMayEdit,
  editTask,
  stateOfStatus,
  storeWords,
  type TaskEdit,
  taskQueue,
} from '../../domain/task.ts'
import { DuplicateError, InvalidError, NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Decision } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { ask, change, need, operation, reply, type Step } from '../operation.ts'
import { ensureQueue } from '../queue/define.ts'
import { finishItem } from '../queue/finish.ts'
import {
  asFreed,
  assertVersion,
  closedBlockers,
  requireItem,
  requireQueue,
  surroundingsOf,
} from '../subject.ts'
import { viewItem } from '../view.ts'
import { asTask, note, ref, status, type TaskView, taskNeeds, taskView, viewTask } from './view.ts'

const words = lazily(() => ({
  body: fields.text(100_000).optional().describe('What is to be done.'),
  labels: z.array(fields.name).max(100).optional().describe('Labels to filter by.'),
  paths: z.array(fields.text(1000).min(1)).max(100).optional().describe('Files and folders it touches.'),
  owner: fields.name.nullable().optional().describe('Owner of the task, regardless of who works on it.'),
  host: fields.name.nullable().optional().describe('The machine it belongs on.'),
  priority: fields.priority,
  metadata: fields.json().optional().describe('Any JSON of your own.'),
  dependsOn: z.array(ref()).max(maxBlockers).optional().describe('Tasks that must be done first.'),
}))
const title = lazily(() => fields.text(500).min(1).describe('A one-line title.'))

/** The descriptive fields of a task, the same however it gets here. */
export const taskWords = lazily(() => {
  const { body, labels, paths, owner, host } = words()
  const notes = z.array(z.object({ at: fields.wallTime, by: fields.name, text: fields.text(2000) }))
  return z.object({ title: title(), body, labels, paths, owner, host, notes })
})

/** Each dependency by id or key, under its own name. */
function dependencyNeeds(refs: readonly string[]) {
  return Object.fromEntries(
    refs.map((each) => [`on ${each}`, { select: 'item', queue: taskQueue, ref: each } as const]),
  )
}

function dependencies(rows: object, refs: readonly string[]): Item[] {
  return refs.map((each) => {
    const found = (rows as Record<string, Item | null>)[`on ${each}`]
    if (found) return found
    throw new NotFoundError({
      what: `the task "${each}" that it depends on does not exist`,
      next: 'add that task first',
      facts: { dependsOn: each },
    })
  })
}

/** The queue of tasks, created on first use. */
function taskQueueOf(rows: { defined: Parameters<typeof ensureQueue>[0] }, context: Context) {
  const ensured = ensureQueue(rows.defined, taskQueue, context, 'task')
  assertSameWorkflow(ensured.queue, 'task')
  return ensured
}

export const addTask = operation({
  name: 'tasks.addTask',
  summary: 'Add a task.',
  effect: 'write',
  freshIds: () => 1,
  input: () => ({
    title: title(),
    key: fields.name.optional().describe('Your own name for it, such as T-12; unique while it is open.'),
    ...words(),
  }),
  output: taskView,
  needs: (input) => ({
    defined: { select: 'queue', name: taskQueue },
    sameKey: input.key === undefined ? null : { select: 'openItemByKey', queue: taskQueue, key: input.key },
    tokenFloor: { select: 'tokenFloor' },
    ...dependencyNeeds(input.dependsOn ?? []),
  }),
  decide(rows, input, context) {
    const { queue, workflow, changes } = taskQueueOf(rows, context)
    if (rows.sameKey)
      throw new DuplicateError(
        { field: 'key', value: input.key as string, existing: rows.sameKey.id },
        'use that task, or change it with updateTask()',
      )
    const { body = '', labels = [], paths = [], owner = null, host = null, metadata = null } = input
    const item = createItem(
      {
        id: context.ids[0] as string,
        queue: taskQueue,
        key: input.key,
        priority: input.priority,
        blockers: dependencies(rows, input.dependsOn ?? []),
        maxAttempts: queue.maxAttempts,
        submittedBy: context.agent,
        tokenFloor: rows.tokenFloor,
        ...storeWords({ title: input.title, body, labels, paths, owner, host, metadata: metadata as Json }),
      },
      workflow,
      context.wall,
    )
    assertSize(item)
    return {
      changes: [...changes, change('item', null, item, 'item.created', context)],
      result: viewTask(viewItem(item, context.now)),
    }
  },
})

/** The same limit as for every payload. */
function assertSize(item: Item): void {
  fields.assertSize('task', [item.payload, item.data])
}

export const getTask = operation({
  name: 'tasks.getTask',
  summary: 'Get a task by id or key; null when there is none.',
  effect: 'read',
  input: () => ({ ref: ref() }),
  output: () => taskView().nullable(),
  needs: (input) => ({ ...taskNeeds(input), closed: closedBlockers }),
  decide: ({ item, defined, closed }, _input, { now }) =>
    reply(item ? viewTask(viewItem(asFreed(item, defined, closed), now)) : null),
})

export const updateTask = operation({
  name: 'tasks.updateTask',
  summary: 'Update a task if it is still at the version you read. A held task only as its holder.',
  effect: 'write',
  input: () => ({
    ref: ref(),
    token: fields.token,
    expectedVersion: fields.expectedVersion,
    title: title().optional(),
    ...words(),
    status: status().optional().describe('A state that is not held; In Progress is reached by a claim.'),
    progress: fields.json().optional().describe('Progress of the work; only its holder can set it.'),
    note: note(),
    force: z.boolean().optional().describe('Do it even if another agent holds it; needs a reason.'),
    reason: fields.reason,
  }),
  output: taskView,
  needs: (input) => ({ ...taskNeeds(input), ...dependencyNeeds(input.dependsOn ?? []) }),
  decide(rows, input, context): Step<TaskView> {
    const { ref, token, expectedVersion, status: to, dependsOn, force, reason, ...edit } = input
    if (force && !reason) {
      throw new InvalidError({
        what: '`force` changes a task that another agent holds',
        next: 'say why, with `reason`',
      })
    }
    const item = requireItem(rows.item, taskQueue, ref, token)
    const { workflow } = requireQueue(rows.defined, taskQueue)
    const { late } = assertMayEdit(item, { agent: context.agent, token, force }, context)
    assertVersion(item, expectedVersion)
    const edited = editTask(item, edit as TaskEdit, context.agent, context.wall)
    if (dependsOn === undefined) {
      const moved = to === undefined ? null : moveItem(edited, workflow, stateOfStatus(to), context)
      return asTask(update(moved ?? edited))
    }
    if (to !== undefined) {
      throw new InvalidError({
        what: 'one update cannot change both the status and what a task depends on',
        next: 'make two updates',
      })
    }
    const blockers = dependencies(rows, dependsOn)
    const more = need({
      ...surroundingsOf(item.id, [...item.ancestors.slice(-1), ...blockers.map(({ id }) => id)]),
      parent: item.parent === null ? null : { select: 'itemsById', ids: [item.parent] },
    })
    return ask(more, ({ dependents, awaited, parent }) => {
      const waits = { blockers: [...(parent ?? []), ...blockers], dependents, awaited }
      // It is open, so there is nothing to free, and no more rows are needed.
      return asTask(update(setItemBlockers(edited, workflow, waits))) as Decision<TaskView>
    })

    function update(task: Item) {
      // One call raises the version by one.
      const after = { ...task, version: item.version + 1 }
      assertSize(after)
      const kind = to === undefined ? 'item.updated' : 'item.moved'
      const detail = reason === undefined ? {} : { detail: { reason } }
      return finishItem(item, after, { kind, ...detail }, context, late)
    }
  },
})

export const checkUpdateConflict = operation({
  name: 'tasks.checkUpdateConflict',
  summary: 'Say whether a task has changed since the version you read.',
  effect: 'read',
  input: () => ({ ref: ref(), expectedVersion: z.int().positive().describe('The version you read.') }),
  output: () => z.object({ hasConflict: z.boolean(), currentVersion: z.number() }),
  needs: (input) => ({ item: { select: 'item', queue: taskQueue, ref: input.ref } }),
  decide({ item: found }, input) {
    const item = requireItem(found, taskQueue, input.ref)
    return reply({ hasConflict: item.version !== input.expectedVersion, currentVersion: item.version })
  },
})
