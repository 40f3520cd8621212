/** One connection to a store file. Its settings are asserted, and each statement is prepared once. */
import { HoldfastError } from '../../errors.ts'
import { isUncoded, passing } from './classify.ts'
import { type Database, driver, type Statement, type Value } from './driver.ts'

export type Durability = 'full' | 'normal'

/** 16 MiB of cache (pages of 4 KiB) keeps the indexes of a million items in memory. */
const cacheKib = 16 * 1024
/**
 * The caretaker moves the log to the main file in its own thread. Under steady load it never reaches the end of the
 * log, the point at which the log can start over. Past 32 MiB, a commit moves the little that is left.
 */
const maxLogPages = 8192
/** More rows than one page of any user-facing list. */
const maxRowsTried = 1000n

/** Large enough for an answer that repeats a thousand payloads. */
const longest = 400_000_000

/** Longer than the schema and every mark of a store, which are read before anything is known about the file. */
const maxPeekLength = 1_000_000

/** A process that works, heals and lists things uses about a hundred. */
const maxStatements = 1000

export class Connection {
  // Keep the database object referenced as long as its statements: collecting it invalidates them.
  readonly #database: Database
  readonly #statements = new Map<string, Statement>()
  /** The longest value that is read or written, in bytes. */
  readonly maxLength: number
  /** How much more may be read in lists. */
  #bytesLeft: number

  /** `maxReadBytes`: lists end early, so that all of them together are hardly longer, and no value is. */
  constructor(path: string, options: { readOnly?: boolean; maxReadBytes?: number | undefined } = {}) {
    const { maxReadBytes = Number.POSITIVE_INFINITY, ...opening } = options
    this.maxLength = Math.min(longest, maxReadBytes)
    this.#bytesLeft = maxReadBytes
    this.#database = driver().open(path, { ...opening, maxLength: this.maxLength })
    // The engine does the waiting, without blocking the event loop. SQLite itself never waits.
    this.#database.exec('pragma busy_timeout = 0')
  }

  /** The settings that make acknowledged changes durable. Asserted, because a file system may refuse them silently. */
  configure(path: string, durability: Durability): void {
    const isMemory = path === ':memory:'
    if (!isMemory && this.pragma('journal_mode') !== 'wal') this.#database.exec('pragma journal_mode = wal')
    this.#database.exec(`pragma synchronous = ${durability}`)
    this.#database.exec('pragma foreign_keys = on')
    this.#database.exec(`pragma cache_size = -${cacheKib}`)
    this.#database.exec(`pragma wal_autocheckpoint = ${maxLogPages}`)
    if (process.platform === 'darwin') this.#database.exec('pragma fullfsync = on')
    const synchronous = durability === 'full' ? '2' : '1'
    const isSet = this.pragma('journal_mode') === 'wal' && this.pragma('synchronous') === synchronous
    if (isMemory || (isSet && this.pragma('foreign_keys') === '1')) return
    throw new HoldfastError('STORE_UNFIT', {
      what: `${path} refused the settings that make acknowledged changes durable (journal_mode ${this.pragma('journal_mode')}, synchronous ${this.pragma('synchronous')})`,
      next: 'move the store to a local file system',
    })
  }

  /**
   * The results of a query with one text column, with no statement left behind: the package's driver cannot finalize
   * statements, and keeps the file open as long as there is one.
   */
  peek(select: string): string[] {
    const found: string[] = []
    this.#database.function('holdfast_peek', { directOnly: true }, (text) => {
      found.push(String(text))
      return null
    })
    this.#database.limits.length = Math.min(this.maxLength, maxPeekLength)
    try {
      this.#database.exec(`select holdfast_peek(text) from (${select})`)
    } finally {
      this.#database.limits.length = this.maxLength
    }
    return found
  }

  pragma(name: string): string {
    return this.peek(`select ${name} as text from pragma_${name}`)[0] ?? ''
  }

  exec(sql: string): void {
    this.#database.exec(sql)
  }

  run(sql: string, ...values: Value[]): number {
    return Number(this.#statement(sql).run(...values).changes)
  }

  /** The first row as an array of column values. */
  get(sql: string, ...values: Value[]): readonly unknown[] | undefined {
    return this.#statement(sql).get(...values) as readonly unknown[] | undefined
  }

  all(sql: string, ...values: Value[]): readonly (readonly unknown[])[] {
    try {
      const statement = this.#statement(sql)
      if (this.#bytesLeft < Number.POSITIVE_INFINITY) return this.#firstRows(statement, values)
      return statement.all(...values) as (readonly unknown[])[]
    } catch (error) {
      throw isUncoded(error) ? this.#findCode(error, sql, values) : error
    }
  }

  #firstRows(statement: Statement, values: readonly Value[]): (readonly unknown[])[] {
    const rows: (readonly unknown[])[] = []
    for (const row of statement.iterate(...values) as Iterable<readonly unknown[]>) {
      if (this.#bytesLeft <= 0) break
      for (const value of row) this.#bytesLeft -= typeof value === 'string' ? Buffer.byteLength(value) : 8
      rows.push(row)
    }
    return rows
  }

  /**
   * The package's driver omits the error code when it reads many rows, but includes it when reading one row at a time.
   */
  #findCode(error: unknown, sql: string, values: readonly Value[]): unknown {
    try {
      const one = this.#database.prepare(`select * from (${sql})\nlimit 1 offset ?`)
      for (let row = 0n; row < maxRowsTried && one.get(...values, row) !== undefined; row++);
    } catch (coded) {
      return coded
    }
    return passing(error)
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.#database.prepare(sql)
    statement.setReturnArrays(true)
    // Limits are written into the SQL, so there may be many texts. The ones in use are soon prepared again.
    if (this.#statements.size >= maxStatements) this.#statements.clear()
    this.#statements.set(sql, statement)
    return statement
  }

  get isTransaction(): boolean {
    return this.#database.isTransaction
  }

  /**
   * The package's driver cannot finalize statements, so the log stays beside the file until they are garbage-collected.
   * Emptying it makes it harmless: a copy of the file alone is complete, and a file put in its place finds no trace of
   * its predecessor. Never waits: while others are at work, the log is theirs.
   */
  emptyLog(): void {
    this.moveLog()
    try {
      this.exec('pragma wal_checkpoint(truncate)')
    } catch {
      // Committed changes are safe in the log, where the next opener finds them.
    }
  }

  /** Moves committed changes to the main file, as far as possible without blocking writers or readers. */
  moveLog(): void {
    try {
      this.exec('pragma wal_checkpoint(passive)')
    } catch {
      // Committed changes are safe in the log.
    }
  }

  close(): void {
    this.#statements.clear()
    this.#database.close()
  }
}
