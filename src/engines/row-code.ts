/**
 * Functions generated for the rows of one table, with its fields spelled out: V8 runs `row.state` about ten times as
 * fast as `row[field]` in a loop over forty names, and every row goes through here. Where generating code from text is
 * forbidden, a loop does the work.
 */

export type Kind = 'integer' | 'text' | 'json'

export interface RowCode {
  /** A row from its values, starting at index `from`. Throws what `readJson` throws. */
  readonly read: (
    values: readonly unknown[],
    from: number,
    readJson: (text: string | null) => unknown,
  ) => Record<string, unknown>
  /** The values of a row in the order of its fields, each encoded by the writer for its kind. */
  readonly values: (row: object, write: Writers) => unknown[]
  /** The same for the fields by which a write finds the row as it was read. */
  readonly asRead: (row: object, write: Writers) => unknown[]
  /** What an event records about a new row: the fields that are set, as JSON text. */
  readonly eventJson: (row: object, write: Writers) => string
  /** The indexes of the fields in which two rows differ. JSON is compared as text. */
  readonly differing: (before: object, after: object, isSameJson: IsSame) => number[]
}

/** How to encode a value of each kind; never called with null. */
export type Writers = { readonly [Name in Kind]: (value: never) => unknown }

type IsSame = (left: unknown, right: unknown) => boolean
type Field = readonly [field: string, kind: Kind]

export interface Fields {
  readonly all: readonly Field[]
  readonly asRead: readonly Field[]
  /** The fields that events record. */
  readonly eventJson: readonly Field[]
}

export function rowCodeOf(fields: Fields): RowCode {
  try {
    return writtenOut(fields)
  } catch {
    return inLoops(fields)
  }
}

/** Safe, because the names come only from the tables described in `schema.ts`. */
function writtenOut({ all, asRead, eventJson }: Fields): RowCode {
  const members = all.map(([field, kind], index) => {
    const value = `values[from + ${index}]`
    return `${field}: ${kind === 'json' ? `readJson(${value})` : value}`
  })
  const comparisons = all.map(([field, kind], index) => {
    const differs = `before.${field} !== after.${field}`
    const isOther = kind === 'json' ? ` && !isSameJson(before.${field}, after.${field})` : ''
    return `if (${differs}${isOther}) indexes.push(${index})`
  })
  return {
    read: make('values, from, readJson', `return { ${members.join(', ')} }`) as RowCode['read'],
    values: make('row, write', `return [${written(all)}]`) as RowCode['values'],
    asRead: make('row, write', `return [${written(asRead)}]`) as RowCode['asRead'],
    eventJson: make(
      'row, write',
      `let json = ''\n${eventJson.map(tell).join('\n')}\nreturn '{' + json.slice(1) + '}'`,
    ) as RowCode['eventJson'],
    differing: make(
      'before, after, isSameJson',
      `const indexes = []\n${comparisons.join('\n')}\nreturn indexes`,
    ) as RowCode['differing'],
  }
}

function written(fields: readonly Field[]): string {
  return fields.map(([field, kind]) => `row.${field} == null ? null : write.${kind}(row.${field})`).join(', ')
}

function tell([field, kind]: Field): string {
  return `if (row.${field} != null) json += ',"${field}":' + write.${kind}(row.${field})`
}

function make(parameters: string, body: string): unknown {
  return new Function(parameters, body)
}

function inLoops({ all, asRead, eventJson }: Fields): RowCode {
  return {
    values: (row, write) => all.map((field) => writtenField(row, field, write)),
    asRead: (row, write) => asRead.map((field) => writtenField(row, field, write)),
    eventJson: (row, write) =>
      `{${eventJson.flatMap((field) => eventField(field[0], writtenField(row, field, write))).join(',')}}`,
    read: (values, from, readJson) =>
      Object.fromEntries(
        all.map(([field, kind], index) => {
          const value = values[from + index]
          return [field, kind === 'json' ? readJson(value as string | null) : value]
        }),
      ),
    differing(before, after, isSameJson) {
      const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>]
      return all.flatMap(([field, kind], index) => {
        if (old[field] === now[field]) return []
        return kind === 'json' && isSameJson(old[field], now[field]) ? [] : [index]
      })
    },
  }
}

function writtenField(row: object, [field, kind]: Field, write: Writers): unknown {
  const value = (row as Record<string, unknown>)[field] ?? null
  return value === null ? null : write[kind](value as never)
}

function eventField(field: string, value: unknown): string[] {
  return value === null ? [] : [`"${field}":${String(value)}`]
}
