/** One end of a copy in a schema of a PostgreSQL server. */
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import {
  type Cell,
  floorTable,
  interrupted,
  type MarkName,
  type Position,
  type Transfer,
  type TransferPage,
  type TransferRow,
  type TransferTable,
  transferTables,
} from '../transfer.ts'
import { type Address, parseAddress } from './address.ts'
import { classify, isDisconnect, openAgain, unavailable } from './classify.ts'
import type { Connection } from './connection.ts'
import { newestEvent, raiseEventBase } from './event-base.ts'
import { readMark, writeMark } from './marks.ts'
import { findVersion, migrate, type Run, schemaVersion } from './migrate.ts'
import { type Query, queryOf } from './plan.ts'
import { quoted } from './schema-name.ts'
import { findPrimary } from './servers.ts'
import { begin, beginSnapshot, commit, rollback } from './settings.ts'

/** Counting a large table and waiting for a lock take longer than anything a batch does. */
const answerTimeoutMs = 10 * 60_000
/** Other transactions are short; one that holds rows for longer makes the copy BUSY. */
const lockTimeoutMs = 8_000

/** A copy stays in one transaction for as long as it takes. */
const settings = "select set_config('idle_in_transaction_session_timeout', '0', true)"

/** Readers go on; writers wait, and so does another copy. A batch begins with its lane, so that table comes first. */
const lockAll = `lock table ${['lane', ...transferTables.map(({ name }) => name), 'meta']
  .map((name) => `holdfast.${name}`)
  .join(', ')} in share row exclusive mode`

const moveMark = `with met as (
  update holdfast.meta set value = $1 where key = 'copy' and value = $2
  returning 1
)
select holdfast.expect((select count(*) from met), 1)`

export async function openPostgresTransfer(url: string, environment: Environment): Promise<PostgresTransfer> {
  const address = parseAddress(url)
  try {
    const { connection } = await findPrimary(address, {
      environment,
      branches: null,
      durability: 'full',
      lockTimeoutMs,
      answerTimeoutMs,
    })
    return new PostgresTransfer(address, connection)
  } catch (error) {
    const typed = classify(error, address.shown, openAgain)
    throw typed instanceof HoldfastError ? typed : unavailable(address.shown, error, openAgain)
  }
}

export class PostgresTransfer implements Transfer {
  readonly engine = 'postgres'
  readonly location: string
  readonly #address: Address
  readonly #connection: Connection
  #isInTransaction = false

  constructor(address: Address, connection: Connection) {
    this.location = address.shown
    this.#address = address
    this.#connection = connection
  }

