/** One end of a copy in a SQLite file. */
import { existsSync } from 'node:fs'
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { Kind } from '../row-code.ts'
import {
  eventTable,
  floorTable,
  interrupted,
  type MarkName,
  type Position,
  positionOf,
  type Transfer,
  type TransferPage,
  type TransferRow,
  type TransferTable,
  transferTables,
} from '../transfer.ts'
import { atCommit, classify } from './classify.ts'
import { bootOffset, knownOffset } from './clock.ts'
import { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import { readMark, writeMark } from './marks.ts'
import { isCurrent, isMade, migrate } from './migrate.ts'
import { findStoreFile, type StoreFile } from './store-file.ts'
import { removeStrayIndex } from './store-log.ts'
import { assertLogCame } from './store-name.ts'
import { Turn } from './turn.ts'

const limits = { timeoutMs: 5_000, patienceMs: 20_000 }

export class SqliteTransfer implements Transfer {
  readonly engine = 'sqlite'
  readonly location: string
  readonly #environment: Environment
  readonly #turn: Turn
  #opened: Connection | null = null
  #file: StoreFile | null = null
  #offset: number | null = null
  #wasHeld = false

  constructor(location: string, environment: Environment) {
    this.location = location
    this.#environment = environment
    this.#turn = new Turn(environment, limits, location)
  }

  async exists(): Promise<boolean> {
    if (!existsSync(this.location)) return false
    const connection = await this.#open()
    return this.#take(() => isMade(connection, this.location))
  }

  async look(): Promise<void> {
    const connection = await this.#open()
    await this.#take(() => {
      connection.run('begin')
      if (isCurrent(connection, this.location)) return assertLogCame(connection, this.location)
      throw new HoldfastError('STORE_UNFIT', {
        what: `${this.location} was made by an older Holdfast`,
        next: 'open it once, by any command, to bring it up to date',
        facts: { location: this.location },
      })
    })
    this.#offset = knownOffset(this.#connection, this.#environment)
  }

  async hold(): Promise<void> {
    const connection = await this.#open()
    // Checked before changing any setting, so that another program's file is left untouched.
    await this.#take(() => isCurrent(connection, this.location))
    await this.#take(() => removeStrayIndex(connection, this.location))
    await this.#take(() => connection.configure(this.location, 'full'))
    await this.#take(() => {
      connection.run('begin immediate')
      if (!isCurrent(connection, this.location)) migrate(connection)
      assertLogCame(connection, this.location)
      this.#offset = bootOffset(connection, this.#environment)
    })
    this.#wasHeld = true
  }

  async commit(): Promise<void> {
    await this.#take(() => this.#commit())
  }

  assertThere(): void {
    this.#file?.assertThere(this.#environment.monotonic())
  }

  async rollBack(): Promise<void> {
    if (this.#opened?.isTransaction) this.#opened.run('rollback')
  }

  /** Only for a store that is held or looked at. */
  async leaseNow(): Promise<number> {
    if (this.#offset === null) return this.#environment.now()
    return Math.floor(this.#environment.monotonic()) + this.#offset
  }

  async wallNow(): Promise<number> {
    return this.#environment.now()
  }

  async newestEvent(): Promise<number> {
    return Number(this.#connection.get('select coalesce(max(seq), 0) from event')?.[0])
  }

  async readMark(name: MarkName): Promise<string | null> {
    return readMark(this.#connection, name)
  }

  async writeMark(name: MarkName, value: string): Promise<void> {
    writeMark(this.#connection, name, value)
  }

  async countRows(table: TransferTable): Promise<number> {
    return Number(this.#connection.get(`select count(*) from ${namesOf(table).name}`)?.[0])
  }

  async readRows(
    table: TransferTable,
    after: Position | null,
    limit: number,
  ): Promise<readonly TransferRow[]> {
    if (table === eventTable) return this.#readEvents(after, limit)
    const { name, columns } = namesOf(table)
    const key = table.key.map((index) => columns[index] as string)
    const values = (after ?? []).map((cell, index) => encode(kindAt(table, table.key[index] as number), cell))
    const beyond = after === null ? '' : `where (${key.join(', ')}) > (${key.map(() => '?').join(', ')})`
    return this.#rows(
      `select json_array(${columns.join(', ')})
from ${name}
${beyond}
order by ${key.join(', ')}
limit ${limit}`,
      values,
    )
  }

  /** Reads by namespace, like every table, although events are numbered across all namespaces: one pass for each. */
  #readEvents(after: Position | null, limit: number): readonly TransferRow[] {
    const rows: TransferRow[] = []
    let namespace = after === null ? this.#namespaceAfter(null) : String(after[0])
    let seq = after === null ? 0 : Number(after[1])
    while (namespace !== null) {
      rows.push(...this.#eventsOf(namespace, seq, limit - rows.length))
      if (rows.length === limit) break
      namespace = this.#namespaceAfter(namespace)
      seq = 0
    }
    return rows
  }

  #eventsOf(namespace: string, after: number, limit: number): readonly TransferRow[] {
    const columns = eventTable.columns.map(({ name }) => name).join(', ')
    return this.#rows(
      `select json_array(${columns})
from event not indexed
where namespace = ? and seq > ?
order by seq
limit ${limit}`,
      [namespace, BigInt(after)],
    )
  }

  #namespaceAfter(namespace: string | null): string | null {
    const [beyond, values] = namespace === null ? ['', []] : ['where namespace > ?', [namespace]]
    return this.#connection.get(`select min(namespace) from event ${beyond}`, ...values)?.[0] as string | null
  }

  #rows(text: string, values: readonly Value[]): readonly TransferRow[] {
    return this.#connection.all(text, ...values).map(([packed]) => JSON.parse(packed as string))
  }

  async carry({ table, rows, before, after }: TransferPage): Promise<void> {
    const connection = this.#connection
    await this.#take(() => {
      connection.run('begin immediate')
      const moved = connection.run(
        "update meta set value = ? where key = 'copy' and value = ?",
        after,
        before,
      )
      if (moved !== 1) throw interrupted(this.location)
      this.#insert(table, rows)
      this.#commit()
    })
  }

  #commit(): void {
    this.assertThere()
    try {
      this.#connection.run('commit')
    } catch (error) {
      throw atCommit(error, this.location)
    }
    const refusal = this.#file?.refusalAfterCommit(this.#environment.monotonic()) ?? null
    if (refusal) throw refusal
  }

  #insert(table: TransferTable, rows: readonly TransferRow[]): void {
    const { name, columns } = namesOf(table)
    const text = `insert into ${name} (${columns.join(', ')})\nvalues (${columns.map(() => '?').join(', ')})`
    for (const row of rows) {
      try {
        this.#connection.run(text, ...row.map((cell, index) => encode(kindAt(table, index), cell)))
      } catch (error) {
        throw classify(error, `${this.location}, row ${JSON.stringify(positionOf(table, row))} of ${name}`)
      }
    }
  }

  async removeAllRows(): Promise<void> {
    for (const table of transferTables.toReversed())
      this.#connection.run(`delete from ${namesOf(table).name}`)
  }

  /** Nothing to do: SQLite continues after the highest row. */
  async numberOn(): Promise<void> {}

  async close(): Promise<void> {
    await this.rollBack()
    if (this.#wasHeld && this.#file?.isThere(this.#environment.monotonic())) this.#opened?.emptyLog()
    this.#opened?.close()
    this.#opened = null
  }

  get #connection(): Connection {
    if (this.#opened === null) throw new Error(`${this.location} is not open`)
    return this.#opened
  }

  async #open(): Promise<Connection> {
    if (this.#opened !== null) return this.#opened
    try {
      const { file } = await findStoreFile(this.location, this.#turn, { environment: this.#environment })
      this.#file = file
    } catch (error) {
      throw classify(error, this.location)
    }
    const opened = await this.#take(() => new Connection(this.location))
    this.#turn.watch(() => opened.pragma('data_version'))
    this.#opened = opened
    return opened
  }

  async #take<Result>(act: () => Result): Promise<Result> {
    try {
      return await this.#turn.take(() => {
        try {
          return act()
        } catch (error) {
          // A half-done step must not get in the way of the next attempt.
          if (this.#opened?.isTransaction) this.#opened.run('rollback')
          throw error
        }
      })
    } catch (error) {
      throw classify(error, this.location)
    }
  }
}

/** Here the token floor is a column of the namespace's row. */
function namesOf(table: TransferTable): { name: string; columns: readonly string[] } {
  if (table === floorTable) return { name: 'namespace', columns: ['name', 'token_floor'] }
  return { name: table.name, columns: table.columns.map(({ name }) => name) }
}

function kindAt(table: TransferTable, index: number): Kind {
  return (table.columns[index] as TransferTable['columns'][number]).kind
}

function encode(kind: Kind, cell: string | number | null): Value {
  if (cell === null) return null
  return kind === 'integer' ? BigInt(cell) : String(cell)
}
