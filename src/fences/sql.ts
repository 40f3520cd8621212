/**
 * A fence in the user's own database: one row per resource, whose token only grows. Raise it in the transaction of the
 * effect, before the effect. A late holder's whole transaction is then refused, and the row itself serialises two
 * concurrent holders.
 *
 * Not guaranteed: anything for statements outside that transaction, or if the answer is not checked
 * or the transaction is committed despite the refusal.
 */
import { HoldfastError } from '../errors.ts'
import { assertNotLate, type Grant, isToken, readGrant } from './grant.ts'
import { assertOptions, invalid } from './input.ts'

export interface SqlFenceOptions {
  /** Which parameters and functions the database knows: `?` and `max`, or `$1` and `greatest`. */
  readonly dialect: 'sqlite' | 'postgres'
  /** Name of the table, with a schema if you like; `holdfast_fence` by default. */
  readonly table?: string | undefined
}

export interface SqlStatement {
  readonly text: string
  readonly values: readonly [resource: string, token: number]
}

/** Runs a statement in the transaction of the effect and returns its rows, as objects. */
export type SqlQuery = (statement: SqlStatement) => readonly unknown[] | PromiseLike<readonly unknown[]>

export interface SqlFence {
  /** Creates the table if it does not exist. */
  readonly createTable: string
  /** Raises the row to the token, unless it is already higher, and returns the row's token: one row. */
  raise(grant: Grant): SqlStatement
  /** Takes the rows that `raise` returned. LEASE_LOST if they show a later holder: roll back. */
  assertRaised(grant: Grant, rows: readonly unknown[]): void
  /** Both, for an asynchronous driver. */
  pass(grant: Grant, query: SqlQuery): Promise<void>
}

const dialects = {
  sqlite: { parameters: ['?', '?'], larger: 'max', integer: 'integer' },
  // The cast is for drivers that send numbers as untyped text.
  postgres: { parameters: ['$1', '$2::bigint'], larger: 'greatest', integer: 'bigint' },
} as const

export function createSqlFence(options: SqlFenceOptions): SqlFence {
  assertOptions(options, ['dialect', 'table'])
  const { dialect, table = 'holdfast_fence' } = options
  if (typeof dialect !== 'string' || !Object.hasOwn(dialects, dialect)) {
    throw invalid(`${JSON.stringify(dialect)} is not a dialect of this fence`, 'use sqlite or postgres', {
      dialect,
    })
  }
  assertTable(table)
  const words = dialects[dialect]
  const fence: SqlFence = {
    createTable: `create table if not exists ${table} (
      resource text primary key,
      token ${words.integer} not null check (token > 0)
    )`,
    raise(grant) {
      const { resource, token } = readGrant(grant)
      return { text: raiseText(table, words), values: [resource, token] }
    },
    assertRaised(grant, rows) {
      const fenced = readGrant(grant)
      assertNotLate(fenced, raisedToken(rows, fenced.token))
    },
    async pass(grant, query) {
      fence.assertRaised(grant, await query(fence.raise(grant)))
    },
  }
  return fence
}

/** Writes the existing token again for a late holder, so that one statement always returns the token in force. */
function raiseText(table: string, words: (typeof dialects)[keyof typeof dialects]): string {
  const name = table.split('.').at(-1)
  return `insert into ${table} (resource, token)
    values (${words.parameters.join(', ')})
    on conflict (resource) do update
    set token = ${words.larger}(${name}.token, excluded.token)
    returning token`
}

/** PostgreSQL drivers return a bigint as text, SQLite drivers as a number or a BigInt. */
function raisedToken(rows: readonly unknown[], given: number): number {
  const [row] = rows
  const token = Number((row as { token?: unknown } | undefined)?.token)
  // The statement never returns a lower token: it did not run, or not there.
  if (rows.length === 1 && isToken(token) && token >= given) return token
  throw new HoldfastError('INTERNAL', {
    what: `the fence statement returned ${rows.length} rows, but no token of at least ${given}`,
    next: 'roll back; your query function must return the rows of the statement as objects',
    facts: { rows: rows.length, token: given },
  })
}

function assertTable(table: string): void {
  if (typeof table === 'string' && /^[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)?$/i.test(table)) return
  throw invalid(
    `${JSON.stringify(table)} is not a usable table name`,
    'use letters, digits and _, with at most one schema before it',
    { table },
  )
}