  async exists(): Promise<boolean> {
    return (await findVersion(this.#run, this.#address.schema)) > 0
  }

  async look(): Promise<void> {
    const version = await findVersion(this.#run, this.#address.schema)
    if (version !== schemaVersion()) {
      throw new HoldfastError('STORE_UNFIT', {
        what: `${this.location} was made by an older Holdfast`,
        next: 'open it once, by any command, to bring it up to date',
        facts: { location: this.location },
      })
    }
    await this.#begin(beginSnapshot)
  }

  async hold(): Promise<void> {
    await this.#begin(begin)
    await migrate(this.#run, this.#address)
    await this.#run(lockAll)
  }

  async #begin(query: Query): Promise<void> {
    await this.#run(query)
    this.#isInTransaction = true
    await this.#run(settings)
  }

  async commit(): Promise<void> {
    this.#isInTransaction = false
    await this.#run(commit)
  }

  async rollBack(): Promise<void> {
    if (!this.#isInTransaction) return
    this.#isInTransaction = false
    if (this.#connection.isOpen) await this.#run(rollback)
  }

  /** Nothing to check: a server answers for its rows. */
  assertThere(): void {}

  async leaseNow(): Promise<number> {
    return this.#number('select holdfast.now_ms()')
  }

  async wallNow(): Promise<number> {
    return this.#number('select holdfast.wall_ms()')
  }

  async newestEvent(): Promise<number> {
    return newestEvent(this.#run)
  }

  async readMark(name: MarkName): Promise<string | null> {
    return readMark(this.#run, name)
  }

  async writeMark(name: MarkName, value: string): Promise<void> {
    await writeMark(this.#run, name, value)
  }

  async countRows(table: TransferTable): Promise<number> {
    return this.#number(`select count(*) from ${sourceOf(table)}`)
  }

  async readRows(
    table: TransferTable,
    after: Position | null,
    limit: number,
  ): Promise<readonly TransferRow[]> {
    const key = table.key.map((index) => columnAt(table, index))
    const beyond =
      after === null
        ? ''
        : `where (${key.join(', ')}) > (${after.map((_, index) => `$${index + 1}`).join(', ')})`
    const rows = await this.#run(
      `select ${table.columns.map((_, index) => columnAt(table, index)).join(', ')}
from ${sourceOf(table)}
${beyond}
order by ${key.join(', ')}
limit ${limit}`,
      after ?? [],
    )
    return rows as readonly TransferRow[]
  }

  /** Sent together and answered together, so a page costs one round trip. */
  async carry({ table, rows, before, after }: TransferPage): Promise<void> {
    const statements: Query[] = [
      begin,
      { text: settings, values: [] },
      { text: moveMark, values: [after, before] },
      ...(rows.length === 0 ? [] : [insertion(table, rows)]),
      commit,
    ]
    try {
      await this.#typed(() => this.#connection.exchange(statements))
    } catch (error) {
      if (this.#connection.isOpen) await this.#run(rollback)
      throw isUnexpected(error) ? interrupted(this.location) : error
    }
  }

  async removeAllRows(): Promise<void> {
    await this.#run(`truncate ${transferTables.map(({ name }) => `holdfast.${name}`).join(', ')}`)
  }

  async numberOn(): Promise<void> {
    await raiseEventBase(this.#run)
    const delivery = `${quoted(this.#address.schema)}.delivery`
    await this.#run(
      `select setval(pg_get_serial_sequence($1, 'row'), greatest((select max(t.row) from holdfast.delivery t), 1))`,
      [delivery],
    )
  }

  async close(): Promise<void> {
    // A lost connection is destroyed too, or it would keep the process from ending.
    if (!this.#connection.isOpen) return this.#connection.destroy(new Error('the connection was lost'))
    await this.rollBack()
    await this.#connection.close()
  }

  async #number(text: string): Promise<number> {
    const [row] = await this.#run(text)
    return Number(row?.[0])
  }

  readonly #run: Run = (query, values) => this.#typed(() => this.#connection.send(queryOf(query, values)))

  async #typed<Result>(ask: () => Promise<Result>): Promise<Result> {
    try {
      return await ask()
    } catch (error) {
      throw isDisconnect(error) ? lost(this.location, error) : classify(error, this.location)
    }
  }
}

function lost(location: string, cause: unknown): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the connection to ${location} was lost while a store was copied`,
    next: 'run the same command again; it resumes where it stopped',
    facts: { location },
    cause,
  })
}

/** If the mark is not as believed, the statement raises the same error as a batch in that case. */
function isUnexpected(error: unknown): boolean {
  return error instanceof HoldfastError && error.facts.sqlState === 'HF001'
}

function insertion(table: TransferTable, rows: readonly TransferRow[]): Query {
  const columns = table.columns.map(({ name }) => quoted(name))
  const arrays = table.columns.map(
    ({ kind }, index) => `$${index + 1}::${kind === 'integer' ? 'bigint' : 'text'}[]`,
  )
  // The floor has buckets for concurrent deletes; one of them can hold it just as well.
  const [moreColumns, moreValues] = table === floorTable ? [', bucket', ', 0'] : ['', '']
  return {
    text: `insert into holdfast.${table.name} (${columns.join(', ')}${moreColumns}) overriding system value
select carried.*${moreValues}
from unnest(${arrays.join(', ')}) as carried`,
    values: table.columns.map((_, index) => rows.map((row) => row[index] as Cell)),
  }
}

/** The highest bucket of a floor counts. */
function sourceOf(table: TransferTable): string {
  if (table === floorTable)
    return '(select namespace, max(floor) as floor from holdfast.token_floor group by namespace) as t'
  return `holdfast.${table.name} as t`
}

function columnAt(table: TransferTable, index: number): string {
  return `t.${quoted((table.columns[index] as TransferTable['columns'][number]).name)}`
}
