/**
 * One connection. What is asked for in one turn goes to the server together, and is answered in order as arrays: inside
 * a transaction in one piece, outside each on its own.
 */
import type { Client, ClientConfig, Notification, QueryArrayConfig } from 'pg'
import { HoldfastError } from '../../errors.ts'
import type { Address, ServerHost } from './address.ts'
import { type Answered, type Bundler, bundlerOf, type Part, type Reader, type Statement } from './bundle.ts'
import { Disconnected } from './classify.ts'
import { parameterOf } from './parameter.ts'
import type { Query, Row } from './plan.ts'
import { inSchema } from './schema-name.ts'
import { type SessionOptions, settings } from './settings.ts'

const defaultAnswerTimeoutMs = 5_000
const defaultConnectTimeoutMs = 5_000
const int8 = 20
const numeric = 1700
const text = 25

const forget = `unlisten *; select set_config('holdfast.now_ms', '', false), set_config('holdfast.wall_ms', '', false)`

interface Driver {
  readonly pg: typeof import('pg')['default']
  readonly Bundle: Bundler
}

let loaded: Promise<Driver> | null = null

async function importDriver(): Promise<Driver> {
  const { default: pg } = await import('pg')
  return { pg, Bundle: bundlerOf(pg.Query as unknown as Parameters<typeof bundlerOf>[0]) }
}

/** `pg` is an optional peer: only those who use PostgreSQL have it. */
async function loadDriver(): Promise<Driver> {
  loaded ??= importDriver()
  try {
    return await loaded
  } catch (cause) {
    loaded = null
    throw new HoldfastError('STORE_UNFIT', {
      what: 'a PostgreSQL store needs the package pg, which is not installed',
      next: 'npm install pg',
      cause,
    })
  }
}

export interface ConnectionOptions extends SessionOptions {
  /** A server that answers nothing for so long is taken for gone. */
  readonly answerTimeoutMs?: number
  /** So long it may take until the first question can be asked. */
  readonly connectTimeoutMs?: number | undefined
  /** Gives up connecting; a connection that is open stays. */
  readonly signal?: AbortSignal
}

export class Connection {
  readonly #client: Client
  readonly #address: Address
  readonly #Bundle: Bundler
  readonly #readerOf: (type: number) => Reader
  readonly #statements = new Map<string, Statement>()
  #names = 0
  #isInTransaction = false
  #ended: Error | null = null
  #onEnd: (error: Error) => void = () => {}
  #onNotification: (message: Notification) => void = () => {}

