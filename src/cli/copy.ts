/** `holdfast copy --from A --to B`: a store grows up. */
import type { Command } from 'commander'
import type { CopyProgress, CopyReport } from '../copy/copy.ts'
import { systemEnvironment } from '../host/system.ts'
import { printJson, printLine, printTable } from './output.ts'

export interface CopyEdge {
  /** Whether one JSON object is asked for. */
  json(): boolean
  exit(code: number): void
}

interface Options {
  readonly from: string
  readonly to: string
  readonly dryRun?: boolean
  readonly keepSource?: boolean
  readonly restart?: boolean
}

/** A dry run that found who must be stopped first ends as the copy itself would: held. */
const heldExit = 4

export function addCopy(program: Command, edge: CopyEdge): void {
  program
    .command('copy')
    .description('carry a whole store to another place or engine, verified row by row; run it again to go on')
    .requiredOption('--from <url>', 'the store to copy; it is shut afterwards')
    .requiredOption('--to <url>', 'a new file, or an empty database or schema')
    .option('--dry-run', 'say what would be done and change nothing')
    .option('--keep-source', 'leave the source usable; the two go their own ways from then on')
    .option('--restart', 'begin an unfinished copy anew')
    .action(async (options: Options) => {
      const { copyStore } = await import('../copy/copy.ts')
      const bar = process.stderr.isTTY && !edge.json() ? new Bar() : null
      const progress = bar === null ? {} : { onProgress: (at: CopyProgress) => bar.show(at) }
      const report = await copyStore({ ...options, ...progress }).finally(() => bar?.clear())
      if (edge.json()) printJson(report)
      else show(report)
      edge.exit(report.running.length > 0 ? heldExit : 0)
    })
}

function show(report: CopyReport): void {
  const { outcome, from, to, tables, rows, running, source, ms } = report
  if (outcome === 'already') {
    printLine(`${from} was copied to ${to} before; nothing was left to do`)
    return
  }
  const filled = tables.filter((table) => table.rows > 0)
  printTable(
    ['table', 'rows', 'digest'],
    filled.map(({ table, rows: count, digest }) => [table, String(count), digest?.slice(0, 16) ?? '']),
  )
  if (outcome === 'copied') {
    printLine(`${rows} rows of ${from} are in ${to}, each compared with its original (${ms} ms)`)
    printLine(source === 'shut' ? `${from} is shut: open ${to} from now on` : `${from} stays usable`)
    return
  }
  printLine(`${rows} rows of ${from} would go to ${to}${planOf(report)}; nothing was changed`)
  for (const { agent, pid, host, namespace } of running)
    printLine(`first stop ${agent} (pid ${pid} on ${host}, namespace ${namespace})`)
}

function planOf({ began }: CopyReport): string {
  if (began === 'resumed') return ', as far as they are not there yet'
  return began === 'restarted' ? ', from the beginning again, since the source or its clock has changed' : ''
}

const width = 30
const showEveryMs = 100

/** One line, drawn over and over; only on a terminal. */
class Bar {
  #shownAt = Number.NEGATIVE_INFINITY

  show({ phase, table, done, total }: CopyProgress): void {
    const now = systemEnvironment.monotonic()
    if (now - this.#shownAt < showEveryMs && done < total) return
    this.#shownAt = now
    const share = total === 0 ? 1 : Math.min(1, done / total)
    const full = Math.round(share * width)
    const bar = `${'█'.repeat(full)}${'░'.repeat(width - full)}`
    this.#write(
      `${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${phase} ${table}  ${done}/${total}`,
    )
  }

  clear(): void {
    this.#write('')
  }

  #write(text: string): void {
    process.stderr.write(`\r\x1b[2K${text.slice(0, (process.stderr.columns || 80) - 1)}`)
  }
}
