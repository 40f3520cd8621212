/** What must hold of every item that is written. In SQLite the table checks it; see 0001_store.sql for why not here. */
import type { Item } from '../../domain/item.ts'

const rules: Readonly<Record<string, (item: Item) => boolean>> = {
  'it is held exactly while it has a holder': ({ standing, agent, expiresAt }) =>
    (standing === 'held') === (agent !== null) && (standing === 'held') === (expiresAt !== null),
  'what is held was started': ({ standing, startedAt }) => standing !== 'held' || startedAt !== null,
  'it was started before its state changed last': ({ startedAt, stateChangedAt }) =>
    startedAt === null || startedAt <= stateChangedAt,
  'it is closed exactly when it has an outcome': ({ standing, outcome, closedAt }) =>
    (standing === 'closed') === (outcome !== null) && (standing === 'closed') === (closedAt !== null),
  'only what waits has a time to wait for': ({ standing, runAt }) => standing === 'waiting' || runAt === null,
}

/** Throws what a broken rule of ours would be: nothing of its batch is written. */
export function checkItem(item: Item): void {
  for (const rule in rules) {
    if (!rules[rule]?.(item)) throw new Error(`item ${item.id} would not keep the rule that ${rule}`)
  }
}
