/**
 * The PostgreSQL servers of a test run: started once before the first test of a project that needs one, gone after the
 * last. Without a server the run fails; it never passes for lack of one.
 */
import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { Server } from './server.ts'
import { type ServerVersion, serverVersions } from './server-binaries.ts'
import { leaveGround } from './server-ground.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where each PostgreSQL engine is, by the name of the engine. */
    postgresUrls: Readonly<Record<string, string>>
  }
}

export default async function startServers(project: TestProject): Promise<() => Promise<void>> {
  const engines = project.config.env.HOLDFAST_TEST_ENGINES?.split(',') ?? []
  const own = process.env.HOLDFAST_TEST_POSTGRES_URL
  if (own) {
    await assertReachable(own)
    project.provide('postgresUrls', { postgres: own })
    return async () => {}
  }
  const versions = serverVersions.filter((version) => engines.includes(`postgres-${version}`))
  const started = await Promise.all(versions.map(startServer))
  project.provide('postgresUrls', Object.fromEntries(started))
  return () => leaveGround()
}

async function startServer(version: ServerVersion): Promise<[engine: string, url: string]> {
  const server = await Server.create(version)
  return [`postgres-${version}`, server.url]
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
