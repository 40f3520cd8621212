/**
 * Connections that outlive their handle, where the environment keeps them. Opening one and planning its statements
 * takes a server longer than most tests take.
 */
import type { Environment } from '../../environment.ts'
import type { Address, ServerHost } from './address.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import type { SessionOptions } from './settings.ts'

export async function openOrTake(
  address: Address,
  host: ServerHost,
  { environment, ...options }: ConnectionOptions & { environment: Environment },
): Promise<Connection> {
  const spare = environment.spares?.take(useOf(address, host, options))
  return spare ? (spare as Connection) : Connection.open(address, host, options)
}

export async function closeOrKeep(
  connection: Connection,
  address: Address,
  { environment, session }: { environment: Environment; session: SessionOptions },
): Promise<void> {
  const [host, ...others] = address.hosts as [ServerHost]
  const { spares } = environment
  // With several hosts, nobody knows which will be the primary next time; behind a pooler nothing is ours.
  const mayKeep = spares !== undefined && others.length === 0 && !address.isPooled
  if (mayKeep && (await connection.rest())) spares.keep(useOf(address, host, session), connection)
  else await connection.close()
}

function useOf(
  { user, database, schema }: Address,
  { host, port }: ServerHost,
  { lockTimeoutMs, durability }: SessionOptions,
): string {
  return JSON.stringify([host, port, user, database, schema, lockTimeoutMs, durability])
}
