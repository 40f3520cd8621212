/**
 * Imports evaluation locks and their progress from a JSON export of the collections `evaluation-locks` and
 * `evaluation-progress`, by collection and document. A lock that was held arrives lapsed, so that recovery frees it and
 * pauses its run. The file is only read. Importing twice is a no-op.
 */

import * as z from 'zod'
import { isName } from '../domain/name.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { type Checked, check } from '../issue.ts'
import {
  type LockEntry,
  lockEntry,
  maxImportedLocks,
  type RunEntry,
  runEntry,
} from '../operations/lock/import.ts'
import { assertNoneBad, type BadRow, type ImportOptions, type ImportReport } from './report.ts'
import { damaged, firstIssue, parseJson, type TextSource, textOf, timeOf } from './source.ts'

const what = 'the export of evaluation locks'
const lockDefault = 'global'
/** Per collection. */
const maxDocuments = 100_000

const name = z.string().refine(isName, { error: 'is not a valid name here' })
const text = z.string().max(2000).nullish()
const lockDocument = z.object({
  isLocked: z.boolean(),
  lockedBy: name.nullish(),
  lockedByUser: name.nullish(),
  lockedAt: z.unknown().optional(),
  lockReason: text,
})
const count = z.int().min(0).max(1_000_000_000)
const progressDocument = z.object({
  totalSubmissions: count.nullish(),
  evaluatedSubmissions: count.default(0),
  startTime: z.unknown().optional(),
  lastUpdateTime: z.unknown().optional(),
  evaluationStatus: z.enum(['running', 'paused', 'completed']),
  pauseReason: text,
})

interface Found<Entry> {
  readonly id: string
  readonly entry: Entry
  readonly gaps: readonly string[]
}

/** Imports evaluation locks and their progress. `source`: a path, the text of such a file, or `{ text }`. */
export async function importEvaluationLocks(
  hf: Holdfast,
  source: TextSource,
  { dryRun = false, skipBad = false, onProgress = () => {} }: ImportOptions = {},
): Promise<ImportReport> {
  const collections = collectionsOf(parseJson(textOf(source, 'an export of evaluation locks'), what))
  const { wall } = await hf.execute('clock.read', {})
  const bad: BadRow[] = []
  const free: ImportReport['skipped'][number][] = []
  const locks = documentsOf(collections.locks, 'evaluation-locks', bad).flatMap(({ id, row, value }) => {
    const parsed = check(lockDocument, value)
    if (!parsed.isSound || !isName(id)) bad.push({ row, why: whyBad(parsed) })
    else if (!parsed.value.isLocked) free.push({ id: `lock ${id}`, why: 'nobody held it' })
    else return soundOnes(lockOf(id, parsed.value), lockEntry(), row, bad)
    return []
  })
  if (locks.length > maxImportedLocks)
    throw damaged(what, `it has more than ${maxImportedLocks} locks that are held`)
  const runs = documentsOf(collections.progress, 'evaluation-progress', bad).flatMap(({ id, row, value }) => {
    const parsed = check(progressDocument, value)
    if (parsed.isSound && isName(id))
      return soundOnes(runOf(id, parsed.value, locks, wall), runEntry(), row, bad)
    bad.push({ row, why: whyBad(parsed) })
    return []
  })
  assertNoneBad(bad, { what, skipBad })
  const { held, ...brought } = await bring(hf, locks, runs, dryRun, onProgress)
  const isImported = new Set(brought.imported)
  const flagged = [...named('lock', locks), ...named('run', runs)].filter(
    ({ id, gaps }) => gaps.length > 0 && isImported.has(id),
  )
  const skipped = [...free, ...held.map((id) => ({ id, why: 'someone already holds it here' }))]
  return { from: 'evaluation-locks', dryRun, ...brought, flagged, skipped, bad }
}

function whyBad(parsed: Checked<unknown>): string {
  return parsed.isSound ? 'its id is not a valid name here' : firstIssue(parsed.issues)
}

/** Reports what the import would refuse by its row, before anything is imported. */
function soundOnes<Entry>(
  found: Found<Entry>,
  schema: z.ZodType,
  row: string,
  bad: BadRow[],
): Found<Entry>[] {
  const checked = check(schema, found.entry)
  if (checked.isSound) return [found]
  bad.push({ row, why: firstIssue(checked.issues) })
  return []
}

type Collection = Readonly<Record<string, unknown>> | readonly unknown[]

/** Some exporters wrap all collections in another object. */
function collectionsOf(value: unknown): { locks: Collection; progress: Collection } {
  const root = (Object(value) as { __collections__?: unknown }).__collections__ ?? value
  const { 'evaluation-locks': locks, 'evaluation-progress': progress } = Object(root) as Record<
    string,
    unknown
  >
  if (locks === undefined && progress === undefined) {
    throw damaged(what, 'it has neither evaluation-locks nor evaluation-progress')
  }
  return { locks: asCollection(locks), progress: asCollection(progress) }
}

