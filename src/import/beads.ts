/**
 * Imports the issues of beads from its JSONL (`.beads/issues.jsonl`, or the output of `bd export`), one issue per line.
 * Each becomes a task under its old id, and what blocked it there blocks it here. The file is only read. Importing
 * twice is a no-op.
 */

import * as z from 'zod'
import type { Json } from '../domain/json.ts'
import { taskQueue } from '../domain/task.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { check } from '../issue.ts'
import { type Arriving, bringItems, type Harvest, type UnfitRow } from './items.ts'
import type { ImportOptions, ImportReport } from './report.ts'
import { damaged, firstIssue, parseBounded, type TextSource, textOf, timeOf, whyNoJson } from './source.ts'
import { asArriving, type ForeignTask } from './task.ts'

const what = 'the file of beads'
const maxLines = 100_000
/** More than the largest task, with its relations and the comments that are left out. */
const maxLineLength = 4 * 1024 * 1024
/** Per issue, for each of labels, relations and comments. */
const maxParts = 10_000

const text = z.string().nullish()
const issue = z.looseObject({
  id: z.string().min(1),
  title: z.string(),
  description: text,
  design: text,
  acceptance_criteria: text,
  notes: text,
  status: z.string().default('open'),
  // Older versions leave it out when it is 0.
  priority: z.int().min(0).max(4).default(0),
  issue_type: z.string().default('task'),
  assignee: text,
  owner: text,
  created_at: text,
  created_by: text,
  started_at: text,
  defer_until: text,
  close_reason: text,
  labels: z.array(z.string()).max(maxParts).nullish(),
  dependencies: z
    .array(z.looseObject({ depends_on_id: z.string().min(1), type: z.string().default('blocks') }))
    .max(maxParts)
    .nullish(),
  comments: z
    .array(z.looseObject({ author: z.string().default(''), text: z.string(), created_at: text }))
    .max(maxParts)
    .nullish(),
  ephemeral: z.boolean().nullish(),
  is_template: z.boolean().nullish(),
})
type Issue = z.output<typeof issue>

/** Imports the issues of beads. `source`: a path, or `{ text }`. */
export async function importBeads(
  hf: Holdfast,
  source: TextSource,
  options: ImportOptions = {},
): Promise<ImportReport> {
  const { wall } = await hf.execute('clock.read', {})
  const harvest = harvestOf(textOf(source, 'an issues.jsonl of beads'), wall)
  return bringItems(hf, harvest, { from: 'beads', what, queue: taskQueue, workflow: 'task' }, options)
}

function harvestOf(content: string, now: number): Harvest {
  const split = content.split('\n', maxLines + 2)
  // The last line ends with a line break, which yields one more, empty part.
  if (split.length > maxLines + 1) throw damaged(what, `it has more than ${maxLines} lines`)
  const lines = split.map((line, index) => ({ row: `line ${index + 1}`, line: line.trim() }))
  const filled = lines.filter(({ line }) => line !== '')
  const conflict = filled.find(({ line }) => /^(?:<{7}|={7}|>{7})(?: |$)/.test(line))
  if (conflict) throw damaged(what, `${conflict.row} is part of an unresolved merge conflict`)
  const arriving: Arriving[] = []
  const bad: UnfitRow[] = []
  const skipped: { id: string; why: string }[] = []
  const read = filled.map(({ row, line }) => ({ row, ...readLine(line) }))
  const open = new Set(
    read.flatMap((each) => (each.is === 'issue' && each.issue.status !== 'closed' ? [each.issue.id] : [])),
  )
  for (const each of read) {
    if (each.is === 'issue') arriving.push(asArriving(taskOf(each, open), now))
    else if (each.is === 'bad') bad.push({ row: each.row, why: each.why, name: each.id })
    else skipped.push({ id: each.id ?? each.row, why: each.why })
  }
  // A line may be cut off. But if not one can be read, this is not a file of beads.
  if (bad.length > 0 && bad.length === filled.length) throw damaged(what, `${bad[0]?.row}: ${bad[0]?.why}`)
  return { arriving, bad, skipped }
}

type Line =
  | { readonly is: 'issue'; readonly issue: Issue; readonly rest: Json }
  | { readonly is: 'bad'; readonly why: string; readonly id?: unknown }
  | { readonly is: 'no work'; readonly id: string | null; readonly why: string }

