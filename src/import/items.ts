/**
 * Imports items. Everything is checked before anything is imported. Items come after those they wait for, and in
 * pieces, so that an interrupted import can simply be run again.
 */

import { builtInWorkflow } from '../domain/built-in-workflows.ts'
import { maxBlockers } from '../domain/dependency.ts'
import { cutText } from '../domain/text.ts'
import { knownState } from '../domain/workflow.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { check } from '../issue.ts'
import { type ItemEntry, itemEntry, maxImportedItems } from '../operations/queue/import.ts'
import { taskWords } from '../operations/task/task.ts'
import { circlesOf, inOrder } from './order.ts'
import {
  assertNoneBad,
  type BadRow,
  type ImportOptions,
  type ImportProgress,
  type ImportReport,
  type ImportSource,
} from './report.ts'
import { firstIssue } from './source.ts'

/** One item as a reader found it. */
export interface Arriving {
  /** The name its program gave it. */
  readonly name: string
  /** Where it is in the file. */
  readonly row: string
  readonly entry: Omit<ItemEntry, 'parent' | 'blockers'>
  /** Names of the item it is stacked on, and of those it waits for. */
  readonly parent: string | null
  readonly waitsFor: readonly string[]
  /** What is missing or was changed. */
  readonly gaps: readonly string[]
}

/** A row that cannot be imported, with its name if that can be read. */
export interface UnfitRow extends BadRow {
  readonly name?: unknown
}

/** What a reader found. */
export interface Harvest {
  readonly arriving: readonly Arriving[]
  readonly bad: readonly UnfitRow[]
  readonly skipped: ImportReport['skipped']
}

/** Where the items go. */
export interface Destination {
  readonly from: ImportSource
  /** The file, in words. */
  readonly what: string
  readonly queue: string
  readonly workflow: 'merge' | 'task'
}

/** The longest reason a quarantine can have. */
const maxReason = 2000

/**
 * Imports what a reader found, or with `dryRun` says what would be imported. Refuses everything when a row is bad,
 * unless `skipBad`.
 */
export async function bringItems(
  hf: Holdfast,
  harvest: Harvest,
  to: Destination,
  { dryRun = false, skipBad = false, onProgress = () => {} }: ImportOptions,
): Promise<ImportReport> {
  const sound = soundOnes(harvest, to.workflow)
  assertNoneBad(sound.bad, { what: to.what, skipBad })
  const bring = (isDry: boolean) => bringPieces(hf, sound, to, isDry, onProgress)
  const looked = await bring(true)
  assertNoneBad(looked.refused, { what: to.what, skipBad })
  const { taken, known, refused } = dryRun ? looked : await bring(false)
  return {
    from: to.from,
    dryRun,
    imported: taken.map(({ name }) => name),
    known,
    lapsed: taken.filter(({ entry }) => isHeld(to.workflow, entry)).map(({ name }) => name),
    flagged: taken.filter(({ gaps }) => gaps.length > 0).map(({ name, gaps }) => ({ id: name, gaps })),
    skipped: harvest.skipped,
    bad: [...sound.bad, ...refused].map(({ row, why }) => ({ row, why })),
  }
}

function isHeld(workflow: string, { state, holder }: Pick<ItemEntry, 'state' | 'holder'>): boolean {
  const definition = builtInWorkflow(workflow)
  return holder != null && definition !== undefined && knownState(definition, state)?.held === true
}

/** Its name, or undefined if it is finished: nothing waits for a finished item. */
function openName({ name, entry }: Pick<Arriving, 'name' | 'entry'>, workflow: string): string | undefined {
  const definition = builtInWorkflow(workflow)
  const isClosed = definition !== undefined && knownState(definition, entry.state)?.closed !== undefined
  return isClosed ? undefined : name
}

function dependenciesOf({ parent, waitsFor }: Arriving): readonly string[] {
  return parent === null ? waitsFor : [parent, ...waitsFor]
}

/** The items that can be imported, and why the others cannot. */
function soundOnes({ arriving, bad }: Harvest, workflow: string): Sound {
  const seen: Seen = { names: new Map(), dedupeKeys: new Map() }
  const faults = new Map<Arriving, string>()
  for (const each of arriving) {
    const why = faultOf(each, seen, workflow)
    const dedupeKey = openDedupeKey(each, workflow)
    seen.names.set(each.name, each.row)
    if (why !== null) faults.set(each, why)
    else if (dedupeKey !== null) seen.dedupeKeys.set(dedupeKey, each.row)
  }
  const rest = arriving.filter((each) => !faults.has(each))
  for (const { member, others } of circlesOf(rest, dependenciesOf)) {
    faults.set(member, `it waits for itself, through ${others.join(', ')}`)
  }
  return {
    arriving: arriving.filter((each) => !faults.has(each)),
    bad: [
      ...bad,
      ...[...faults].map(([each, why]) => ({ row: each.row, why, name: openName(each, workflow) })),
    ],
  }
}

