/**
 * Brings items in: everything is looked at before anything is taken over, what others wait for comes before them, and
 * piece by piece, so that an import that was interrupted is simply run again.
 */

import { blockersMax } from '../domain/dependency.ts'
import { builtInWorkflow, knownState } from '../domain/workflow.ts'
import type { Holdfast } from '../holdfast.ts'
import { check } from '../issue.ts'
import { type ItemEntry, type ItemsImported, itemEntry, itemImportMax } from '../operations/queue-import.ts'
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
  /** As its program names it. */
  readonly name: string
  /** Where it stands. */
  readonly row: string
  readonly entry: Omit<ItemEntry, 'parent' | 'blockers'>
  /** Names of what it is stacked on and what it waits for. */
  readonly parent: string | null
  readonly waitsFor: readonly string[]
  /** What is missing or was changed. */
  readonly gaps: readonly string[]
}

/** What a reader found. */
export interface Harvest {
  readonly arriving: readonly Arriving[]
  readonly bad: readonly BadRow[]
  readonly skipped: ImportReport['skipped']
}

export interface Destination {
  readonly from: ImportSource
  /** The file, in words. */
  readonly what: string
  readonly queue: string
  readonly workflow: 'merge' | 'task'
}

export async function bringItems(
  hf: Holdfast,
  harvest: Harvest,
  to: Destination,
  { dryRun = false, skipBad = false, onProgress = () => {} }: ImportOptions,
): Promise<ImportReport> {
  const sound = soundOnes(harvest)
  assertNoneBad(sound.bad, { what: to.what, skipBad })
  const ids = new Map(sound.arriving.map(({ name, entry }) => [name, entry.id]))
  const ready = inOrder(sound.arriving, dependenciesOf).map((each) => resolved(each, ids))
  const bring = (isDry: boolean) => bringPieces(hf, ready, to, isDry, onProgress)
  const looked = await bring(true)
  assertNoneBad(refusedRows(ready, looked), { what: to.what, skipBad })
  const brought = dryRun ? looked : await bring(false)
  const imported = new Set(brought.imported)
  const known = new Set(brought.known)
  const taken = ready.filter(({ entry }) => imported.has(entry.id))
  return {
    from: to.from,
    dryRun,
    imported: taken.map(({ name }) => name),
    known: ready.filter(({ entry }) => known.has(entry.id)).map(({ name }) => name),
    lapsed: taken.filter(({ entry }) => isHeld(to.workflow, entry)).map(({ name }) => name),
    flagged: taken.filter(({ gaps }) => gaps.length > 0).map(({ name, gaps }) => ({ id: name, gaps })),
    skipped: harvest.skipped,
    bad: [...sound.bad, ...refusedRows(ready, brought)],
  }
}

function isHeld(workflow: string, { state, holder }: Pick<ItemEntry, 'state' | 'holder'>): boolean {
  const definition = builtInWorkflow(workflow)
  return holder != null && definition !== undefined && knownState(definition, state)?.held === true
}

function dependenciesOf({ parent, waitsFor }: Arriving): readonly string[] {
  return parent === null ? waitsFor : [parent, ...waitsFor]
}

/** Those that can be taken over, and why the others cannot. */
function soundOnes({ arriving, bad }: Harvest): Pick<Harvest, 'arriving' | 'bad'> {
  const seen = new Map<string, string>()
  const faults = new Map<Arriving, string>()
  for (const each of arriving) {
    const why = faultOf(each, seen.get(each.name))
    if (why !== null) faults.set(each, why)
    seen.set(each.name, each.row)
  }
  const rest = arriving.filter((each) => !faults.has(each))
  for (const { member, others } of circlesOf(rest, dependenciesOf)) {
    faults.set(member, `it waits for itself, through ${others.join(', ')}`)
  }
  return {
    arriving: arriving.filter((each) => !faults.has(each)),
    bad: [...bad, ...[...faults].map(([{ row }, why]) => ({ row, why }))],
  }
}

function faultOf({ name, entry, waitsFor }: Arriving, earlier: string | undefined): string | null {
  if (earlier !== undefined) return `${name} stands in ${earlier} already`
  if (waitsFor.length > blockersMax)
    return `it waits for ${waitsFor.length} others; ${blockersMax} is the most`
  const parsed = check(itemEntry(), entry)
  return parsed.isSound ? null : firstIssue(parsed.issues)
}

type Ready = Omit<Arriving, 'entry'> & { readonly entry: ItemEntry }

/** With ids instead of names; what it waits for and is not there is told. */
function resolved(arriving: Arriving, ids: ReadonlyMap<string, string>): Ready {
  const { parent, waitsFor } = arriving
  const blockers = [...new Set(waitsFor)].flatMap((name) => ids.get(name) ?? [])
  const missing = [...new Set(dependenciesOf(arriving))].filter((name) => !ids.has(name))
  return {
    ...arriving,
    entry: { ...arriving.entry, parent: parent === null ? null : (ids.get(parent) ?? null), blockers },
    gaps: [...arriving.gaps, ...missing.map((name) => `it waits for ${name}, which did not come with it`)],
  }
}

async function bringPieces(
  hf: Holdfast,
  ready: readonly Ready[],
  { queue, workflow, from }: Destination,
  dryRun: boolean,
  onProgress: (progress: ImportProgress) => void,
): Promise<ItemsImported> {
  const all: ItemsImported = { imported: [], known: [], refused: [] }
  const phase = dryRun ? 'looking' : 'importing'
  for (let start = 0; start < ready.length; start += itemImportMax) {
    const entries = ready.slice(start, start + itemImportMax).map(({ entry }) => entry)
    onProgress({ phase, done: start, total: ready.length })
    const piece = (await hf.execute('queue.import', {
      queue,
      workflow,
      from,
      entries,
      dryRun,
    })) as ItemsImported
    all.imported.push(...piece.imported)
    all.known.push(...piece.known)
    all.refused.push(...piece.refused)
  }
  onProgress({ phase, done: ready.length, total: ready.length })
  return all
}

function refusedRows(ready: readonly Ready[], { refused }: ItemsImported): BadRow[] {
  const rows = new Map(ready.map(({ entry, row }) => [entry.id, row]))
  return refused.map(({ id, why }) => ({ row: rows.get(id) ?? id, why }))
}
