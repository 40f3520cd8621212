/** An item filter as SQL: one text for each set of requested fields, with the values as parameters. */
import type { ItemFilter } from '../../port/item.ts'
import type { Value } from './driver.ts'

/** Values that are not text are ignored; the same rule as `wordIn` and `wordsIn` in the domain. */
const word = (field: 'owner' | 'host') =>
  `iif(json_type(item.data, '$.${field}') = 'text', item.data ->> '$.${field}', null)`
const labels = `select value from json_each(item.data, '$.labels') as label
where label.type = 'text' and json_type(item.data, '$.labels') = 'array'`

const conditions = {
  labels: `and not exists (select 1 from json_each(?) as wanted where wanted.value not in (${labels}))`,
  owner: `and ${word('owner')} is ?`,
  ownerOrNone: `and ifnull(${word('owner')} = ?, 1)`,
  host: `and ${word('host')} is ?`,
  hostOrNone: `and ifnull(${word('host')} = ?, ${word('host')} is null)`,
  maxPriority: 'and item.priority <= ?',
  agent: "and item.phase = 'held' and item.agent = ?",
} as const satisfies Record<keyof ItemFilter, string>

const fields = Object.keys(conditions) as (keyof ItemFilter)[]

export function filterText(filter: ItemFilter | null): string {
  return asked(filter)
    .map((field) => conditions[field])
    .join('\n')
}

export function filterValues(filter: ItemFilter | null): Value[] {
  return asked(filter).map((field) => {
    const value = filter?.[field]
    if (typeof value === 'number') return BigInt(value)
    return Array.isArray(value) ? JSON.stringify(value) : (value as string | null)
  })
}

function asked(filter: ItemFilter | null): (keyof ItemFilter)[] {
  return filter === null ? [] : fields.filter((field) => filter[field] !== undefined)
}
