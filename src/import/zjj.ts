/**
 * Imports the merge queue of zjj from its SQLite file: entries, processing lock and event history. Entries keep their
 * states, positions in stacks, and attempts; what was held arrives lapsed. The file is only read. Importing twice is a
 * no-op.
 */

import * as z from 'zod'
import { builtInWorkflow } from '../domain/built-in-workflows.ts'
import { maxStackDepth } from '../domain/dependency.ts'
import { parseJsonText } from '../domain/json-text.ts'
import { isName } from '../domain/name.ts'
import { processingLockName } from '../domain/queue.ts'
import { cutText } from '../domain/text.ts'
import { knownState, type Workflow } from '../domain/workflow.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { check } from '../issue.ts'
import { maxPriority } from '../operations/fields.ts'
import { maxHistory } from '../operations/queue/import.ts'
import { idFor } from './identity.ts'
import { type Arriving, bringItems, type Harvest, type UnfitRow } from './items.ts'
import { assertNoneBad, type BadRow, type ImportOptions, type ImportReport } from './report.ts'
import { firstIssue, timeOf, withoutNothing } from './source.ts'
import { type Row, readTables } from './sqlite-file.ts'

const what = 'the database of zjj'
const workflow = builtInWorkflow('merge') as Workflow
const mergeQueueDefault = 'merge'

const text = z.string().nullish()
const time = z.number().nullish()
const count = z.int().min(0)
const sha = z.string().max(128).nullish()
const entryRow = z.object({
  id: z.int(),
  workspace: z.string().min(1),
  bead_id: text,
  priority: z.int().default(5),
  status: z.string(),
  added_at: z.number(),
  started_at: time,
  completed_at: time,
  error_message: text,
  agent_id: text,
  dedupe_key: text,
  workspace_state: text,
  previous_state: text,
  state_changed_at: time,
  head_sha: sha,
  tested_against_sha: sha,
  attempt_count: count.default(0),
  max_attempts: z.int().min(1).default(3),
  rebase_count: count.default(0),
  last_rebase_at: time,
  parent_workspace: text,
})
type Entry = z.output<typeof entryRow>

const lockRow = z.object({ agent_id: z.string().min(1), acquired_at: z.number() })
const eventRow = z.object({
  id: z.int(),
  queue_id: z.int(),
  event_type: z.string(),
  details_json: text,
  created_at: time,
})
type Event = z.output<typeof eventRow>

/** How the merge queue of zjj is imported. */
export interface ZjjOptions extends ImportOptions {
  /** The queue its entries go to; default `merge`. */
  readonly queue?: string | undefined
}

/** Imports the merge queue of zjj. `path`: its SQLite file. */
export async function importZjj(
  hf: Holdfast,
  path: string,
  { queue = mergeQueueDefault, ...options }: ZjjOptions = {},
): Promise<ImportReport> {
  const tables = readTables(path, {
    what,
    needed: ['merge_queue'],
    optional: ['queue_processing_lock', 'queue_events'],
  })
  const lock = lockOf(tables.get('queue_processing_lock') ?? [], queue)
  const harvest = harvestOf(tables, queue)
  const bad = [...harvest.bad, ...lock.bad]
  assertNoneBad(bad, { what, skipBad: options.skipBad === true })
  const destination = { from: 'zjj', what, queue, workflow: 'merge' } as const
  const report = await bringItems(hf, { ...harvest, bad }, destination, options)
  if (lock.entry === null) return report
  const { locks } = await hf.execute('locks.import', {
    from: 'zjj',
    locks: [lock.entry],
    runs: [],
    dryRun: options.dryRun === true,
  })
  const name = 'the processing lock'
  const isTaken = locks.imported.length > 0
  const why = `someone already holds the processing lock of ${queue} here`
  return {
    ...report,
    imported: isTaken ? [...report.imported, name] : report.imported,
    lapsed: isTaken ? [...report.lapsed, name] : report.lapsed,
    known: locks.known.length > 0 ? [...report.known, name] : report.known,
    skipped: locks.held.length > 0 ? [...report.skipped, { id: name, why }] : report.skipped,
  }
}

function lockOf([row]: readonly Row[], queue: string) {
  if (row === undefined) return { entry: null, bad: [] }
  const parsed = check(lockRow, row)
  const isUsable = parsed.isSound && isName(parsed.value.agent_id)
  if (!isUsable) {
    const why = parsed.isSound ? 'its agent is not a valid name here' : firstIssue(parsed.issues)
    return { entry: null, bad: [{ row: 'queue_processing_lock', why }] }
  }
  const { agent_id: holder, acquired_at: acquiredAt } = parsed.value
  const entry = { name: processingLockName(queue), holder, acquiredAt: timeOf(acquiredAt) }
  return { entry, bad: [] }
}

