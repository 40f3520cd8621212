/**
 * Functions made for the rows of one table, with its fields written out: the engine runs `row.state` about ten times as
 * fast as `row[field]` in a loop over forty names, and every row goes through here. Where code may not be made from
 * text, the loop serves.
 */
import type { Kind } from './schema.ts'

export interface RowCode {
  /** A row from its values, of which `from` is the place of the first. Throws what `readJson` throws. */
  readonly read: (
    values: readonly unknown[],
    from: number,
    readJson: (text: string | null) => unknown,
  ) => Record<string, unknown>
  /** The places of the fields in which two rows differ; of JSON, the text counts. */
  readonly differing: (before: object, after: object, isSameJson: IsSame) => number[]
}

type IsSame = (left: unknown, right: unknown) => boolean
type Fields = readonly (readonly [field: string, kind: Kind])[]

export function rowCodeOf(fields: Fields): RowCode {
  try {
    return writtenOut(fields)
  } catch {
    return inLoops(fields)
  }
}

/** The names come from the tables described in `schema.ts` and from nowhere else. */
function writtenOut(fields: Fields): RowCode {
  const members = fields.map(([field, kind], place) => {
    const value = `values[from + ${place}]`
    return `${field}: ${kind === 'json' ? `readJson(${value})` : value}`
  })
  const comparisons = fields.map(([field, kind], place) => {
    const differs = `before.${field} !== after.${field}`
    const isOther = kind === 'json' ? ` && !isSameJson(before.${field}, after.${field})` : ''
    return `if (${differs}${isOther}) places.push(${place})`
  })
  return {
    read: make('values, from, readJson', `return { ${members.join(', ')} }`) as RowCode['read'],
    differing: make(
      'before, after, isSameJson',
      `const places = []\n${comparisons.join('\n')}\nreturn places`,
    ) as RowCode['differing'],
  }
}

function make(parameters: string, body: string): unknown {
  return new Function(parameters, body)
}

function inLoops(fields: Fields): RowCode {
  return {
    read: (values, from, readJson) =>
      Object.fromEntries(
        fields.map(([field, kind], place) => {
          const value = values[from + place]
          return [field, kind === 'json' ? readJson(value as string | null) : value]
        }),
      ),
    differing(before, after, isSameJson) {
      const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>]
      return fields.flatMap(([field, kind], place) => {
        if (old[field] === now[field]) return []
        return kind === 'json' && isSameJson(old[field], now[field]) ? [] : [place]
      })
    },
  }
}
