/**
 * One connection. Statements asked for in the same event-loop turn go to the server together and are answered in order,
 * with rows as arrays: inside a transaction in one piece, outside each on its own.
 *
 * More than 300 lines, because all of it is the state of one socket: who waits, what is prepared, and whether a
 * transaction is open.
 */
import type { Socket } from 'node:net'
import type { Client, ClientConfig, Notification, QueryArrayConfig } from 'pg'
import { HoldfastError } from '../../errors.ts'
import type { Address, ServerHost } from './address.ts'
import {
  type Answered,
  type Bundler,
  bundlerOf,
  bytesIn,
  type Part,
  type Reader,
  type Statement,
} from './bundle.ts'
import { Disconnected, poolerBetween } from './classify.ts'
import { parameterOf } from './parameter.ts'
import { type Query, type Row, scriptOf } from './plan.ts'
import { inSchema } from './schema-name.ts'
import { begin, commit, localPath, rollback, type SessionOptions, sessionPath, settings } from './settings.ts'

const defaultAnswerTimeoutMs = 5_000
const defaultConnectTimeoutMs = 5_000
/**
 * The kernel buffers megabytes at once, and a slow link then carries them while the socket seems idle. The answer to a
 * long message may take that much longer, reckoned at 1 MB/s.
 */
const bytesPerMs = 1_000
const maxBuffered = 8_000_000
const int8 = 20
const numeric = 1700
const text = 25

const forget = scriptOf(
  `unlisten *; select set_config('holdfast.now_ms', '', false), set_config('holdfast.wall_ms', '', false)`,
)

interface Driver {
  readonly pg: typeof import('pg')['default']
  readonly Bundle: Bundler
}

let loaded: Promise<Driver> | null = null

async function importDriver(): Promise<Driver> {
  const { default: pg } = await import('pg')
  return { pg, Bundle: bundlerOf(pg.Query as unknown as Parameters<typeof bundlerOf>[0]) }
}

/** `pg` is an optional peer dependency: only those who use PostgreSQL have it. */
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
  /** How long a server may be silent, in addition to its lock waits, before it counts as gone. */
  readonly answerTimeoutMs?: number
  /** How long it may take until the first query can be sent. */
  readonly connectTimeoutMs?: number | undefined
  /** Gives up connecting; a connection that is open stays. */
  readonly signal?: AbortSignal
}

/** A part, and whether the caller wants its answer. */
interface Sent extends Part {
  readonly isAsked: boolean
}

export class Connection {
  readonly #client: Client
  readonly #session: SessionOptions
  /** How long the socket may be idle while an answer is pending. */
  readonly #limitMs: number
  #awaited = 0
  /** Extra time for the answer, because of how much was sent. */
  #slackMs = 0
  readonly #address: Address
  readonly #Bundle: Bundler
  readonly #readerOf: (type: number) => Reader
  readonly #statements = new Map<string, Statement>()
  #names = 0
  #isOwn = false
  #isInTransaction = false
  #ended: Error | null = null
  #onEnd: (error: Error) => void = () => {}
  #onNotification: (message: Notification) => void = () => {}

