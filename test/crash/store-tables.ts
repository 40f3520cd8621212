/** The tables of a store as they lie there, past Holdfast, in a form that is the same for every engine. */
import { Client, escapeIdentifier } from 'pg'
import { query } from './support.ts'

export type Table = readonly Record<string, unknown>[]

/** Every table but those each engine keeps for itself, in the order of what identifies a row. */
export function tablesOfFile(path: string): Record<string, Table> {
  const names = query(path, "select name from sqlite_schema where type = 'table'") as { name: string }[]
  const kept = names
    .map(({ name }) => name)
    .filter((name) => !['lease_clock', 'meta', 'namespace'].includes(name))
  const floors = query(path, 'select name as namespace, token_floor as floor from namespace')
  return sorted({
    ...Object.fromEntries(kept.map((name) => [name, query(path, `select * from ${name}`) as Table])),
    token_floor: floors as Table,
  })
}

export async function tablesOf(url: string): Promise<Record<string, Table>> {
  return onServer(url, async (client, schema) => {
    const { rows: names } = await client.query(
      'select tablename as name from pg_tables where schemaname = $1',
      [schema.replaceAll('"', '')],
    )
    const own = ['lane', 'meta', 'timeline', 'token_floor']
    const tables: Record<string, Table> = {}
    for (const { name } of names)
      if (!own.includes(name)) tables[name] = (await client.query(`select * from ${schema}.${name}`)).rows
    const floors = `select namespace, max(floor) as floor from ${schema}.token_floor group by namespace`
    return sorted({ ...tables, token_floor: (await client.query(floors)).rows })
  })
}

/** Numbers of rows serve only where deliveries are ordered by them. */
function sorted(tables: Record<string, Table>): Record<string, Table> {
  return Object.fromEntries(
    Object.entries(tables)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, rows]) => {
        const plain = rows.map(({ row, ...rest }) =>
          Object.fromEntries(
            Object.entries(name === 'delivery' ? { ...rest, row } : rest).sort(([left], [right]) =>
              left < right ? -1 : 1,
            ),
          ),
        )
        const keys = plain.map(
          (each) => [JSON.stringify([each.namespace, each.seq, each.id, each]), each] as const,
        )
        return [name, keys.sort(([left], [right]) => (left < right ? -1 : 1)).map(([, each]) => each)]
      }),
  )
}

/** By the names of columns, written down here once more: what is on the lease clock moves, nothing else does. */
const leaseColumns = [
  'granted_at',
  'seen_at',
  'renewed_at',
  'expires_at',
  'lost_at',
  'noted_lease_at',
  'settled_lease_at',
  'delayed_since',
  'preferred_until',
  'running_since',
  'due_at',
  'next_due_at',
  'allowed_at',
  'gives_up_at',
]

export function shifted(tables: Record<string, Table>, byMs: number): Record<string, Table> {
  const move = (row: Record<string, unknown>, table: string) =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        if (value === null) return [column, value]
        if (leaseColumns.includes(column) || (table === 'allowance' && column === 'at'))
          return [column, Number(value) + byMs]
        if (column === 'marks')
          return [column, JSON.stringify((JSON.parse(String(value)) as number[]).map((mark) => mark + byMs))]
        if (['change', 'detail', 'image'].includes(column)) return [column, movedFields(String(value), byMs)]
        return [column, value]
      }),
    )
  return sorted(
    Object.fromEntries(
      Object.entries(tables).map(([name, rows]) => [name, rows.map((row) => move(row, name))]),
    ),
  )
}

function movedFields(json: string, byMs: number): string {
  const fields = leaseColumns.map((column) =>
    column.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()),
  )
  return JSON.stringify(
    Object.fromEntries(
      Object.entries(JSON.parse(json) as object).map(([field, value]) => [
        field,
        fields.includes(field) && typeof value === 'number' ? value + byMs : value,
      ]),
    ),
  )
}

/** Past Holdfast, in the schema that the URL names. */
export async function onServer<Result>(
  url: string,
  act: (client: Client, schema: string) => Promise<Result>,
): Promise<Result> {
  const client = new Client({
    connectionString: withoutSchema(url),
    types: { getTypeParser: (oid: number) => (oid === 20 ? Number : (text: string) => text) } as never,
  })
  await client.connect()
  try {
    return await act(client, escapeIdentifier(new URL(url).searchParams.get('schema') ?? 'holdfast'))
  } finally {
    await client.end()
  }
}

function withoutSchema(url: string): string {
  const plain = new URL(url)
  plain.searchParams.delete('schema')
  return plain.href
}
