/** Stores on a PostgreSQL server of the file's own, which its tests may restart, kill and cut off. */
import type { Event, Holdfast } from 'holdfast'
import { Client } from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { TcpProxy } from '../support/proxy.ts'
import { Server, type Settings } from '../support/server.ts'
import { leaveGround } from '../support/server-ground.ts'
import { audit, closeAfterHandles, until } from './support.ts'

export interface OwnServer {
  readonly server: Server
  /** The URL of a store that is not there yet. */
  newStore(): string
  /** A way to the server that the test can break; gone after the test. */
  openProxy(): Promise<TcpProxy>
  /** A connection past Holdfast, closed after the test. */
  connect(): Promise<Client>
  /** The answer to one statement past Holdfast; `holdfast.` stands for the schema of the store. */
  query<Row extends object>(store: string, sql: string, values?: readonly unknown[]): Promise<Row[]>
}

/** Started before the first test of the file, gone after the last. */
export function ownServer(settings: Settings = {}): OwnServer {
  let server: Server | null = null
  let stores = 0
  const running = () => {
    if (server === null) throw new Error('the server is started before the first test')
    return server
  }
  beforeAll(async () => {
    server = await Server.create('18', settings)
  })
  afterAll(() => leaveGround())
  const connect = async () => {
    const client = new Client({ connectionString: running().url })
    // Its server may go away before it does.
    client.on('error', () => {})
    await client.connect()
    closeAfterHandles(() => client.end())
    return client
  }
  return {
    get server() {
      return running()
    },
    newStore: () => `${running().url}?schema=store_${++stores}`,
    async openProxy() {
      const proxy = await TcpProxy.open(running())
      closeAfterHandles(() => proxy.close())
      return proxy
    },
    connect,
    query: (store, sql, values = []) => queryStore(running(), store, sql, values),
  }
}

export function schemaOf(store: string): string {
  const [, schema] = /[?&]schema=(\w+)/.exec(store) ?? []
  if (schema === undefined) throw new Error(`${store} names no schema`)
  return schema
}

export function queryStore<Row extends object>(
  server: Server,
  store: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const text = sql.replaceAll('holdfast.', `${schemaOf(store)}.`)
  return server.query(async (client) => (await client.query<Row>(text, [...values])).rows)
}

/** The whole audit, once no open transaction holds any of it back. */
export async function wholeAudit(hf: Holdfast, server: Server): Promise<Event[]> {
  const oldest = 'select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as id'
  await server.query(async (client) => {
    const { rows } = await client.query<{ id: string }>(
      'select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as id',
    )
    const next = BigInt(rows[0]?.id ?? 0)
    await until('every transaction so far has ended', async () => {
      const answer = await client.query<{ id: string }>(oldest)
      return BigInt(answer.rows[0]?.id ?? 0) >= next
    })
  })
  return audit(hf)
}
