/** One connection to a store file: its settings asserted, its statements prepared once. */
import { HoldfastError } from '../../errors.ts'
import { isUncoded, passing } from './classify.ts'
import { type Database, driver, type Statement, type Value } from './driver.ts'

export type Durability = 'full' | 'normal'

/** Pages of 4 KiB: 16 MiB of cache keeps the indexes of a million items at hand. */
const cacheKib = 16 * 1024
/**
 * The caretaker moves the log to the main file in its own thread, but under steady load never reaches the log's
 * end, where the log could begin anew; past 32 MiB a commit moves the little that is left.
 */
const maxLogPages = 8192
/** More rows than any list that users ask for has on a page. */
const maxRowsTried = 1000n

/** Wide enough for an answer that repeats a thousand payloads. */
const maxLength = 400_000_000

/** A process that works, heals and looks around uses about a hundred. */
const maxStatements = 1000

export class Connection {
  // The database object stays referenced as long as its statements: a collected one invalidates them.
  readonly #database: Database
  readonly #statements = new Map<string, Statement>()

  constructor(path: string, options: { readOnly?: boolean } = {}) {
    this.#database = driver().open(path, { ...options, maxLength })
    // Waiting is done by the engine, which does not block the event loop; SQLite itself never waits.
    this.#database.exec('pragma busy_timeout = 0')
  }

  /** Settings that keep acknowledged changes; asserted, because a file system may refuse them silently. */
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
   * What a query of one text column answers, with no statement left behind: the driver from the package cannot end one,
   * and keeps the file open for as long as there is any.
   */
  peek(select: string): string[] {
    const found: string[] = []
    this.#database.function('holdfast_peek', { directOnly: true }, (text) => {
      found.push(String(text))
      return null
    })
    this.#database.exec(`select holdfast_peek(text) from (${select})`)
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
      return this.#statement(sql).all(...values) as (readonly unknown[])[]
    } catch (error) {
      throw isUncoded(error) ? this.#findCode(error, sql, values) : error
    }
  }

  /**
   * The driver from the package leaves out the code of an error when it reads many rows. Asked for one row at a time,
   * it gives it.
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
    // Limits are part of a text, so there may be many; those in use are soon prepared again.
    if (this.#statements.size >= maxStatements) this.#statements.clear()
    this.#statements.set(sql, statement)
    return statement
  }

  get isTransaction(): boolean {
    return this.#database.isTransaction
  }

  /**
   * The driver from the package cannot end a statement, so the log stays beside the file until its statements are
   * collected. Emptied, it misleads nobody: a copy of the file alone is whole, and a file put in its place meets
   * nothing of its predecessor. Never waits: while others are at work, the log is theirs.
   */
  emptyLog(): void {
    this.moveLog()
    try {
      this.exec('pragma wal_checkpoint(truncate)')
    } catch {
      // What is committed is safe in the log, where the next opener finds it.
    }
  }

  /** Moves what is committed to the main file, as far as nobody is kept from writing or reading. */
  moveLog(): void {
    try {
      this.exec('pragma wal_checkpoint(passive)')
    } catch {
      // What is committed is safe in the log.
    }
  }

  close(): void {
    this.#statements.clear()
    this.#database.close()
  }
}
