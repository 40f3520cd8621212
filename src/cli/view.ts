/** How answers look to people: tables without frames, aligned pairs, times in UTC, no control characters from data. */
import colors from 'picocolors'
import { cutText, printable } from '../domain/text.ts'
import { Drawing, type Drawn, drawn, line, lines } from './drawing.ts'
import { formatDuration, formatTime } from './duration.ts'
import type { Io } from './io.ts'
import { tableLines } from './table.ts'

export type Colors = Readonly<Record<'bold' | 'dim' | 'red' | 'green' | 'yellow', (text: Drawn) => Drawing>>

export interface View {
  readonly colors: Colors
  /** For talk, which goes to stderr. */
  readonly talkColors: Colors
  readonly columns: number | null
  readonly rows: number | null
  /** Wall time. */
  readonly now: number
  /** An ISO time; `-` for none. */
  time(at: number | null | undefined): string
  /** A time of the lease clock, shown as wall time. */
  leaseTime(at: number | null | undefined): string
  /** How much of a lease is left, or that its process is gone: then the next recovery reclaims it, whatever is left. */
  leaseLeft(lease: { readonly instance: string | null; readonly remainingMs: number }): string
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): Drawing
  /** One thing, with one line per fact that has a value. */
  pairs(facts: readonly Fact[]): Drawing
}

export type Cell = string | number | null
type Fact = readonly [label: string, value: Cell | Drawing | undefined]

/** The beginning of a user's value. */
export function brief(value: unknown, length = 200): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return cutText(text, length)
}

/** What a command learns about the store before it shows an answer. */
export interface Known {
  readonly leaseAheadMs: number
  /** Instances whose process has been proven dead. */
  readonly dead: ReadonlySet<string>
}

const nothing: Known = { leaseAheadMs: 0, dead: new Set() }

export function viewFor(io: Io, now: number, known: () => Known = () => nothing): View {
  const paint = colorsFor(io.hasColors)
  const time = (at: number | null | undefined) => (at == null ? '-' : formatTime(at))
  return {
    colors: paint,
    talkColors: colorsFor(io.hasTalkColors),
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

function colorsFor(hasColors: boolean): Colors {
  const { bold, dim, red, green, yellow } = colors.createColors(hasColors)
  const painter = (paint: (text: string) => string) => (text: Drawn) => new Drawing(paint(drawn(text)))
  return {
    bold: painter(bold),
    dim: painter(dim),
    red: painter(red),
    green: painter(green),
    yellow: painter(yellow),
  }
}

function cellText(cell: Cell | undefined): string {
  return cell == null || cell === '' ? '-' : printable(String(cell))
}

function drawTable(
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  columns: number | null,
  paint: Colors,
): Drawing {
  if (rows.length === 0) return paint.dim('(none)')
  const [title = '', ...below] = tableLines([head, ...rows.map((row) => row.map(cellText))], columns)
  return lines([paint.bold(title), ...below])
}

function drawPairs(facts: readonly Fact[], paint: Colors): Drawing {
  const shown = facts.filter(([, value]) => value != null && value !== '')
  const width = Math.max(0, ...shown.map(([label]) => label.length))
  const below = `\n${' '.repeat(width + 2)}`
  return lines(
    shown.map(([label, value]) => {
      const text = drawn(value instanceof Drawing ? value : String(value)).replaceAll('\n', below)
      return line`${paint.dim(label.padEnd(width))}  ${new Drawing(text)}`
    }),
  )
}

/** How much of a lease is left, or how long ago it lapsed. */
export function leaseLeft(remainingMs: number): string {
  return remainingMs < 0
    ? `lapsed ${formatDuration(-remainingMs)} ago`
    : `${formatDuration(remainingMs)} left`
}
