/** A task as callers see it: an item in task terms. */
import * as z from 'zod'
import { readWords, statusOf, taskQueue, taskStatuses } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { mapStep, need, type OutputOf, type Step, view } from '../operation.ts'
import { type ItemView, itemView } from '../view.ts'

export const status = lazily(() => z.enum(taskStatuses))
export const ref = lazily(() => fields.ref.describe('Id or key of the task.'))
export const note = lazily(() =>
  fields.text(2000).min(1).optional().describe('Kept with the task, even when its holder is lost.'),
)

export const taskView = view(() => ({
  id: z.string(),
  key: z.string().nullable(),
  title: z.string(),
  body: z.string(),
  status: status(),
  priority: z.number(),
  labels: z.array(z.string()),
  paths: z.array(z.string()),
  /** Whose task it is, no matter who works on it. */
  owner: z.string().nullable(),
  host: z.string().nullable(),
  /** The only agent that may claim it, and until when. */
  offeredTo: z.string().nullable(),
  offeredUntil: z.number().nullable(),
  notes: z.array(z.object({ at: z.number(), by: z.string(), text: z.string() })),
  metadata: z.unknown(),
  dependsOn: z.array(z.string()),
  waitingFor: z.array(z.string()),
  /** Who is working on it now; also null once the lease has lapsed. */
  assignee: z.string().nullable(),
  assignedAt: z.number().nullable(),
  lockUntil: z.number().nullable(),
  lease: itemView().shape.lease,
  token: z.number(),
  progress: z.unknown(),
  result: z.unknown(),
  attempts: z.number(),
  crashes: z.number(),
  quarantine: itemView().shape.quarantine,
  createdBy: z.string().nullable(),
  createdAt: z.number(),
  statusChangedAt: z.number(),
  completedAt: z.number().nullable(),
  version: z.number(),
}))
/** A task as callers see it. */
export type TaskView = OutputOf<typeof taskView>

export function viewTask(item: ItemView): TaskView {
  const { notes, ...words } = readWords(item)
  return {
    ...words,
    labels: [...words.labels],
    paths: [...words.paths],
    notes: [...notes],
    id: item.id,
    key: item.key,
    offeredTo: item.offeredTo,
    offeredUntil: item.offeredTo === null ? null : item.runAt,
    status: statusOf(item.state),
    priority: item.priority,
    dependsOn: item.blockers,
    waitingFor: item.waitingFor,
    assignee: item.holder,
    assignedAt: item.lease?.grantedAt ?? null,
    lockUntil: item.lease?.expiresAt ?? null,
    lease: item.lease,
    token: item.token,
    progress: item.progress,
    result: item.result,
    attempts: item.attempts,
    crashes: item.crashes,
    quarantine: item.quarantine,
    createdBy: item.submittedBy,
    createdAt: item.addedAt,
    statusChangedAt: item.stateChangedAt,
    completedAt: item.closedAt,
    version: item.version,
  }
}

export const taskNeeds = ({ ref }: { ref: string }) =>
  need({
    defined: { select: 'queue', name: taskQueue },
    item: { select: 'item', queue: taskQueue, ref },
  })

/** The result of an item operation, shown as a task. */
export function asTask(step: Step<ItemView>): Step<TaskView> {
  return mapStep(step, viewTask)
}
