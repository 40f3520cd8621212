/** However a lease is renewed by hand, its holder never believes in it longer than the store does. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  test('a lock renewed by hand for a shorter time is kept by its process as before [L4]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    const { lease } = await take(hf, 'press')

    await hf.locks.renewLock('press', { leaseMs: 1_500 })

    for (let second = 0; second < 60; second++) {
      await env.advance(1_000)
      expect([lease?.isHeld, await hf.locks.isLockedBy('press')]).toEqual([true, true])
    }
  })

  test('a task claimed again for a shorter time is kept by its process as before [T4]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    await hf.tasks.addTask('print', { key: 'T-1' })
    const { lease } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { leaseMs: 60_000 }))

    await hf.tasks.claimTaskForAgent('T-1', { leaseMs: 3_000 })

    for (let second = 0; second < 120; second++) {
      await env.advance(1_000)
      expect([lease?.isHeld, (await hf.tasks.getTask('T-1'))?.assignee]).toEqual([true, 'ada'])
    }
  })
})
