/** `holdfast copy --from A --to B`: moves a store to another location or engine. */
import type { CopyReport } from '../../copy/copy.ts'
import { errorCodes } from '../../error-codes.ts'
import { type Drawn, lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { copyLeaseFiles, leaseFolder } from '../lease-file.ts'
import { printTalk } from '../print.ts'
import { ProgressLine } from '../progress-line.ts'
import { locatedFile } from '../settings.ts'
import { type Call, verb } from '../verb.ts'
import type { View } from '../view.ts'

export const copy = verb({
  name: 'copy',
  summary:
    'Carry a whole store to another place or engine, verified row by row. Run it again to go on with one that was stopped.',
  options: [
    { flags: '--from <url>', description: 'the store to copy; it is shut afterwards', isRequired: true },
    { flags: '--to <url>', description: 'a new file, or an empty database or schema', isRequired: true },
    { flags: '--dry-run', description: 'say what would be done, and do nothing' },
    {
      flags: '--keep-source',
      description: 'leave the source usable; the two go their own ways from then on',
    },
    { flags: '--restart', description: 'begin an unfinished copy anew' },
  ],
  help: 'Exit code 4: processes that work on the source must be stopped first; they are named.',
  async act(call) {
    const { copyStore } = await import('../../copy/copy.ts')
    const { from, to, dryRun, keepSource, restart } = call.options as Record<string, string | undefined>
    const line = new ProgressLine(call)
    const urlOf = (url: string | undefined) => locatedFile(url as string, call.io.cwd)
    const urls = { from: urlOf(from), to: urlOf(to) }
    const report = await copyStore({
      ...urls,
      dryRun: dryRun !== undefined,
      keepSource: keepSource !== undefined,
      restart: restart !== undefined,
      onProgress: ({ phase, table, done, total }) => line.show({ done, total, what: `${phase} ${table}` }),
    }).finally(() => line.clear())
    // Even if the store was already copied: that command may have died before it reached the tokens.
    if (dryRun === undefined) copyTokens(call, urls)
    return report
  },
  text: copyText,
  // A dry run that finds processes to stop first exits with the same code as the copy would.
  exit: ({ running }) => (running.length > 0 ? errorCodes.HELD.exit : 0),
})

/** A failure here is only a warning: the copy is complete without the files, and a token can be given by hand. */
function copyTokens({ io }: Call, { from, to }: { readonly from: string; readonly to: string }): void {
  try {
    copyLeaseFiles(leaseFolder(from, io), leaseFolder(to, io))
  } catch (error) {
    const why = (error as Error).message
    printTalk(io, `warning  the files of leases could not be copied (${why}): give their tokens with --token`)
  }
}

function copyText(report: CopyReport, view: View): Drawn {
  const { outcome, from, to, tables, rows, running, source, ms } = report
  if (outcome === 'already') return `${from} was copied to ${to} before; nothing was left to do`
  const table = view.table(
    ['table', 'rows', 'digest'],
    tables
      .filter((each) => each.rows > 0)
      .map(({ table: name, rows: count, digest }) => [name, count, digest?.slice(0, 16) ?? null]),
  )
  if (outcome === 'copied') {
    return lines([
      table,
      `${rows} rows of ${from} are in ${to}, each compared with its original (${formatDuration(ms)})`,
      source === 'shut' ? `${from} is shut: open ${to} from now on` : `${from} stays usable`,
    ])
  }
  return lines([
    table,
    `${rows} rows of ${from} would go to ${to}${planOf(report)}; nothing was changed`,
    ...running.map(
      ({ agent, pid, host, namespace }) =>
        `first stop ${agent} (pid ${pid} on ${host}, namespace ${namespace})`,
    ),
  ])
}

function planOf({ began }: CopyReport): string {
  if (began === 'resumed') return ', as far as they are not there yet'
  return began === 'restarted' ? ', from the beginning again, since the source or its clock has changed' : ''
}
