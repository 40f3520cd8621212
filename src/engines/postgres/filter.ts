/** A filter of items, as SQL and as a check of an item at hand. */
import type { Item } from '../../domain/item.ts'
import { wordIn, wordsIn } from '../../domain/task.ts'
import type { ItemFilter } from '../../port/item.ts'
import type { Parameters } from './rows.ts'

/** Conditions only for the fields that are asked for; the values are parameters. */
export function filterText(filter: ItemFilter | null, parameters: Parameters): string {
  const { labels, owner, ownerOrNone, host, hostOrNone, maxPriority, agent } = filter ?? {}
  const conditions: string[] = []
  if (labels !== undefined) {
    conditions.push(...labels.map((label) => contains(JSON.stringify(label))))
    conditions.push(`holdfast.has_labels(t.data, ${parameters.add(labels)})`)
  }
  if (owner !== undefined) conditions.push(...equals('owner', owner))
  if (ownerOrNone !== undefined)
    conditions.push(`coalesce(holdfast.json_field(t.data, 'owner') = ${parameters.add(ownerOrNone)}, true)`)
  if (host !== undefined) conditions.push(...equals('host', host))
  if (hostOrNone !== undefined) {
    const isOwn = `coalesce(${itsHost} = ${parameters.add(hostOrNone)}, ${itsHost} is null)`
    // Most items have none, and that needs no parsing.
    conditions.push(`(not ${contains('"host":"')} or ${isOwn})`)
  }
  if (maxPriority !== undefined) conditions.push(`t.priority <= ${parameters.add(maxPriority)}`)
  if (agent !== undefined) conditions.push(`t.phase = 'held' and t.agent = ${parameters.add(agent)}`)
  return conditions.map((condition) => `and ${condition}`).join('\n')

  function equals(field: 'owner' | 'host', value: string | null): string[] {
    const isEqual = `holdfast.json_field(t.data, '${field}') is not distinct from ${parameters.add(value)}`
    return value === null ? [isEqual] : [contains(`"${field}":${JSON.stringify(value)}`), isEqual]
  }

  /** A text that does not contain the value as written needs no parsing, which costs ten times as much. */
  function contains(written: string): string {
    return `strpos(t.data, ${parameters.add(written)}) > 0`
  }
}

const itsHost = "holdfast.json_field(t.data, 'host')"

export function passes(item: Item, filter: ItemFilter): boolean {
  const { labels, owner, ownerOrNone, host, hostOrNone, maxPriority, agent } = filter
  const own = wordsIn(item.data.labels)
  const itsOwner = wordIn(item.data.owner)
  const itsHost = wordIn(item.data.host)
  return (
    (labels === undefined || labels.every((label) => own.includes(label))) &&
    (owner === undefined || itsOwner === owner) &&
    (ownerOrNone === undefined || (itsOwner ?? ownerOrNone) === ownerOrNone) &&
    (host === undefined || itsHost === host) &&
    (hostOrNone === undefined || itsHost === null || itsHost === hostOrNone) &&
    (maxPriority === undefined || item.priority <= maxPriority) &&
    (agent === undefined || (item.phase === 'held' && item.agent === agent))
  )
}
