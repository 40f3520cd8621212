/** A filter of items: as SQL, and for an item at hand. */
import type { Item } from '../../domain/item.ts'
import type { ItemFilter } from '../engine.ts'
import type { Parameters } from './rows.ts'

const conditions = {
  labels: (value) => `and holdfast.has_labels(t.data, ${value})`,
  owner: (value) => `and holdfast.json_field(t.data, 'owner') is not distinct from ${value}`,
  host: (value) => `and holdfast.json_field(t.data, 'host') is not distinct from ${value}`,
  priorityMax: (value) => `and t.priority <= ${value}`,
  agent: (value) => `and t.standing = 'held' and t.agent = ${value}`,
} as const satisfies Record<keyof ItemFilter, (value: string) => string>

const fields = Object.keys(conditions) as (keyof ItemFilter)[]

export function filterText(filter: ItemFilter | null, parameters: Parameters): string {
  if (filter === null) return ''
  return fields
    .filter((field) => filter[field] !== undefined)
    .map((field) => conditions[field](parameters.add(filter[field])))
    .join('\n')
}

export function passes(item: Item, filter: ItemFilter): boolean {
  const { labels, owner, host, priorityMax, agent } = filter
  const own = Array.isArray(item.data.labels) ? item.data.labels : []
  return (
    (labels === undefined || labels.every((label) => own.includes(label))) &&
    (owner === undefined || (item.data.owner ?? null) === owner) &&
    (host === undefined || (item.data.host ?? null) === host) &&
    (priorityMax === undefined || item.priority <= priorityMax) &&
    (agent === undefined || (item.standing === 'held' && item.agent === agent))
  )
}
