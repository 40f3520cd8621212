/** How answers look to people: tables without frames, aligned pairs, times in UTC, nothing that draws on a terminal. */
import colors from 'picocolors'
import { cutText, printable } from '../domain/text.ts'
import { formatDuration, formatTime } from './duration.ts'
import type { Io } from './io.ts'
import { tableLines } from './table.ts'

export interface View {
  readonly colors: ReturnType<typeof colors.createColors>
  /** For talk, which goes elsewhere. */
  readonly talkColors: ReturnType<typeof colors.createColors>
  readonly columns: number | null
  readonly rows: number | null
  /** Wall time. */
  readonly now: number
  /** An ISO time; `-` for none. */
  time(at: number | null | undefined): string
  /** A time of the lease clock, told in wall time. */
  leaseTime(at: number | null | undefined): string
  /** How much of a lease is left, or that its process is gone: then the next recovery takes it, whatever is left. */
  leaseLeft(lease: { readonly instance: string | null; readonly remainingMs: number }): string
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): string
  /** One thing: a line for each fact that is there. */
  pairs(facts: readonly (readonly [label: string, value: Cell | undefined])[]): string
}

export { printable, printableLines } from '../domain/text.ts'

export type Cell = string | number | null

/** A value of somebody's on one line. */
export function brief(value: unknown, length = 200): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return printable(cutText(text, length))
}

/** What a command learns of the store before it shows an answer. */
export interface Known {
  readonly leaseAheadMs: number
  /** Instances whose process is proven dead. */
  readonly dead: ReadonlySet<string>
}

const nothing: Known = { leaseAheadMs: 0, dead: new Set() }

export function viewFor(io: Io, now: number, known: () => Known = () => nothing): View {
  const paint = colors.createColors(io.hasColors)
  const time = (at: number | null | undefined) => (at == null ? '-' : formatTime(at))
  return {
    colors: paint,
    talkColors: colors.createColors(io.hasTalkColors),
    columns: io.columns,
    rows: io.rows,
    now,
    time,
    leaseTime: (at) => (at == null ? '-' : time(at - known().leaseAheadMs)),
    leaseLeft: ({ instance, remainingMs }) =>
      instance !== null && known().dead.has(instance) ? 'its process is gone' : leaseLeft(remainingMs),
    table: (head, rows) => drawTable(head, rows, io.columns, paint),
    pairs: (facts) => drawPairs(facts, paint),
  }
}

function cellText(cell: Cell | undefined): string {
  return cell == null || cell === '' ? '-' : String(cell)
}

function drawTable(
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  columns: number | null,
  paint: View['colors'],
): string {
  if (rows.length === 0) return paint.dim('(none)')
  const [title = '', ...lines] = tableLines([head, ...rows.map((row) => row.map(cellText))], columns)
  return [paint.bold(title), ...lines].join('\n')
}

function drawPairs(
  facts: readonly (readonly [label: string, value: Cell | undefined])[],
  paint: View['colors'],
): string {
  const shown = facts.filter(([, value]) => value != null && value !== '')
  const width = Math.max(0, ...shown.map(([label]) => label.length))
  const below = `\n${' '.repeat(width + 2)}`
  return shown
    .map(([label, value]) => `${paint.dim(label.padEnd(width))}  ${String(value).replaceAll('\n', below)}`)
    .join('\n')
}

/** How much of a lease is left or since when it is over. */
export function leaseLeft(remainingMs: number): string {
  return remainingMs < 0
    ? `lapsed ${formatDuration(-remainingMs)} ago`
    : `${formatDuration(remainingMs)} left`
}
