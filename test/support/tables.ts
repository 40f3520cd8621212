/** The rows of a store as they lie there, to compare with what its events say. */
type Row = Record<string, unknown>

/** Tables whose rows events rebuild, and what identifies a row there. */
const replayed = {
  item: (row: Row) => `item:${row.id}`,
  lock: (row: Row) => `lock:${row.name}#${row.slot}`,
  lock_waiter: (row: Row) => `waiter:${row.id}`,
  run: (row: Row) => `run:${row.run}`,
  outcome: (row: Row) => `outcome:${row.id}`,
  queue: (row: Row) => `queue:${row.name}`,
  workflow: (row: Row) => `workflow:${row.name}`,
  instance: (row: Row) => `instance:${row.id}`,
  state: (row: Row) => `state:${row.key}`,
  message: (row: Row) => `message:${row.id}`,
  delivery: (row: Row) => `delivery:${row.id}`,
  recipient: (row: Row) => `recipient:${row.name}`,
} as const

const jsonColumns = new Set([
  'ancestors',
  'blockers',
  'waitingFor',
  'error',
  'progress',
  'progressAtLoss',
  'data',
  'definition',
  'patterns',
  'cursor',
  'policy',
  'escalation',
])

/** `readAll` answers every row of a table, by the names of its columns. */
export async function readTables(readAll: (table: string) => Promise<unknown[]>): Promise<Map<string, Row>> {
  const found = new Map<string, Row>()
  for (const [table, keyOf] of Object.entries(replayed)) {
    for (const raw of await readAll(table)) {
      const row = asRulesSeeIt(raw as Row)
      found.set(keyOf(row), row)
    }
  }
  return found
}

function asRulesSeeIt({ namespace, row, ...columns }: Row): Row {
  return Object.fromEntries(
    Object.entries(columns).map(([column, value]) => {
      const field = column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
      return [field, jsonColumns.has(field) && typeof value === 'string' ? JSON.parse(value) : value]
    }),
  )
}