  private constructor(client: Client, address: Address, { pg, Bundle }: Driver) {
    this.#client = client
    this.#address = address
    this.#Bundle = Bundle
    this.#readerOf = (type) => {
      if (type === int8 || type === numeric) return Number
      return type === text ? null : pg.types.getTypeParser(type)
    }
    client.on('error', (error) => this.#end(error))
    client.on('end', () => this.#end(new Error('the server closed the connection')))
    client.on('notification', (message) => this.#onNotification(message))
  }

  static async open(
    address: Address,
    { host, port }: ServerHost,
    {
      answerTimeoutMs = defaultAnswerTimeoutMs,
      connectTimeoutMs = defaultConnectTimeoutMs,
      signal,
      ...session
    }: ConnectionOptions,
  ): Promise<Connection> {
    const driver = await loadDriver()
    const client = new driver.pg.Client({
      host,
      port,
      user: address.user,
      password: address.password,
      database: address.database,
      ssl: address.ssl,
      pipeline: true,
      keepAlive: true,
      keepAliveInitialDelayMillis: 5_000,
      connectionTimeoutMillis: connectTimeoutMs,
      query_timeout: answerTimeoutMs + session.lockTimeoutMs,
      application_name: 'holdfast',
    } as ClientConfig & { pipeline: boolean })
    const connection = new Connection(client, address, driver)
    const giveUp = () => connection.destroy(new Error('the search for a server is over'))
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      signal?.throwIfAborted()
      await client.connect()
    } catch (error) {
      // What the driver itself gave up, such as a password it does not have, would wait for the server to end it.
      connection.destroy(error as Error)
      throw error
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
    if (!address.isPooled) connection.#set(session)
    return connection
  }

  /** Goes ahead of whatever is asked first, and costs no round trip of its own. */
  #set(session: SessionOptions): void {
    this.send(settings(session, { isLocal: false })).catch((error) => this.destroy(error as Error))
  }

  get isOpen(): boolean {
    return this.#ended === null
  }

  /** Told once, when the connection is lost or closed. */
  onEnd(listener: (error: Error) => void): void {
    if (this.#ended) listener(this.#ended)
    else this.#onEnd = listener
  }

  onNotification(listener: (message: Notification) => void): void {
    this.#onNotification = listener
  }

  async send(query: Query): Promise<Row[]> {
    // Only the plainer protocol takes several statements in one text, such as a migration.
    const isScript = query.values.length === 0 && query.text.includes(';')
    const [answered] = isScript ? [await this.#run(query.text)] : await this.exchange([query])
    return answered?.rows ?? []
  }

  /**
   * One round trip: sends all and waits for all. Throws what the server said to the first that failed; inside a
   * transaction the others after it were passed over, COMMIT too.
   */
  async exchange(queries: readonly Query[]): Promise<readonly Answered[]> {
    return this.#connected(async () => {
      const bundles = this.#bundle(queries).map((each) => this.#submit(each))
      if (bundles.length === 1) return bundles[0] as Promise<readonly Answered[]>
      return (await allOf(bundles)).flat()
    })
  }

  /** As a text: behind a pooler that was not told of, what was prepared is not there, and that is to be said. */
  async rollBack(): Promise<void> {
    this.#isInTransaction = false
    await this.#run('rollback')
  }

  #run(script: string): Promise<Answered> {
    return this.#connected(async () => {
      await this.#client.query(inSchema(script, this.#address.schema))
      return { rows: [], command: '' }
    })
  }

  async #connected<Result>(ask: () => Promise<Result>): Promise<Result> {
    if (this.#ended) throw new Disconnected(this.#ended)
    try {
      return await ask()
    } catch (error) {
      // What the server says has a severity; everything else is said by the driver of a connection that failed.
      if (error instanceof Error && 'severity' in error) throw error
      this.#end(error as Error)
      throw new Disconnected(error)
    }
  }

  /** Outside a transaction each statement is one; two that share an answer would share that too. */
  #bundle(queries: readonly Query[]): Part[][] {
    const bundles: Part[][] = []
    let together: Part[] = []
    for (const { text, values } of queries) {
      together.push({ statement: this.#statement(text), values: values.map(parameterOf) })
      if (text.startsWith('begin')) this.#isInTransaction = true
      else if (text === 'commit' || text === 'rollback') this.#isInTransaction = false
      if (this.#isInTransaction) continue
      bundles.push(together)
      together = []
    }
    if (together.length > 0) bundles.push(together)
    return bundles
  }

  #submit(parts: readonly Part[]): Promise<readonly Answered[]> {
    return new Promise((resolve, reject) => {
      const bundle = new this.#Bundle(parts, {
        nextName: () => {
          this.#names++
          return this.#address.prepares ? `hf${this.#names}` : null
        },
        readerOf: this.#readerOf,
        resolve,
        reject,
      })
      this.#client.query(bundle as unknown as QueryArrayConfig)
    })
  }

  #statement(text: string): Statement {
    const known = this.#statements.get(text)
    if (known) return known
    const statement: Statement = { text: inSchema(text, this.#address.schema), name: null, readers: [] }
    this.#statements.set(text, statement)
    return statement
  }

  /** As it was when it was opened, but that its statements are prepared. False when it cannot be. */
  async rest(): Promise<boolean> {
    if (!this.isOpen || this.#isInTransaction) return false
    this.#onEnd = () => {}
    this.#onNotification = () => {}
    await this.#run(forget)
    return true
  }

  /** At once: what was sent and not answered fails. */
  destroy(cause: Error): void {
    this.#end(cause)
    ;(this.#client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  }

  async close(): Promise<void> {
    if (this.#ended) return
    this.#end(new Error('the connection was closed'))
    await this.#client.end()
  }

  #end(error: Error): void {
    if (this.#ended) return
    this.#ended = error
    this.#onEnd(error)
  }
}

/** Waits for all, then throws the first failure: what is still under way must not meet the next transaction. */
async function allOf<Result>(sent: readonly Promise<Result>[]): Promise<Result[]> {
  const settled = await Promise.allSettled(sent)
  return settled.map((each) => {
    if (each.status === 'rejected') throw each.reason
    return each.value
  })
}
