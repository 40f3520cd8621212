/** `holdfast import`: takes over work from other programs. */
import { createReadStream, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { counted } from '../../domain/count.ts'
import type { Holdfast } from '../../handle/holdfast.ts'
import { open } from '../../handle/open.ts'
import { unlessRefused } from '../../host/unless-refused.ts'
import { importBeads } from '../../import/beads.ts'
import { importEvaluationLocks } from '../../import/evaluation-locks.ts'
import { importExarpGo } from '../../import/exarp-go.ts'
import { importPendingAcks } from '../../import/pending-acks.ts'
import type { ImportOptions, ImportReport } from '../../import/report.ts'
import type { TextSource } from '../../import/source.ts'
import { importZjj } from '../../import/zjj.ts'
import { type Drawing, lines } from '../drawing.ts'
import { readStdin, readText } from '../io.ts'
import { ProgressLine } from '../progress-line.ts'
import { type Call, type Verb, verb } from '../verb.ts'
import type { View } from '../view.ts'

const dryRun = { flags: '--dry-run', description: 'show what would be imported, without changing anything' }
const skipBad = {
  flags: '--skip-bad',
  description: 'skip and list rows that cannot be imported; by default, one bad row refuses the whole file',
}

interface Source extends Required<Pick<Verb, 'name' | 'summary' | 'options' | 'help'>> {
  readonly file: string
  /** What to look at afterwards. */
  readonly look: string
  readonly take: (hf: Holdfast, call: Call, options: ImportOptions) => Promise<ImportReport>
}

function source({ name, summary, file, options, help, look, take }: Source): Verb {
  return verb({
    name,
    summary,
    arguments: [['<file>', file]],
    options: [dryRun, ...options],
    help,
    makesStore: 'always',
    act: (call) => takeOver(call, take),
    text: reportText,
    hint: (report) =>
      report.dryRun
        ? 'nothing was changed; run it without --dry-run to import'
        : `see it with: holdfast ${look}`,
  })
}

async function takeOver(call: Call, take: Source['take']): Promise<ImportReport> {
  const line = new ProgressLine(call)
  const options = {
    dryRun: call.options.dryRun === true,
    skipBad: call.options.skipBad === true,
    onProgress: ({ phase, done, total }) => line.show({ done, total, what: phase }),
  } satisfies ImportOptions
  try {
    const existing = await call.openExisting()
    if (existing) return await take(existing, call, options)
    // Create no store for a dry run, nor for a file that turns out to be refused.
    const tried = await tryOut((hf) => take(hf, call, { ...options, dryRun: true }))
    return options.dryRun ? tried : await take(await call.open(), call, options)
  } finally {
    line.clear()
  }
}

async function tryOut(act: (hf: Holdfast) => Promise<ImportReport>): Promise<ImportReport> {
  const hf = await open('sqlite::memory:', { background: false, logger: false })
  try {
    return await act(hf)
  } finally {
    await hf.close()
  }
}

function pathOf({ io, rest: [file = ''] }: Call): string {
  return resolve(io.cwd, file)
}

/** Cached, because stdin or a pipe can be read only once, and a new store is tried out first. */
const pipedTexts = new WeakMap<Call, Promise<string>>()

async function textOf(call: Call): Promise<TextSource> {
  const isStdin = call.rest[0] === '-'
  const path = pathOf(call)
  if (!isStdin && !isPipe(path)) return path
  const read = () => (isStdin ? readStdin(call.io) : readText(createReadStream(path), path))
  const reading = pipedTexts.get(call) ?? read()
  pipedTexts.set(call, reading)
  return { text: await reading }
}

/** Such as `<(bd export)`. */
function isPipe(path: string): boolean {
  const found = unlessRefused(() => statSync(path))
  return found !== null && !found.isFile() && !found.isDirectory()
}

/** `--json` shows the rest. */
const maxLines = 50

function reportText(report: ImportReport, view: View): Drawing {
  const { imported, known, lapsed, flagged, skipped, bad } = report
  const rows = [
    ...bad.map(({ row, why }) => ['bad', row, why]),
    ...flagged.map(({ id, gaps }) => ['flagged', id, gaps.join('; ')]),
    ...lapsed.map((id) => ['lapsed', id, 'held there; nobody holds it here, so recovery reclaims it']),
    ...skipped.map(({ id, why }) => ['skipped', id, why]),
  ]
  const table = view.table(['what', 'which', 'why'], rows.slice(0, maxLines))
  return lines([
    `${report.dryRun ? 'would import' : 'imported'} ${imported.length}, ${known.length} already here, ${skipped.length} skipped${bad.length > 0 ? `, ${counted(bad.length, 'bad row')}` : ''}`,
    ...(rows.length > 0 ? [table] : []),
    ...(rows.length > maxLines ? [view.colors.dim(`${rows.length - maxLines} more with --json`)] : []),
  ])
}

const again =
  'The file is only read. Importing it again adds only what is new. Work that was held arrives lapsed.'

export const verbs: readonly Verb[] = [
  source({
    name: 'beads',
    summary: 'Import beads issues as tasks, with dependencies, labels and comments.',
    file: 'its JSONL, such as .beads/issues.jsonl; - is stdin',
    options: [skipBad],
    help: `${again}\n  holdfast import beads .beads/issues.jsonl --dry-run\n  bd export | holdfast import beads -`,
    look: 'task list',
    take: async (hf, call, options) => importBeads(hf, await textOf(call), options),
  }),
  source({
    name: 'exarp-go',
    summary: 'Import exarp-go tasks, with tags, dependencies and comments.',
    file: 'its SQLite file, such as .todo2/todo2.db',
    options: [skipBad],
    help: `${again}\n  holdfast import exarp-go .todo2/todo2.db --dry-run`,
    look: 'task list',
    take: (hf, call, options) => importExarpGo(hf, pathOf(call), options),
  }),
  source({
    name: 'zjj',
    summary: 'Import a zjj merge queue: entries, their history, and the processing lock.',
    file: 'its SQLite file',
    options: [{ flags: '--queue <name>', description: 'where the entries go; default merge' }, skipBad],
    help: `${again}\n  holdfast import zjj .zjj/queue.db --dry-run`,
    look: 'queue list merge',
    take: (hf, call, options) =>
      importZjj(hf, pathOf(call), { ...options, queue: call.options.queue as string | undefined }),
  }),
  source({
    name: 'evaluation-locks',
    summary: 'Import evaluation locks and the progress of their runs.',
    file: 'a JSON export of evaluation-locks and evaluation-progress; - is stdin',
    options: [skipBad],
    help: `${again}\n  holdfast import evaluation-locks export.json --dry-run`,
    look: 'runs list',
    take: async (hf, call, options) => importEvaluationLocks(hf, await textOf(call), options),
  }),
  source({
    name: 'pending-acks',
    summary: 'Import the messages of a PENDING_ACKS.json, from the attempt each had reached.',
    file: 'a PENDING_ACKS.json; - is stdin',
    options: [],
    help: 'The file is only read. Importing it again adds only what is new. One bad entry refuses the whole file.',
    look: 'msg pending',
    take: takePendingAcks,
  }),
]

async function takePendingAcks(hf: Holdfast, call: Call, options: ImportOptions): Promise<ImportReport> {
  const { imported, known, flagged } = await importPendingAcks(hf, await textOf(call), options)
  return {
    from: 'pending-acks',
    dryRun: options.dryRun === true,
    imported,
    known,
    lapsed: [],
    flagged,
    skipped: [],
    bad: [],
  }
}