function harvestOf(tables: ReadonlyMap<string, readonly Row[]>, queue: string): Harvest {
  const events = eventsOf(tables.get('queue_events') ?? [])
  const bad: UnfitRow[] = [...events.bad]
  const rows: { entry: Entry; row: string }[] = []
  for (const [index, found] of (tables.get('merge_queue') ?? []).entries()) {
    const parsed = check(entryRow, found)
    const row = `merge_queue row ${typeof found.id === 'number' ? found.id : `number ${index + 1}`}`
    if (parsed.isSound) rows.push({ entry: parsed.value, row })
    else bad.push({ row, why: firstIssue(parsed.issues), name: found.workspace })
  }
  const parents = new Map(rows.map(({ entry }) => [entry.workspace, entry.parent_workspace ?? null]))
  const arriving: Arriving[] = []
  for (const { entry, row } of rows) {
    const why = faultOf(entry, parents)
    if (why === null) arriving.push(arrivingOf(entry, row, queue, events.byEntry.get(entry.id) ?? []))
    else bad.push({ row, why, name: entry.workspace })
  }
  return { arriving, bad, skipped: orphansOf(events.byEntry, rows) }
}

/** State names of earlier versions, still found in old files. */
const legacyStates: ReadonlyMap<string, string> = new Map([
  ['processing', 'claimed'],
  ['completed', 'merged'],
  ['failed', 'failed_terminal'],
])

function stateOf({ status }: Entry): string {
  return legacyStates.get(status) ?? status
}

function faultOf(entry: Entry, parents: ReadonlyMap<string, string | null>): string | null {
  if (knownState(workflow, stateOf(entry)) === undefined) return `its status is ${entry.status}`
  let depth = 0
  for (let at = parents.get(entry.workspace); at != null && depth <= maxStackDepth; at = parents.get(at))
    depth++
  return depth > maxStackDepth ? `its stack is deeper than ${maxStackDepth}, or loops back to itself` : null
}

function arrivingOf(entry: Entry, row: string, queue: string, history: readonly Event[]): Arriving {
  const state = stateOf(entry)
  const agent = isName(entry.agent_id) ? entry.agent_id : null
  const isHeld = knownState(workflow, state)?.held === true
  const addedAt = timeOf(entry.added_at)
  const kept = history.slice(-maxHistory)
  return {
    name: entry.workspace,
    row,
    entry: {
      // Not by number alone: another file may have a row with the same one.
      id: idFor('zjj', queue, entry.id, entry.workspace, entry.added_at),
      key: entry.workspace,
      dedupeKey: entry.dedupe_key || null,
      state,
      // zjj accepts any number. Those out of range come first or last here.
      priority: Math.min(Math.max(entry.priority, 0), maxPriority),
      holder: isHeld ? agent : null,
      // In zjj, the agent who added an entry and the one who holds it share a column.
      submittedBy: isHeld ? null : agent,
      attempts: entry.attempt_count,
      failures: entry.attempt_count,
      maxAttempts: entry.max_attempts,
      addedAt: addedAt ?? 0,
      startedAt: timeOf(entry.started_at),
      error: entry.error_message ? { message: entry.error_message } : null,
      data: withoutNothing({
        bead: isName(entry.bead_id) ? entry.bead_id : null,
        zjjBead: isName(entry.bead_id) ? null : entry.bead_id,
        headSha: entry.head_sha,
        testedAgainstSha: entry.tested_against_sha,
        rebaseCount: entry.rebase_count,
        lastRebaseAt: timeOf(entry.last_rebase_at),
        zjjId: entry.id,
        workspaceState: entry.workspace_state,
        previousState: entry.previous_state,
        stateChangedAt: timeOf(entry.state_changed_at),
        completedAt: timeOf(entry.completed_at),
      }),
      history: kept.map(eventFacts),
    },
    parent: entry.parent_workspace || null,
    waitsFor: [],
    gaps: [
      ...(isHeld && agent === null ? ['it was held, but names no holder: it arrives released'] : []),
      ...(!isHeld && entry.agent_id && agent === null ? ['its agent is not a valid name here'] : []),
      ...(entry.bead_id && !isName(entry.bead_id) ? ['its bead is not a valid name here: see its data'] : []),
      ...(addedAt === null ? ['it does not say when it was added'] : []),
      ...(history.length > kept.length ? [`${history.length - kept.length} older events were left out`] : []),
    ],
  }
}

/** The events of each entry, in order. */
function eventsOf(rows: readonly Row[]) {
  const byEntry = new Map<number, Event[]>()
  const bad: BadRow[] = []
  for (const [index, row] of rows.entries()) {
    const parsed = check(eventRow, row)
    if (!parsed.isSound) {
      bad.push({ row: `queue_events number ${index + 1}`, why: firstIssue(parsed.issues) })
      continue
    }
    const known = byEntry.get(parsed.value.queue_id)
    if (known) known.push(parsed.value)
    else byEntry.set(parsed.value.queue_id, [parsed.value])
  }
  for (const events of byEntry.values()) events.sort((left, right) => left.id - right.id)
  return { byEntry, bad }
}

const maxDetails = 1000

/** zjj builds the details by hand, and they are not always valid JSON. */
function eventFacts({ event_type: kind, created_at: at, details_json: details }: Event) {
  const facts = withoutNothing({ kind, at: timeOf(at), details: details && cutText(details, maxDetails) })
  try {
    return details && details.length <= maxDetails ? { ...facts, details: parseJsonText(details) } : facts
  } catch {
    return facts
  }
}

function orphansOf(byEntry: ReadonlyMap<number, unknown>, rows: readonly { entry: Entry }[]) {
  const there = new Set(rows.map(({ entry }) => entry.id))
  return [...byEntry.keys()]
    .filter((id) => !there.has(id))
    .map((id) => ({ id: `events of entry ${id}`, why: 'the entry itself is gone' }))
}
