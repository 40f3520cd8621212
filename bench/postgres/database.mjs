/** One database per sample, on a shared server. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

const leavesWithinMs = 2_000

/** Runs `use` with the URL of an empty database, then removes it. */
export async function withDatabase(server, use) {
  const name = `bench_${randomBytes(6).toString('hex')}`
  await query(server, `create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  try {
    return await use(url.href)
  } finally {
    await untilLeft(server, name)
    await query(server, `drop database ${name} with (force)`)
  }
}

/** Some peers report that they are closed just before their connections are, and would take that for a failure. */
async function untilLeft(server, name) {
  const until = performance.now() + leavesWithinMs
  const connected = 'select 1 from pg_stat_activity where datname = $1'
  while ((await query(server, connected, [name])).rowCount > 0 && performance.now() < until) await sleep(20)
}

/**
 * After filling, before measuring: planners know the tables, and what filling left to be written is written, so that
 * it is paid for by nobody.
 */
export async function settle(url) {
  await query(url, 'vacuum analyze')
  await query(url, 'checkpoint')
}

/** Over a connection of its own. */
async function query(url, ...sent) {
  return withClient(url, (client) => client.query(...sent))
}

export async function withClient(url, use) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
