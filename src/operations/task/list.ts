/** Listing tasks, and the filter that lists and claims share. */
import * as z from 'zod'
import { builtInWorkflow } from '../../domain/built-in-workflows.ts'
import { decideLines } from '../../domain/item-lines.ts'
import { stateOfStatus, taskQueue } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import type { Caller } from '../../port/command.ts'
import type { ItemFilter } from '../../port/item.ts'
import * as fields from '../fields.ts'
import { operation, reply } from '../operation.ts'
import { asFreed, closedBlockers } from '../subject.ts'
import { viewItem } from '../view.ts'
import { status, taskView, viewTask } from './view.ts'

export const filter = lazily(() => ({
  labels: z.array(fields.name).max(20).optional().describe('Only tasks with all of these labels.'),
  owner: fields.name.nullable().optional().describe('Owner; null = none.'),
  mine: z.boolean().optional().describe('Only tasks that you own or that nobody owns.'),
  host: fields.name.nullable().optional().describe('The machine they belong on; null = none.'),
  maxPriority: fields.priority.describe('At least this urgent: lower numbers come first.'),
}))

export type TaskFilter = z.output<z.ZodObject<ReturnType<typeof filter>>>

/** `mine` matches tasks that the caller owns and tasks without an owner. */
export function itemFilter({ mine, ...wanted }: TaskFilter, agent: string): ItemFilter {
  return { ...wanted, ownerOrNone: mine ? agent : undefined }
}

type Statuses = z.output<ReturnType<typeof status>>

function statesOf(wanted: Statuses | Statuses[] | undefined): string[] | null {
  return wanted === undefined ? null : [wanted].flat().map(stateOfStatus)
}

/** Tasks that belong on the caller's machine, or on none in particular. */
export function atHome({ host }: Pick<Caller, 'host'>): ItemFilter {
  return { hostOrNone: host ?? null }
}

export const listTasks = operation({
  name: 'tasks.listTasks',
  summary: 'List tasks in claim order, then finished ones.',
  effect: 'read',
  answersAgent: true,
  input: () => ({
    status: z
      .union([status(), z.array(status()).max(4)])
      .optional()
      .describe('Only these.'),
    assignee: fields.name.optional().describe('Held by this agent.'),
    ...filter(),
    limit: fields.limit,
    after: fields.after,
  }),
  output: () => z.object({ tasks: z.array(taskView()), next: z.string().nullable() }),
  needs: ({ status: wanted, assignee, limit, after, ...asked }, { agent }) => ({
    defined: { select: 'queue', name: taskQueue },
    closed: closedBlockers,
    page: {
      select: 'items',
      queue: taskQueue,
      states: statesOf(wanted),
      ...decideLines(
        { states: statesOf(wanted), phase: null, quarantined: null, isHeld: assignee !== undefined },
        builtInWorkflow('task') ?? null,
      ),
      freedBy: null,
      quarantined: null,
      filter: { ...itemFilter(asked, agent), agent: assignee },
      ...fields.paging({ limit, after }),
    },
  }),
  decide: ({ page, defined, closed }, _input, { now }) =>
    reply({
      tasks: page.rows.map((item) => viewTask(viewItem(asFreed(item, defined, closed), now))),
      next: page.next,
    }),
})
