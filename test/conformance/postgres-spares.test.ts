/** Connections that outlive the store they were opened for, as the suites here use them. */
import { open } from 'holdfast'
import { MovableEnvironment, type Spare, SpareConnections } from 'holdfast/testing'
import { expect, inject, onTestFinished, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { postgresServer } from '../support/postgres-site.ts'

const [url] = inject('postgresUrls') as [string]
const server = postgresServer(url, inject('schemaPrefix'))

class WatchedSpares extends SpareConnections {
  readonly kept: Spare[] = []
  readonly taken: Spare[] = []

  override take(use: string) {
    const spare = super.take(use)
    if (spare) this.taken.push(spare)
    return spare
  }

  override keep(use: string, spare: Spare) {
    this.kept.push(spare)
    super.keep(use, spare)
  }
}

function watchedSpares(max?: number) {
  const spares = new WatchedSpares(max)
  onTestFinished(() => spares.close())
  return spares
}

async function newStore() {
  const site = await server.createSite()
  onTestFinished(() => site.remove())
  return site.url
}

/** Opens the store in moved time, uses it and closes it. */
async function use(store: string, spares: SpareConnections, now: number) {
  const hf = await open(store, {
    agent: 'ada',
    background: false,
    environment: new MovableEnvironment({ spares, now }),
  })
  const queue = hf.queue('jobs')
  await queue.add(null)
  const { item } = await claimed(queue.next())
  await queue.complete(item.id)
  await hf.close()
  return item
}

test('the next handle reuses both connections of a closed store, and gets its own clock', async () => {
  const store = await newStore()
  const spares = watchedSpares()

  await use(store, spares, Date.UTC(2026, 0, 1))
  const later = await use(store, spares, Date.UTC(2027, 0, 1))

  expect(spares.taken).toHaveLength(2)
  expect(new Set(spares.taken)).toEqual(new Set(spares.kept.slice(0, 2)))
  expect(later.addedAt).toBe(Date.UTC(2027, 0, 1))
})

test('a handle on another store, or with other settings, gets none of them', async () => {
  const spares = watchedSpares()
  const store = await newStore()
  await use(store, spares, 0)

  await use(await newStore(), spares, 0)
  const hf = await open(store, { busyTimeoutMs: 321, environment: new MovableEnvironment({ spares }) })
  await hf.close()

  expect(spares.taken).toEqual([])
})

test('one that was closed in the meantime is not used', async () => {
  const store = await newStore()
  const spares = watchedSpares()
  await use(store, spares, 0)
  const [first, second] = spares.kept as [Spare, Spare]
  await first.close()

  await use(store, spares, 0)

  expect(spares.taken).toEqual([second])
})

test('beyond the maximum the oldest is closed, and all of them at the end', async () => {
  const spares = watchedSpares(1)

  await use(await newStore(), spares, 0)
  const left = spares.kept.map(({ isOpen }) => isOpen)
  await spares.close()

  expect(left).toEqual([false, true])
  expect(spares.kept.map(({ isOpen }) => isOpen)).toEqual([false, false])
})