  private constructor(
    client: Client,
    address: Address,
    { limitMs, ...session }: SessionOptions & { limitMs: number },
    { pg, Bundle }: Driver,
  ) {
    this.#client = client
    this.#address = address
    this.#session = session
    this.#limitMs = limitMs
    this.#Bundle = Bundle
    this.#readerOf = (type) => {
      if (type === int8 || type === numeric) return Number
      return type === text ? null : pg.types.getTypeParser(type)
    }
    client.on('error', (error) => this.#end(error))
    client.on('end', () => this.#end(new Error('the server closed the connection')))
    client.on('notification', (message) => this.#onNotification(message))
  }

  /** The session may be on loan from a pooler: ask the server for its facts, then call `own`. */
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
      // A function keeps the driver from looking for a password itself.
      password: address.password ?? (address.isComplete ? () => '' : undefined),
      database: address.database,
      ssl: address.ssl,
      pipeline: true,
      keepAlive: true,
      keepAliveInitialDelayMillis: 5_000,
      connectionTimeoutMillis: connectTimeoutMs,
      application_name: 'holdfast',
    } as ClientConfig & { pipeline: boolean })
    const limitMs = answerTimeoutMs + session.lockTimeoutMs
    const connection = new Connection(client, address, { ...session, limitMs }, driver)
    const giveUp = () => connection.destroy(new Error('the search for a server is over'))
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      signal?.throwIfAborted()
      await client.connect()
      connection.#stream.on('timeout', () =>
        connection.destroy(new Error('the server did not answer in time')),
      )
    } catch (error) {
      // If the driver itself gave up, for example for lack of a password, the connection would stay until the server
      // ends it.
      connection.destroy(error as Error)
      throw error
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
    return connection
  }

  /**
   * Returns the rows of the last statement. Prepares nothing, and sets nothing beyond this message: the session may be
   * a stranger's. One message is one transaction, and each statement is parsed only after those before it have
   * succeeded.
   */
  async ask(...statements: readonly string[]): Promise<Row[]> {
    const getTypeParser = (type: number) => this.#readerOf(type) ?? String
    const text = [localPath.text, ...statements].join(';\n')
    return this.#connected(async () => {
      const asked = { text, rowMode: 'array', types: { getTypeParser } } as unknown as QueryArrayConfig
      const answered = (await this.#client.query(asked)) as unknown as readonly { readonly rows: Row[] }[]
      return answered.at(-1)?.rows ?? []
    })
  }

  /**
   * Sends the session settings ahead of whatever is asked next, so that they cost no extra round trip. Behind a pooler
   * they go with each transaction instead. Throws if there is a pooler that the URL does not mention: the process that
   * answers is then not the one that let us in.
   */
  own(backend: number): void {
    if (this.#address.isPooled || this.#isOwn) return
    const { processID } = this.#client as unknown as { processID: number | null }
    if (processID !== backend) throw poolerBetween(this.#address.shown)
    this.#isOwn = true
    const wanted = [sessionPath, settings(this.#session, { isLocal: false })]
    this.exchange(wanted).catch((error) => this.destroy(error as Error))
  }

  /** Whether the session is ours and has our settings. */
  get isOwn(): boolean {
    return this.#isOwn
  }

  get isOpen(): boolean {
    return this.#ended === null
  }

  /** Calls the listener once, when the connection is lost or closed. */
  onEnd(listener: (error: Error) => void): void {
    if (this.#ended) listener(this.#ended)
    else this.#onEnd = listener
  }

  onNotification(listener: (message: Notification) => void): void {
    this.#onNotification = listener
  }

  async send(query: Query): Promise<Row[]> {
    if (query.isScript) {
      await this.#run(query)
      return []
    }
    const [answered] = await this.exchange([query])
    return answered?.rows ?? []
  }

  /**
   * One round trip: sends everything and waits for every answer. Throws what the server said about the first statement
   * that failed; inside a transaction it skipped the ones after it, including COMMIT.
   */
  exchange(queries: readonly Query[]): Promise<readonly Answered[]> {
    return this.#exchange(this.#bundle(queries))
  }

  /**
   * The same outside a transaction, as a single one: it costs the server less than one transaction per statement. Not
   * for use behind a pooler.
   */
  exchangeAsOne(queries: readonly Query[]): Promise<readonly Answered[]> {
    return this.#exchange([queries.map((query) => this.#part(query))])
  }

  async #exchange(bundles: readonly (readonly Sent[])[]): Promise<readonly Answered[]> {
    const bytes = bundles.reduce((sum, parts) => sum + bytesIn(parts), 0)
    return this.#connected(async () => {
      const answered = await allOf(bundles.map((each) => this.#submit(each)))
      return bundles.flatMap((parts, index) =>
        (answered[index] as readonly Answered[]).filter((_, index) => parts[index]?.isAsked),
      )
    }, bytes)
  }

  /**
   * Sent unprepared. Behind a pooler that the URL does not mention, prepared statements are missing, and the caller
   * must get to see that error.
   */
  async rollBack(): Promise<void> {
    this.#isInTransaction = false
    await this.#run(rollback)
  }

  #run({ text }: Query): Promise<void> {
    return this.#connected(async () => {
      await this.#client.query(inSchema(text, this.#address.schema))
    })
  }

  async #connected<Result>(ask: () => Promise<Result>, bytes = 0): Promise<Result> {
    if (this.#ended) throw new Disconnected(this.#ended)
    this.#beginWaiting(bytes)
    try {
      return await ask()
    } catch (error) {
      // Errors of the server have a severity; all others come from the driver of a connection that failed.
      if (error instanceof Error && 'severity' in error) throw error
      this.#end(error as Error)
      throw new Disconnected(this.#ended)
    } finally {
      this.#endWaiting()
    }
  }

  /** The socket's timeout counts from the last byte sent or received, however much there is to send. */
  #beginWaiting(bytes: number): void {
    const slackMs = Math.min(bytes, maxBuffered) / bytesPerMs
    this.#awaited++
    if (this.#awaited > 1 && slackMs <= this.#slackMs) return
    this.#slackMs = slackMs
    this.#stream.setTimeout(this.#limitMs + slackMs)
  }

  #endWaiting(): void {
    this.#awaited--
    if (this.#awaited > 0) return
    this.#slackMs = 0
    this.#stream.setTimeout(0)
  }

  /** A different socket once the connection is encrypted. */
  get #stream(): Socket {
    return (this.#client as unknown as { connection: { stream: Socket } }).connection.stream
  }

  /** Outside a transaction each statement is a transaction; two that share an answer would share that too. */
  #bundle(queries: readonly Query[]): Sent[][] {
    const bundles: Sent[][] = []
    let bundle: Sent[] = []
    for (const query of queries) {
      const { bounds } = query
      bundle.push(...(bounds || this.#isInTransaction ? [this.#part(query)] : this.#alone(query)))
      if (bounds === 'begin') bundle.push(...this.#local())
      if (bounds) this.#isInTransaction = bounds === 'begin'
      if (this.#isInTransaction) continue
      bundles.push(bundle)
      bundle = []
    }
    if (bundle.length > 0) bundles.push(bundle)
    return bundles
  }

  #part({ text, values }: Query, isAsked = true): Sent {
    return { statement: this.#statement(text), values: values.map(parameterOf), isAsked }
  }

  /** Behind a pooler our settings last only as long as our transaction, so each statement gets one. */
  #alone(query: Query): Sent[] {
    if (!this.#address.isPooled) return [this.#part(query)]
    return [this.#part(begin, false), ...this.#local(), this.#part(query), this.#part(commit, false)]
  }

  #local(): Sent[] {
    if (!this.#address.isPooled) return []
    return [localPath, settings(this.#session, { isLocal: true })].map((query) => this.#part(query, false))
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

  /** Resets the connection to how it was opened, except that statements stay prepared. Returns false if it cannot. */
  async rest(): Promise<boolean> {
    if (!this.isOpen || this.#isInTransaction) return false
    this.#onEnd = () => {}
    this.#onNotification = () => {}
    await this.#run(forget)
    return true
  }

  /** Takes effect at once: what was sent and not answered fails. */
  destroy(cause: Error): void {
    this.#end(cause)
    this.#stream.destroy()
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

/** Waits for all, then throws the first failure: what is still under way must not run into the next transaction. */
async function allOf<Result>(sent: readonly Promise<Result>[]): Promise<Result[]> {
  const settled = await Promise.allSettled(sent)
  return settled.map((each) => {
    if (each.status === 'rejected') throw each.reason
    return each.value
  })
}