function asCollection(value: unknown = {}): Collection {
  if (typeof value === 'object' && value !== null) return value as Collection
  throw damaged(what, 'a collection is neither an object nor a list')
}

/** Documents by id, or as a list in which each one has its own id. */
function documentsOf(collection: Collection, of: string, bad: BadRow[]) {
  const pairs = Array.isArray(collection)
    ? collection.map((value, index) => [(Object(value) as { id?: unknown }).id, value, index] as const)
    : Object.entries(collection).map(([id, value]) => [id, value, id] as const)
  if (pairs.length > maxDocuments) throw damaged(what, `it has more than ${maxDocuments} documents`)
  const seen = new Map<unknown, string>()
  return pairs.flatMap(([id, value, label]) => {
    const row = `${of}/${label}`
    const earlier = seen.get(id)
    seen.set(id, row)
    if (typeof id !== 'string') bad.push({ row, why: 'it has no id' })
    else if (earlier !== undefined) bad.push({ row, why: `${id} is already in ${earlier}` })
    else if (id !== '__collections__') return [{ id, row, value }]
    return []
  })
}

function lockOf(id: string, lock: z.output<typeof lockDocument>): Found<LockEntry> {
  const { lockedBy, lockedByUser, lockReason } = lock
  const holder = lockedByUser ?? lockedBy
  const acquiredAt = momentOf(lock.lockedAt)
  return {
    id,
    entry: {
      name: id,
      holder: holder ?? 'unknown',
      user: lockedByUser ?? null,
      run: lockedBy ?? null,
      reason: lockReason ?? null,
      acquiredAt,
    },
    gaps: [
      ...(holder == null ? ['it does not say who held it'] : []),
      ...(acquiredAt === null ? ['it does not say since when it was held'] : []),
    ],
  }
}

function runOf(
  id: string,
  progress: z.output<typeof progressDocument>,
  locks: readonly Found<LockEntry>[],
  wall: number,
): Found<RunEntry> {
  const startedAt = momentOf(progress.startTime)
  const updatedAt = momentOf(progress.lastUpdateTime)
  return {
    id,
    entry: {
      run: id,
      lock: locks.find(({ entry }) => entry.run === id)?.id ?? lockDefault,
      status: progress.evaluationStatus,
      total: progress.totalSubmissions ?? null,
      done: progress.evaluatedSubmissions,
      pauseReason: progress.pauseReason ?? null,
      startedAt: startedAt ?? updatedAt ?? wall,
      updatedAt: updatedAt ?? startedAt ?? wall,
    },
    gaps: startedAt === null ? ['it does not say when it began'] : [],
  }
}

/** An ISO time, or seconds in one of the ways exporters wrap them. */
function momentOf(value: unknown): number | null {
  const { value: inner, _seconds, seconds } = Object(value) as Record<string, unknown>
  if (inner !== undefined) return momentOf(inner)
  return timeOf(_seconds ?? seconds ?? value)
}

function named(kind: 'lock' | 'run', found: readonly Found<unknown>[]) {
  return found.map(({ id, gaps }) => ({ id: `${kind} ${id}`, gaps }))
}

/** Runs of an imported lock come first, together with all locks, because each takes the token of its lock. */
async function bring(
  hf: Holdfast,
  locks: readonly Found<LockEntry>[],
  runs: readonly Found<RunEntry>[],
  dryRun: boolean,
  onProgress: NonNullable<ImportOptions['onProgress']>,
) {
  const locked = new Set(locks.map(({ entry }) => entry.run))
  const ordered = [...runs].sort((left, right) => Number(locked.has(right.id)) - Number(locked.has(left.id)))
  const phase = dryRun ? 'looking' : 'importing'
  const total = locks.length + runs.length
  const lockNames = (ids: readonly string[]) => ids.map((id) => `lock ${id}`)
  const runNames = (ids: readonly string[]) => ids.map((id) => `run ${id}`)
  const brought = {
    imported: [] as string[],
    known: [] as string[],
    lapsed: [] as string[],
    held: [] as string[],
  }
  for (let start = 0; start === 0 || start < ordered.length; start += maxImportedLocks) {
    onProgress({ phase, done: start, total })
    const piece = await hf.execute('locks.import', {
      from: 'evaluation-locks',
      locks: start === 0 ? locks.map(({ entry }) => entry) : [],
      runs: ordered.slice(start, start + maxImportedLocks).map(({ entry }) => entry),
      dryRun,
    })
    brought.imported.push(...lockNames(piece.locks.imported), ...runNames(piece.runs.imported))
    brought.known.push(...lockNames(piece.locks.known), ...runNames(piece.runs.known))
    brought.lapsed.push(...lockNames(piece.locks.imported))
    brought.held.push(...lockNames(piece.locks.held))
  }
  onProgress({ phase, done: total, total })
  return brought
}