/** Rows so far, by what only one open item may have. The store would notice only within one piece. */
interface Seen {
  readonly names: Map<string, string>
  readonly dedupeKeys: Map<string, string>
}

function openDedupeKey(arriving: Arriving, workflow: string): string | null {
  return openName(arriving, workflow) === undefined ? null : (arriving.entry.dedupeKey ?? null)
}

function faultOf(arriving: Arriving, seen: Seen, workflow: string): string | null {
  const { name, entry, waitsFor } = arriving
  const sameName = seen.names.get(name)
  if (sameName !== undefined) return `${name} is already in ${sameName}`
  const dedupeKey = openDedupeKey(arriving, workflow)
  const sameKey = dedupeKey === null ? undefined : seen.dedupeKeys.get(dedupeKey)
  if (sameKey !== undefined) return `its dedupe key ${dedupeKey} is already that of ${sameKey}`
  if (waitsFor.length > maxBlockers)
    return `it waits for ${waitsFor.length} others; ${maxBlockers} is the most`
  const parsed = check(itemEntry(), entry)
  if (!parsed.isSound) return firstIssue(parsed.issues)
  if (workflow !== 'task') return null
  // Its words are stored where any JSON is allowed, so they are checked like those of a task that is added here.
  const words = check(taskWords(), {
    ...(Object(entry.data) as object),
    ...(Object(entry.payload) as object),
  })
  return words.isSound ? null : firstIssue(words.issues)
}

type Sound = Pick<Harvest, 'arriving' | 'bad'>
type Ready = Omit<Arriving, 'entry'> & { readonly entry: ItemEntry }

/** What is known about the rows that others wait for. */
interface Ground {
  readonly from: ImportSource
  /** Ids of the items to import, by name. */
  readonly ids: ReadonlyMap<string, string>
  /** Names of rows in the file that are not finished and cannot be imported. */
  readonly unfit: ReadonlySet<unknown>
}

/**
 * Replaces names by ids. Reports dependencies that are missing from the file, and quarantines the item if one could not
 * be imported.
 */
function resolved(arriving: Arriving, { from, ids, unfit }: Ground): Ready {
  const { parent, waitsFor, entry } = arriving
  const blockers = [...new Set(waitsFor)].flatMap((name) => ids.get(name) ?? [])
  const missing = [...new Set(dependenciesOf(arriving))].filter((name) => !ids.has(name))
  const leftOut = missing.filter((name) => unfit.has(name))
  const why = `imported from ${from}: it waits for ${leftOut.join(', ')}, which could not be imported`
  return {
    ...arriving,
    entry: {
      ...entry,
      parent: parent === null ? null : (ids.get(parent) ?? null),
      blockers,
      keptBack: entry.keptBack ?? (leftOut.length > 0 ? cutText(why, maxReason) : null),
    },
    gaps: [
      ...arriving.gaps,
      ...missing.map((name) =>
        unfit.has(name)
          ? `it waits for ${name}, which could not be imported: it is quarantined`
          : `it waits for ${name}, which did not come with it`,
      ),
    ],
  }
}

/** An item that waits for a row the store refuses is refused along with it, then sent again without that dependency. */
async function bringPieces(
  hf: Holdfast,
  { arriving, bad }: Sound,
  { queue, workflow, from }: Destination,
  dryRun: boolean,
  onProgress: (progress: ImportProgress) => void,
) {
  const ids = new Map(arriving.map(({ name, entry }) => [name, entry.id]))
  const unfit = new Set(bad.map(({ name }) => name))
  const taken: Ready[] = []
  const known: string[] = []
  const refused: BadRow[] = []
  const phase = dryRun ? 'looking' : 'importing'
  const total = arriving.length
  for (let waiting = inOrder(arriving, dependenciesOf); waiting.length > 0; ) {
    onProgress({ phase, done: total - waiting.length, total })
    const asked = waiting.slice(0, maxImportedItems)
    const piece = asked.map((each) => resolved(each, { from, ids, unfit }))
    const entries = piece.map(({ entry }) => entry)
    const answer = await hf.execute('queue.import', {
      queue,
      workflow,
      from,
      entries,
      dryRun,
    })
    const refusals = new Map(answer.refused.map((refusal) => [refusal.id, refusal]))
    const imported = new Set(answer.imported)
    const again: Arriving[] = []
    for (const [index, each] of piece.entries()) {
      const refusal = refusals.get(each.entry.id)
      if (imported.has(each.entry.id)) taken.push(each)
      else if (refusal === undefined) known.push(each.name)
      else if (refusal.waitsFor.length > 0) again.push(asked[index] as Arriving)
      else {
        refused.push({ row: each.row, why: refusal.why })
        ids.delete(each.name)
        unfit.add(openName(each, workflow))
      }
    }
    waiting = [...again, ...waiting.slice(maxImportedItems)]
  }
  onProgress({ phase, done: total, total })
  return { taken, known, refused }
}
