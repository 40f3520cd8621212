/**
 * The PostgreSQL servers of a test run: started once before the first test of a project that needs one, gone after the
 * last. Without a server the run fails; it never passes for lack of one.
 */
import { randomBytes } from 'node:crypto'
import { Client, escapeIdentifier } from 'pg'
import type { TestProject } from 'vitest/node'
import { Server } from './server.ts'
import { serverVersions } from './server-binaries.ts'
import { leaveGround } from './server-ground.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The servers of this project's engine; files that run at the same time use different ones where they can. */
    postgresUrls: readonly string[]
    /** Schemas of this run begin with it. */
    schemaPrefix: string
  }
}

export default async function startServers(project: TestProject): Promise<() => Promise<void>> {
  const engine = project.config.env.HOLDFAST_TEST_ENGINES
  const own = process.env.HOLDFAST_TEST_POSTGRES_URL
  const prefix = `hf_${randomBytes(4).toString('hex')}_`
  project.provide('schemaPrefix', prefix)
  if (own) {
    await assertReachable(own)
    project.provide('postgresUrls', [own])
    return () => dropSchemas(own, prefix)
  }
  const version = serverVersions.find((each) => engine === `postgres-${each}`)
  if (version === undefined) throw new Error(`there is no server for the engine ${engine}`)
  // Over sockets, which take a third off each round trip; suites that cut connections go by way of the network.
  // One for each worker: an open transaction keeps events of everybody else on its server from being read.
  const servers = await Promise.all(workersOf(project).map(() => Server.create(version)))
  project.provide(
    'postgresUrls',
    servers.map(({ socketUrl }) => socketUrl),
  )
  return () => leaveGround()
}

function workersOf({ vitest }: TestProject): number[] {
  return Array.from({ length: Number(vitest.config.maxWorkers) || 1 }, (_, index) => index)
}

async function dropSchemas(url: string, prefix: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    'select nspname as name from pg_namespace where starts_with(nspname, $1)',
    [prefix],
  )
  for (const { name } of rows) await client.query(`drop schema ${escapeIdentifier(name)} cascade`)
  await client.end()
}

async function assertReachable(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  try {
    await client.connect()
    await client.end()
  } catch (cause) {
    throw new Error(`HOLDFAST_TEST_POSTGRES_URL leads to no server: ${(cause as Error).message}`, { cause })
  }
}
