/**
 * The PostgreSQL servers of a test run: started once before the first test of a project that needs one, gone after the
 * last. Without a server the run fails; it never passes for lack of one.
 */
import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { Server } from './server.ts'
import { serverVersions } from './server-binaries.ts'
import { leaveGround } from './server-ground.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The servers of this project's engine; files that run at the same time use different ones where they can. */
    postgresUrls: readonly string[]
  }
}

export default async function startServers(project: TestProject): Promise<() => Promise<void>> {
  const engine = project.config.env.HOLDFAST_TEST_ENGINES
  const own = process.env.HOLDFAST_TEST_POSTGRES_URL
  if (own) {
    await assertReachable(own)
    project.provide('postgresUrls', [own])
    return async () => {}
  }
  const version = serverVersions.find((each) => engine === `postgres-${each}`)
  if (version === undefined) throw new Error(`there is no server for the engine ${engine}`)
  // One for each worker: an open transaction keeps events of everybody else on its server from being read.
  const servers = await Promise.all(workersOf(project).map(() => Server.create(version)))
  project.provide(
    'postgresUrls',
    servers.map(({ url }) => url),
  )
  return () => leaveGround()
}

function workersOf({ vitest }: TestProject): number[] {
  return Array.from({ length: Number(vitest.config.maxWorkers) || 1 }, (_, index) => index)
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
