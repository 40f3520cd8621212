/** The lease clock of a SQLite store over restarts of its machine, and among containers with boot ids of their own. */
import type { Holdfast, OpenOptions } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { claimed } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, type Store } from '../support/stores.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const startAt = Date.UTC(2026, 0, 1)

/** A start of the machine: its awake time begins anew. */
function boot(bootId: string, now: number): MovableEnvironment {
  return new MovableEnvironment({ now, identity: { bootId } })
}

async function leaseNow(hf: Holdfast): Promise<number> {
  return ((await hf.execute('clock.read', {})) as { now: number }).now
}

/** What one boot does with the store, from opening it to closing it. */
async function during<Result>(
  store: Store,
  environment: MovableEnvironment,
  act: (hf: Holdfast) => Promise<Result>,
  options: OpenOptions = {},
): Promise<Result> {
  const hf = await store.open({ environment, agent: 'ada', ...options })
  const result = await act(hf)
  const closing = hf.close()
  await environment.advance(0)
  await closing
  return result
}

forEachEngine((engine) => {
  describe('over a restart', () => {
    test('a date that was ahead for a while does not prolong leases [S5b-4]', async () => {
      const store = await engine.prepare()
      const before = boot('one', startAt + hourMs)
      await during(store, before, async (hf) => {
        await hf.queue('jobs').add('work')
        await claimed(hf.queue('jobs').next({ agent: 'person', leaseMs: 5 * minuteMs }))
        before.setWall(startAt)
        await hf.queue('others').add('work')
      })

      const after = boot('two', startAt + 30 * minuteMs)
      const claim = await during(store, after, async (hf) => {
        await after.advance(5 * minuteMs + 1)
        return hf.queue('jobs').next()
      })

      expect(claim).toMatchObject({ outcome: 'claimed', item: { payload: 'work' } })
    })

    test.each([
      { sign: 'a heartbeat', act: (_: Holdfast, env: MovableEnvironment) => env.advance(40_000) },
      {
        sign: 'a grant',
        act: (hf: Holdfast) => hf.locks.acquireLock('l', { agent: 'person' }),
        background: false,
      },
    ])(
      'the clock goes on from $sign when the date was set back [S5b-4]',
      async ({ act, background = true }) => {
        const store = await engine.prepare()
        const before = boot('one', startAt)
        await during(store, before, async () => {}, { background })
        await before.advance(30 * minuteMs)
        const then = await during(
          store,
          before,
          async (hf) => {
            const now = await leaseNow(hf)
            await act(hf, before)
            return now
          },
          { background },
        )

        const now = await during(store, boot('two', startAt - 24 * hourMs), leaseNow)

        expect(now).toBeGreaterThanOrEqual(then)
        expect(now).toBeLessThan(then + 2 * minuteMs)
      },
    )

    test('leases keep running while the machine is off [S5b-4]', async () => {
      const store = await engine.prepare()
      const then = await during(store, boot('one', startAt), leaseNow)

      const now = await during(store, boot('two', startAt + hourMs), leaseNow)

      expect(now - then).toBe(hourMs)
    })

    test.each(['unknown boot', 'a boot id that comes again'])(
      'with "%s" before and after it, the clock does not go back [S5b-4]',
      async (bootId) => {
        const store = await engine.prepare()
        const before = boot(bootId, startAt)
        await during(store, before, () => before.advance(30 * minuteMs))
        const then = await during(store, before, leaseNow)

        const now = await during(store, boot(bootId, startAt - hourMs), leaseNow)

        expect(now).toBeGreaterThanOrEqual(then)
        expect(now).toBeLessThan(then + 2 * minuteMs)
      },
    )

    test('clocks of boots without processes do not pile up [S5b-4]', async () => {
      const store = await engine.prepare()

      for (let round = 0; round < 5; round++)
        await during(store, boot(`boot ${round}`, startAt + round * hourMs), async () => {})

      expect((await store.countRows()).lease_clock).toBe(1)
    })
  })

  describe('a container with its own boot id', () => {
    test.each([
      { who: 'a running process', options: {} },
      { who: 'single commands', options: { background: false } },
    ])('uses the clock of $who outside [S5b-4]', async ({ options }) => {
      const { hf, env, store } = await engine.open(options)
      env.suspend(8 * hourMs)
      if (options.background === false) await (await store.open(options)).close()

      const environment = machine(env, { bootId: 'of a container' }).process(7)
      const inside = await store.open({ environment, agent: 'inside' })

      expect(await leaseNow(inside)).toBe(await leaseNow(hf))
    })

    test('does not lose its leases although the date was wrong when it started [S5b-3]', async () => {
      const store = await engine.prepare()
      const env = new MovableEnvironment({ now: 0 })
      const environment = machine(env, { bootId: 'of a container' }).process(7)
      const inside = await store.open({ environment, agent: 'inside', leaseMs: hourMs })
      await inside.queue('jobs').add('work')
      await claimed(inside.queue('jobs').next())

      env.setWall(startAt)
      const outside = await store.open({ environment: env, agent: 'outside' })
      await env.advance(1000)

      expect(await outside.queue('jobs').next()).toMatchObject({ outcome: 'empty' })
      expect(await leaseNow(outside)).toBe(await leaseNow(inside))
    })
  })

  test('a process of an earlier boot is dead at once, however quick the restart was [S5b-3]', async () => {
    const store = await engine.prepare()
    const before = boot('one', startAt)
    const holder = await store.open({ environment: before, agent: 'before', leaseMs: hourMs })
    await holder.queue('jobs').add('work')
    await before.advance(5 * minuteMs)
    await claimed(holder.queue('jobs').next())

    const after = boot('two', before.now() + 1000)
    const next = await store.open({ environment: after, agent: 'after' })

    expect(await next.queue('jobs').next()).toMatchObject({ outcome: 'claimed', item: { payload: 'work' } })
  })

  test('a process that sees no boot id says so, at open and in doctor [S5b-4]', async () => {
    const store = await engine.prepare()
    const { logger, named } = collectLogs()

    const hf = await store.open({ environment: boot('unknown boot', startAt), logger, background: false })
    const { findings } = await hf.fleet.doctor()

    expect(named('store.warning')).toMatchObject([
      { level: 'warn', facts: { what: expect.stringContaining('boot id') } },
    ])
    expect(findings).toContainEqual(expect.objectContaining({ check: 'boot', level: 'warning' }))
  })
})
