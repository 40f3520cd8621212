/** What holds of every item between two changes. SQLite's table checks it too; PostgreSQL's does not, see its migration. */
import type { Item } from './item.ts'

const rules: Readonly<Record<string, (item: Item) => boolean>> = {
  'it is held exactly while it has a holder': ({ standing, agent }) =>
    (standing === 'held') === (agent !== null),
  'it is held exactly while its lease has an end': ({ standing, expiresAt }) =>
    (standing === 'held') === (expiresAt !== null),
  'only a holder has a machine': ({ standing, holderHost }) => standing === 'held' || holderHost === null,
  'what is held was started': ({ standing, startedAt }) => standing !== 'held' || startedAt !== null,
  'it was started before its state changed last': ({ startedAt, stateChangedAt }) =>
    startedAt === null || startedAt <= stateChangedAt,
  'it is closed exactly when it has an outcome': ({ standing, outcome }) =>
    (standing === 'closed') === (outcome !== null),
  'it is closed exactly when it has an end': ({ standing, closedAt }) =>
    (standing === 'closed') === (closedAt !== null),
  'only what waits has a time to wait for': ({ standing, runAt }) => standing === 'waiting' || runAt === null,
}

/** The first rule that an item would not keep; null for a sound one. */
export function brokenRule(item: Item): string | null {
  for (const rule in rules) if (!rules[rule]?.(item)) return rule
  return null
}