function readLine(line: string): Line {
  if (line.length > maxLineLength) return { is: 'bad', why: `it is longer than ${maxLineLength} characters` }
  let value: unknown
  try {
    value = parseBounded(line)
  } catch (error) {
    return { is: 'bad', why: whyNoJson(error) }
  }
  const { _type: kind = 'issue', key, id } = Object(value) as Record<string, unknown>
  if (kind !== 'issue') return { is: 'no work', id: typeof key === 'string' ? key : null, why: `a ${kind}` }
  const parsed = check(issue, value)
  if (!parsed.isSound) return { is: 'bad', why: firstIssue(parsed.issues), id }
  const why = noWork(parsed.value)
  return why === null
    ? { is: 'issue', issue: parsed.value, rest: restOf(value as object, parsed.value) }
    : { is: 'no work', id: parsed.value.id, why }
}

/** Why nobody should work on it, or null. */
function noWork({ status, issue_type: type, is_template: isTemplate, ephemeral }: Issue): string | null {
  if (status === 'tombstone') return 'deleted there'
  if (status === 'pinned') return 'pinned there, not to be worked on'
  if (isTemplate) return 'a template'
  if (ephemeral) return 'ephemeral'
  return type === 'message' || type === 'event' ? `a ${type}` : null
}

/**
 * Relations that make an issue wait until the other one is closed. A parent is closed last, so its children do not wait
 * for it.
 */
const blocking = ['blocks', 'waits-for']

/** Fields that have a counterpart here; all others are kept as metadata. */
const placed = new Set([
  '_type',
  'title',
  'description',
  'design',
  'acceptance_criteria',
  'notes',
  'priority',
  'labels',
  'comments',
  'dependency_count',
  'dependent_count',
  'comment_count',
])

/** `open`: the ids of all issues that are not closed. */
function taskOf(
  { issue: found, rest, row }: { issue: Issue; rest: Json; row: string },
  open: ReadonlySet<string>,
): ForeignTask {
  const { status, assignee, owner, comments, dependencies } = found
  const isHeld = status === 'in_progress' || status === 'hooked'
  const waitsFor = (dependencies ?? [])
    .filter(({ type }) => blocking.includes(type))
    .map(({ depends_on_id: id }) => id)
  const waits = waitsFor.some((id) => open.has(id))
  const deferredUntil = timeOf(found.defer_until)
  const state = status === 'closed' ? 'done' : 'todo'
  return {
    from: 'beads',
    row,
    key: found.id,
    title: found.title,
    texts: [
      found.description ?? '',
      headed('Design', found.design),
      headed('Acceptance criteria', found.acceptance_criteria),
      headed('Notes', found.notes),
    ],
    labels: found.labels ?? [],
    owner: assignee || owner || null,
    host: null,
    notes: (comments ?? []).map((comment) => ({
      at: timeOf(comment.created_at) ?? 0,
      by: comment.author || 'unknown',
      text: comment.text,
    })),
    metadata: { beads: rest },
    state: isHeld ? 'in_progress' : state,
    holder: isHeld ? assignee || null : null,
    keptBack: keptBack(found, waits, deferredUntil),
    // 0 to 4 with 2 in the middle becomes 1 to 9 with 5 in the middle.
    priority: 1 + 2 * found.priority,
    submittedBy: found.created_by || null,
    addedAt: timeOf(found.created_at),
    startedAt: timeOf(found.started_at),
    runAt: deferredUntil,
    result: found.close_reason ? { closeReason: found.close_reason } : null,
    waitsFor,
    gaps: [],
  }
}

const openStatuses = ['open', 'in_progress', 'hooked', 'closed']

/** Why an open issue must not be claimed before somebody has looked at it, although nothing here would stop that. */
function keptBack(found: Issue, waits: boolean, deferredUntil: number | null): string | null {
  const { status, issue_type: type, dependencies } = found
  if (dependencies?.some((each) => each.type === 'conditional-blocks')) {
    return 'imported from beads: it was meant to run only if another failed'
  }
  if (type === 'gate') return 'imported from beads: a gate, which must be opened by hand'
  if (status === 'blocked' && waits) return null
  if (status === 'deferred' && deferredUntil !== null) return null
  return openStatuses.includes(status) ? null : `imported from beads in status ${status}`
}

function headed(title: string, content: string | null | undefined): string {
  return content ? `## ${title}\n\n${content}` : ''
}

/** From the line as written, because the checked value lacks a field named `__proto__`. */
function restOf(written: object, checked: Issue): Json {
  const fields = [...Object.entries(written), ...Object.entries(checked)]
  return Object.fromEntries(fields.filter(([name]) => !placed.has(name))) as Json
}
