/**
 * Invariants that hold for every item between changes. SQLite's table enforces them too; PostgreSQL's does not, see its
 * migration.
 */
import type { Item } from './item.ts'

const rules: Readonly<Record<string, (item: Item) => boolean>> = {
  'it is held exactly while it has a holder': ({ phase, agent }) => (phase === 'held') === (agent !== null),
  'it is held exactly while its lease has an end': ({ phase, expiresAt }) =>
    (phase === 'held') === (expiresAt !== null),
  'only a holder has a machine': ({ phase, holderHost }) => phase === 'held' || holderHost === null,
  'what is held was started': ({ phase, startedAt }) => phase !== 'held' || startedAt !== null,
  'it was started before its state changed last': ({ startedAt, stateChangedAt }) =>
    startedAt === null || startedAt <= stateChangedAt,
  'it is closed exactly when it has an outcome': ({ phase, outcome }) =>
    (phase === 'closed') === (outcome !== null),
  'it is closed exactly when it has an end': ({ phase, closedAt }) =>
    (phase === 'closed') === (closedAt !== null),
  'only what waits has a time to wait for': ({ phase, runAt }) => phase === 'waiting' || runAt === null,
}

/** The first rule an item breaks; null if it is sound. */
export function brokenRule(item: Item): string | null {
  for (const rule in rules) if (!rules[rule]?.(item)) return rule
  return null
}
