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
    'Copy a whole store to another location or engine, verified row by row. Run it again to resume an interrupted copy.',
  options: [
    {
      flags: '--from <url>',
      description: 'the store to copy; it cannot be used afterwards',
      isRequired: true,
    },
    { flags: '--to <url>', description: 'a new file, or an empty database or schema', isRequired: true },
    { flags: '--dry-run', description: 'show what would be done, without doing it' },
    {
      flags: '--keep-source',
      description: 'leave the source usable; from then on the two diverge',
    },
    { flags: '--restart', description: 'begin an unfinished copy anew' },
  ],
  help: 'Exit code 4: the source is in use; the processes to stop first are listed.',
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
    printTalk(
      io,
      `warning  the lease files could not be copied (${why}); pass the tokens with --token from now on`,
    )
  }
}

function copyText(report: CopyReport, view: View): Drawn {
  const { outcome, from, to, tables, rows, running, source, ms } = report
  if (outcome === 'already') return `${from} was already copied to ${to}; nothing to do`
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
      source === 'shut' ? `${from} can no longer be used: open ${to} from now on` : `${from} stays usable`,
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
  if (began === 'resumed') return ', except those already there'
  return began === 'restarted' ? ', starting over because the source or its clock has changed' : ''
}
