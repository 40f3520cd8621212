/**
 * How an answer is laid out: a list as a table, one thing as details. A verb says in a few words which fields to show and
 * under which labels. The output schema says what kind of value a field has, and so how it is written.
 */
import type { Drawing } from './drawing.ts'
import { formatDuration } from './duration.ts'
import { type FieldKind, kindOfNumber } from './field-kind.ts'
import { brief, type Cell, type View } from './view.ts'

type FieldOf<Row> = Extract<keyof Row, string>
type Value = Cell | Drawing | undefined

/** A field under its own name, a field under a label, or a label and how to put the value. */
type Shown<Row, Put> =
  | FieldOf<Row>
  | readonly [label: string, value: FieldOf<Row> | ((row: Row, view: View) => Put)]

export type Column<Row> = Shown<Row, Cell | undefined>
/** A line of details: left out if there is no value, repeated for each of several. */
export type Detail<Row> = Shown<Row, Value | readonly Value[]>

/** What is in a list: the answer is one, or one of its fields is. */
export type EntryOf<Answer> = Answer extends readonly (infer Entry)[]
  ? Entry
  : { [Field in keyof Answer]: Answer[Field] extends readonly (infer Entry)[] ? Entry : never }[keyof Answer]

/** The kinds of fields as the schema has them. Fields that it does not know are told by their names and values. */
export type Kinds = ReadonlyMap<string, FieldKind>
const unknown: Kinds = new Map()

export function drawTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  view: View,
  kinds = unknown,
): Drawing {
  return view.table(
    columns.map(labelOf),
    rows.map((row) => columns.map((column) => putValue(column, row, view, kinds) ?? null)),
  )
}

export function drawDetails<Row>(
  details: readonly Detail<Row>[],
  row: Row,
  view: View,
  kinds = unknown,
): Drawing {
  const valuesOf = (detail: Detail<Row>) => [putValue(detail, row, view, kinds)].flat()
  return view.pairs(
    details.flatMap((detail) => valuesOf(detail).map((value) => [labelOf(detail), value] as const)),
  )
}

/** `updatedAt` becomes "updated at". */
function labelOf(shown: Shown<never, unknown>): string {
  const [label] = typeof shown === 'string' ? [words(shown)] : shown
  return label
}

function words(name: string): string {
  return name.replace(/Ms$/, '').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

function putValue<Row, Put>(shown: Shown<Row, Put>, row: Row, view: View, kinds: Kinds): Put | Cell {
  const value = typeof shown === 'string' ? shown : shown[1]
  if (typeof value === 'function') return value(row, view)
  return written(row[value], kinds.get(value) ?? kindOfValue(value, row[value]), view)
}

function kindOfValue(name: string, value: unknown): FieldKind {
  if (typeof value === 'number') return kindOfNumber(name)
  if (typeof value === 'boolean') return 'boolean'
  return typeof value === 'object' ? 'json' : 'text'
}

function written(value: unknown, kind: FieldKind, view: View): Cell {
  if (value == null || value === false) return null
  if (kind === 'time') return view.time(value as number)
  if (kind === 'duration') return formatDuration(value as number)
  if (kind === 'boolean') return 'yes'
  if (kind === 'texts' || kind === 'choices') return (value as readonly string[]).join(', ')
  return kind === 'json' ? brief(value) : (value as Cell)
}
