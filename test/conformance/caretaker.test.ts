/** The caretaker sleeps until its next duty, and is woken in time for anything claimed in the meantime. */
import { describe, expect, test, vi } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { claimed, present } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

/** No probing and no sweeps: only renewals and heartbeats are left. */
const recovery = { onOpen: false, onClaim: false, everyMs: 0, probeEveryMs: 0 }
const options = { recovery, redelivery: false }

forEachEngine((engine) => {
  describe('a caretaker', () => {
    test('with nothing to do sets hardly any timers in a minute [S5e-6]', async () => {
      const { env } = await engine.open(options)
      const timer = vi.spyOn(env, 'timer')

      await env.advance(60_000)

      // The main loop beats every five seconds. A beat every second would be 48 more, a tick every 100 ms 600.
      expect(timer.mock.calls.length).toBeLessThan(30)
    })

    test('that holds a lease renews it at once after a suspend [S5e-6]', async () => {
      const { logger, named } = collectLogs()
      const { hf, env } = await engine.open({ ...options, logger })
      await hf.queue('jobs').add(null)
      const { item, lease } = await claimed(hf.queue('jobs').next())
      await env.advance(2_000)
      const renewals = async () => (await present(hf.queue('jobs').get(item.id))).lease?.renewedAt ?? 0
      const renewedAt = await renewals()

      env.suspend(3_600_000)
      await env.advance(600)

      expect(named('clock.jumped')).toHaveLength(1)
      expect(await renewals()).toBeGreaterThan(renewedAt)
      expect(lease?.isHeld).toBe(true)
    })

    test('that sleeps is woken for a short lease, and renews it in time [S5e-6]', async () => {
      const { hf, env } = await engine.open(options)
      await hf.queue('jobs').addMany([1, 2, 3].map((payload) => ({ payload })))
      const isHeld: unknown[] = []

      // At different distances from whatever it wakes for by itself.
      for (const afterMs of [6_000, 7_300, 8_700]) {
        await env.advance(afterMs)
        const { item, lease } = await claimed(hf.queue('jobs').next({ leaseMs: 600 }))
        await env.advance(3_000)
        isHeld.push(lease?.isHeld)
        await hf.queue('jobs').complete(item.id)
      }

      expect(isHeld).toEqual([true, true, true])
    })

    test('notices within a second when something it holds was cancelled [S5e-6]', async () => {
      const { hf, env, store } = await engine.open(options)
      const operator = await store.open({ agent: 'operator', background: false })
      await hf.queue('jobs').add(null)
      const { item, lease } = await claimed(hf.queue('jobs').next())
      await env.advance(5_000)

      await operator.queue('jobs').cancel(item.id)
      await env.advance(1_000)

      expect(lease?.signal.aborted).toBe(true)
    })
  })
})
