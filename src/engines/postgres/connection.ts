/** One connection: queries are sent without waiting for earlier answers, and answered in order as arrays. */
import type { Client, ClientConfig, Notification, QueryArrayConfig } from 'pg'
import { HoldfastError } from '../../errors.ts'
import type { Address, ServerHost } from './address.ts'
import { Disconnected } from './classify.ts'
import type { Query, Row } from './plan.ts'
import { inSchema } from './schema-name.ts'
import { type SessionOptions, settings } from './settings.ts'

const defaultAnswerTimeoutMs = 5_000
const connectTimeoutMs = 5_000
const int8 = 20
const numeric = 1700

interface Statement {
  readonly name: string | undefined
  readonly text: string
}

type Driver = typeof import('pg')['default']

let loaded: Promise<{ readonly default: Driver }> | null = null

/** `pg` is an optional peer: only those who use PostgreSQL have it. */
async function loadDriver(): Promise<Driver> {
  loaded ??= import('pg')
  try {
    const { default: driver } = await loaded
    return driver
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
}

export class Connection {
  readonly #client: Client
  readonly #address: Address
  readonly #statements = new Map<string, Statement>()
  #ended: Error | null = null
  #onEnd: (error: Error) => void = () => {}
  #onNotification: (message: Notification) => void = () => {}

  private constructor(client: Client, address: Address) {
    this.#client = client
    this.#address = address
    client.on('error', (error) => this.#end(error))
    client.on('end', () => this.#end(new Error('the server closed the connection')))
    client.on('notification', (message) => this.#onNotification(message))
  }

  static async open(
    address: Address,
    { host, port }: ServerHost,
    { answerTimeoutMs = defaultAnswerTimeoutMs, ...session }: ConnectionOptions,
  ): Promise<Connection> {
    const { Client, types } = await loadDriver()
    const client = new Client({
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
      // Per client: a parser set for all would change what the program around us gets.
      types: {
        getTypeParser: (oid: number) => (oid === int8 || oid === numeric ? Number : types.getTypeParser(oid)),
      },
    } as ClientConfig & { pipeline: boolean })
    const connection = new Connection(client, address)
    await client.connect()
    if (!address.isPooled) await connection.send(settings(session, { isLocal: false }))
    return connection
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

  async send({ text, values }: Query): Promise<Row[]> {
    return (await this.answer({ text, values })).rows
  }

  /** With the command tag: after a failed statement, COMMIT answers ROLLBACK without an error. */
  async answer({ text, values }: Query): Promise<{ rows: Row[]; command: string }> {
    if (this.#ended) throw new Disconnected(this.#ended)
    const statement = this.#statement(text)
    const name = values.length > 0 ? statement.name : undefined
    const config = { rowMode: 'array' as const, text: statement.text, values: values as unknown[], name }
    try {
      return (await this.#client.query(config as QueryArrayConfig)) as { rows: Row[]; command: string }
    } catch (error) {
      // What the server says has a severity; everything else is said by the driver of a connection that failed.
      if (error instanceof Error && 'severity' in error) throw error
      this.#end(error as Error)
      throw new Disconnected(error)
    }
  }

  #statement(text: string): Statement {
    const known = this.#statements.get(text)
    if (known) return known
    const statement = {
      name: this.#address.prepares ? `hf${this.#statements.size}` : undefined,
      text: inSchema(text, this.#address.schema),
    }
    this.#statements.set(text, statement)
    return statement
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
