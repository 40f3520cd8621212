/** What the log says when something in the background fails: name, level and facts are for machines to rely on. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

/** Nothing is said of what was there when the store was opened. */
const quiet = { recovery: { onOpen: false } } as const
const quietForMinutes = { recovery: { ...quiet.recovery, ...rareProbes.recovery } } as const

forEachEngine((engine) => {
  test('a failed renewal is logged, with the number of leases and the reason', async () => {
    const { logger, lines } = collectLogs()
    const { hf, env, store } = await engine.open({ ...quietForMinutes, logger, leaseMs: 30_000 })
    await hf.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
    await hf.queue('jobs').claimMany(2)
    const mend = await store.damage.failItems()

    for (let waitedMs = 0; lines.length === 0 && waitedMs < 12_000; waitedMs += 100) await env.advance(100)
    await mend()
    await env.advance(2_500)

    expect(lines).toEqual([
      {
        name: 'renew.failed',
        level: 'warn',
        facts: { leases: 2, error: expect.stringContaining('refused') },
      },
    ])
    await env.advance(120_000)
    expect(await hf.queue('jobs').stats()).toMatchObject({ processing: 2 })
  })

  test('a failed retention run is logged with its reason, and nothing is removed', async () => {
    const { logger, lines } = collectLogs()
    const retention = { eventsMs: 1_000, everyMs: 70_000 }
    const eventsExport = join('no', 'such', 'folder', 'events.jsonl')
    const { hf, env } = await engine.open({
      ...quietForMinutes,
      logger,
      retention: { ...retention, eventsExport },
    })
    await hf.queue('jobs').add(null)
    const before = await readFeed(hf)

    await env.advance(160_000)

    expect(lines).toEqual([
      { name: 'retention.failed', level: 'warn', facts: { error: expect.stringContaining('ENOENT') } },
    ])
    expect(await readFeed(hf)).toEqual(before)
  })

  test('a worker’s failed claim is logged with its queue and the reason', async () => {
    const { logger, lines } = collectLogs()
    const { hf, env, store } = await engine.open({ ...quiet, logger })
    await hf.queue('jobs').add(null)
    const mend = await store.damage.failItems()

    const worker = hf.work('jobs', () => {})
    await env.advance(50)
    await mend()
    await env.advance(1_000)
    await worker.stop()

    // It may have tried twice: whoever adds an item rings.
    expect(lines).toEqual(lines.map(() => workerFailed))
    expect(lines).not.toEqual([])
    expect(await hf.queue('jobs').stats()).toMatchObject({ completed: 1 })
  })

  test('a worker’s failed completion is logged with its queue and the reason', async () => {
    const { logger, lines } = collectLogs()
    const { hf, env, store } = await engine.open({ ...quiet, logger })
    await hf.queue('jobs').add(null)
    let mend = async () => {}
    hf.work('jobs', async () => {
      mend = await store.damage.failItems()
    })

    await env.advance(50)
    await mend()
    await env.advance(1_000)

    expect(lines).toEqual([workerFailed])
    expect(await hf.queue('jobs').stats()).toMatchObject({ completed: 1 })
  })
})

const workerFailed = {
  name: 'worker.failed',
  level: 'warn',
  facts: expect.objectContaining({ queue: 'jobs', error: expect.stringContaining('refused') }),
}
