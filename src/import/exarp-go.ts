/**
 * Imports the tasks of exarp-go from its SQLite file (`.todo2/todo2.db`), with tags, dependencies and comments. Each
 * becomes a task under its old id. The file is only read. Importing twice is a no-op.
 */

import * as z from 'zod'
import type { Json } from '../domain/json.ts'
import { taskQueue } from '../domain/task.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { check } from '../issue.ts'
import { type Arriving, bringItems, type Harvest, type UnfitRow } from './items.ts'
import type { ImportOptions, ImportReport } from './report.ts'
import { firstIssue, parseBounded, timeOf } from './source.ts'
import { type Row, readTables } from './sqlite-file.ts'
import { asArriving, type ForeignTask } from './task.ts'

const what = 'the database of exarp-go'

const text = z.string().nullish()
const time = z.union([z.string(), z.number()]).nullish()
const taskRow = z.looseObject({
  id: z.string().min(1),
  name: text,
  content: text,
  long_description: text,
  status: z.string(),
  priority: text,
  created: time,
  created_ts: time,
  created_at: time,
  completed_at: time,
  metadata: text,
  metadata_format: text,
  assignee: text,
  assigned_at: time,
  assigned_to: text,
  host: text,
})
type Task = z.output<typeof taskRow>

/** Imports the tasks of exarp-go. `path`: its SQLite file. */
export async function importExarpGo(
  hf: Holdfast,
  path: string,
  options: ImportOptions = {},
): Promise<ImportReport> {
  const tables = readTables(path, {
    what,
    needed: ['tasks'],
    optional: ['task_tags', 'task_dependencies', 'task_comments'],
  })
  const { wall } = await hf.execute('clock.read', {})
  const destination = { from: 'exarp-go', what, queue: taskQueue, workflow: 'task' } as const
  return bringItems(hf, harvestOf(tables, wall), destination, options)
}

function harvestOf(tables: ReadonlyMap<string, readonly Row[]>, now: number): Harvest {
  const tags = grouped(tables.get('task_tags'), 'task_id')
  const dependencies = grouped(tables.get('task_dependencies'), 'task_id')
  const comments = grouped(tables.get('task_comments'), 'task_id')
  const bad: UnfitRow[] = []
  const tasks = (tables.get('tasks') ?? []).flatMap((found, index) => {
    const parsed = check(taskRow, found)
    const row = `task ${typeof found.id === 'string' ? found.id : `number ${index + 1}`}`
    if (parsed.isSound && statuses.has(parsed.value.status)) return [{ task: parsed.value, row }]
    bad.push({
      row,
      why: parsed.isSound ? `its status is ${parsed.value.status}` : firstIssue(parsed.issues),
      name: found.id,
    })
    return []
  })
  const open = new Set(
    tasks.filter(({ task }) => statuses.get(task.status) !== 'done').map(({ task }) => task.id),
  )
  const arriving: Arriving[] = tasks.map(({ task, row }) => {
    const waitsFor = (dependencies.get(task.id) ?? []).map((each) => String(each.depends_on_id))
    const around = {
      row,
      waitsFor,
      waits: waitsFor.some((id) => open.has(id)),
      tags: tags.get(task.id) ?? [],
      comments: comments.get(task.id) ?? [],
    }
    return asArriving(taskOf(task, around), now)
  })
  return { arriving, bad, skipped: [] }
}

function grouped(rows: readonly Row[] | undefined, column: string): Map<unknown, Row[]> {
  const groups = new Map<unknown, Row[]>()
  for (const row of rows ?? []) {
    const group = groups.get(row[column])
    if (group) group.push(row)
    else groups.set(row[column], [row])
  }
  return groups
}

/** Blocked and Cancelled exist only in later versions. */
const statuses: ReadonlyMap<string, ForeignTask['state']> = new Map([
  ['Todo', 'todo'],
  ['In Progress', 'in_progress'],
  ['Review', 'review'],
  ['Done', 'done'],
  ['Blocked', 'todo'],
  ['Cancelled', 'done'],
])

const priorities: ReadonlyMap<string, number> = new Map([
  ['critical', 1],
  ['high', 3],
  ['medium', 5],
  ['low', 7],
])
const priorityOfNone = 5

/** Columns that have a counterpart here, and those that serve only searches there. */
const placed = new Set([
  'id',
  'name',
  'content',
  'long_description',
  'priority',
  'assignee',
  'assigned_to',
  'host',
  'lock_until',
  'assigned_at',
  'metadata',
  'metadata_protobuf',
  'metadata_format',
  'status_enum',
  'priority_enum',
  'priority_rank',
  'created_ts',
  'last_modified_ts',
  'completed_at_ts',
  'version',
])

/** What other tables say about a task. */
interface Around {
  readonly row: string
  readonly waitsFor: readonly string[]
  /** Whether at least one of these is not done. */
  readonly waits: boolean
  readonly tags: readonly Row[]
  readonly comments: readonly Row[]
}

function taskOf(task: Task, { row, waitsFor, waits, tags, comments }: Around): ForeignTask {
  const title = task.name || firstLine(task.content) || task.id
  const state = statuses.get(task.status) as ForeignTask['state']
  const isLost = task.metadata_format === 'protobuf' && !task.metadata
  return {
    from: 'exarp-go',
    row,
    key: task.id,
    title,
    texts: [task.content === title ? '' : (task.content ?? ''), task.long_description ?? ''],
    labels: tags.map(({ tag }) => String(tag)),
    owner: task.assigned_to || null,
    host: task.host || null,
    notes: comments.map((each) => ({
      at: timeOf(each.created) ?? timeOf(each.created_at) ?? 0,
      by: 'exarp-go',
      text: `${each.comment_type}: ${each.content}`,
    })),
    metadata: { exarpGo: restOf(task), ...metadataOf(task) },
    state,
    holder: state === 'in_progress' ? task.assignee || null : null,
    keptBack: task.status === 'Blocked' && !waits ? 'imported from exarp-go in status Blocked' : null,
    priority: priorities.get(task.priority?.toLowerCase() ?? '') ?? priorityOfNone,
    submittedBy: null,
    addedAt: timeOf(task.created) ?? timeOf(task.created_ts) ?? timeOf(task.created_at),
    startedAt: timeOf(task.assigned_at),
    runAt: null,
    result: task.status === 'Cancelled' ? { cancelled: true } : null,
    waitsFor,
    gaps: [
      ...(task.status === 'Cancelled' ? ['it was cancelled there: it arrives as Done'] : []),
      ...(isLost ? ['its metadata is in a form that only exarp-go can read'] : []),
    ],
  }
}

function firstLine(content: string | null | undefined): string {
  return content?.split('\n')[0]?.trim() ?? ''
}

/** The task's own metadata: as JSON if it is valid and can be stored, otherwise as text. */
function metadataOf({ metadata }: Task): { metadata?: Json } {
  if (!metadata) return {}
  try {
    return { metadata: parseBounded(metadata) }
  } catch {
    return { metadata }
  }
}

function restOf(task: Task): Json {
  const rest = Object.entries(task).filter(
    ([name, value]) => !placed.has(name) && value !== '' && value !== 0,
  )
  return Object.fromEntries(
    rest.filter(([, value]) => typeof value === 'string' || typeof value === 'number'),
  ) as Json
}
