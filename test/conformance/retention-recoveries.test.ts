/** Of recoveries only the newest are kept; what they add up to is not forgotten. */
import { expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('the newest thousand recoveries are kept, and totals stay correct, per queue too [Q16] [S5-11]', async () => {
    const { hf, env } = await engine.open({ background: false })
    const q = hf.queue('jobs', { maxCrashes: 0 })
    // Each is claimed twice: after its second crash it waits.
    await q.addMany(Array.from({ length: 626 }, () => ({ payload: null })))
    for (let crash = 0; crash < 1_251; crash++) {
      await claimed(q.next({ leaseMs: 0 }))
      await env.advance(1)
    }
    const before = await hf.recovery.getRecoveryStats()
    const beforeInQueue = await q.getRecoveryStats()

    const removed: number[] = []
    for (let more = true; more; ) {
      const round = (await hf.execute('retention.run', {
        items: null,
        runs: null,
        answers: null,
        instances: null,
      })) as {
        recoveries: number
        more: boolean
      }
      removed.push(round.recoveries)
      more = round.more
    }
    const after = await hf.recovery.getRecoveryStats()
    const afterInQueue = await q.getRecoveryStats()
    await hf.recovery.detectAndRecoverStale()

    expect(before.totals).toMatchObject({ entriesReclaimed: 1_250 })
    expect(removed).toEqual([200, 50])
    expect(after).toEqual(before)
    expect(afterInQueue).toEqual(beforeInQueue)
    expect(afterInQueue.totals).toEqual(after.totals)
    expect((await hf.recovery.getRecoveryStats()).totals).toMatchObject({ entriesReclaimed: 1_251 })
  }, 90_000)
})
