/** However a lease is renewed by hand, its holder never believes in it longer than the store does. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimed, refusal } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  test('a lock renewed by hand for a shorter time is still kept by its process [L4]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
    const { lease } = await take(hf, 'press')

    await hf.locks.renewLock('press', { leaseMs: 1_500 })

    for (let second = 0; second < 60; second++) {
      await env.advance(1_000)
      expect([lease?.isHeld, await hf.locks.isLockedBy('press')]).toEqual([true, true])
    }
  })

  test('a task claimed again for a shorter time is still kept by its process [T4]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
    await hf.tasks.addTask('print', { key: 'T-1' })
    const { lease } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { leaseMs: 60_000 }))

    await hf.tasks.claimTaskForAgent('T-1', { leaseMs: 3_000 })

    for (let second = 0; second < 120; second++) {
      await env.advance(1_000)
      expect([lease?.isHeld, (await hf.tasks.getTask('T-1'))?.assignee]).toEqual([true, 'ada'])
    }
  })

  describe('a lease that its process renews', () => {
    const shortest = 500
    const claims: Readonly<Record<string, (hf: Holdfast, leaseMs: number) => Promise<unknown>>> = {
      'an item': (hf, leaseMs) => hf.queue('q').next({ leaseMs }),
      'several items': (hf, leaseMs) => hf.queue('q').claimMany(2, { leaseMs }),
      'an item and its lock': (hf, leaseMs) => hf.queue('q').nextWithLock({ leaseMs }),
      'a processing lock': (hf, leaseMs) => hf.queue('q').acquireProcessingLock({ leaseMs }),
      'a task': (hf, leaseMs) => hf.tasks.claimTaskForAgent('T-1', { leaseMs }),
      'the next task': (hf, leaseMs) => hf.tasks.claimNext({ leaseMs }),
      'several tasks': (hf, leaseMs) => hf.tasks.batchClaim(['T-1'], { leaseMs }),
      'a lock': (hf, leaseMs) => hf.locks.acquireLock('press', { leaseMs }),
      paths: (hf, leaseMs) => hf.locks.reserve(['src/**'], { leaseMs }),
      'work of a queue': async (hf, leaseMs) => hf.work('q', () => {}, { leaseMs }),
    }

    test.each(Object.keys(claims))('(%s) is refused when it is too short for that [S5-34]', async (what) => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.queue('q').add('work')
      await hf.tasks.addTask('print', { key: 'T-1' })

      const refused = await refusal(() => (claims[what] as (typeof claims)[string])(hf, shortest - 1))

      expect(refused).toMatchObject({ code: 'INVALID', facts: { leaseMs: 499, leaseMsMin: 500 } })
      expect(refused.message).toContain('at least 500 ms')
      expect(await hf.locks.isAnyLocked()).toBe(false)
    })

    test('is refused as a default too, unless nothing is renewed [S5-34]', async () => {
      const { store } = await engine.open()

      const refused = await refusal(() => store.open({ leaseMs: shortest - 1 }))

      expect(refused).toMatchObject({ code: 'INVALID', facts: { leaseMsMin: 500 } })
      await store.open({ leaseMs: 0, background: false })
    })

    test('of exactly that length is kept, even by a process that does nothing else [S5-34]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      await hf.queue('q').add('work')
      const { lease } = await claimed(hf.queue('q').next({ leaseMs: shortest }))

      for (let step = 0; step < 60; step++) {
        await env.advance(97)
        expect(lease?.isHeld).toBe(true)
      }
      expect((await hf.queue('q').get((lease as { id: string }).id))?.phase).toBe('held')
    })

    test('may be shorter if nobody renews it, down to 0 [S5-34]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.queue('q').addMany([{ payload: 1 }, { payload: 2 }])

      const byHand = await hf.queue('q').next({ leaseMs: 0, renew: false })
      const forAnother = await hf.queue('q').next({ leaseMs: 1, agent: 'bob' })

      expect([byHand.outcome, forAnother.outcome]).toEqual(['claimed', 'claimed'])
    })
  })
})
