/** A holder may name its item by key and token: what that ends is forgotten as if it had been named by its id. */
import { expect, test } from 'vitest'
import { claimed, refusal } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('an item released by key and token is no longer held here, and its signal does not fire [S5b-7]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', ...rareProbes })
    const zoe = await store.open({ agent: 'zoe', ...rareProbes })
    const q = hf.queue('jobs')
    await q.add('p', { key: 'ws-1' })
    const { item, lease } = await claimed(q.next())
    const signal = lease?.signal

    const released = await q.release('ws-1', { token: item.token })
    await claimed(zoe.queue('jobs').next())

    expect(released).toBe(true)
    expect(lease?.isHeld).toBe(false)
    expect(() => lease?.assertHeld()).toThrow(expect.objectContaining({ code: 'LEASE_LOST' }))
    await env.advance(60_000)
    expect(signal?.aborted).toBe(false)
  })

  test('a task released by key and token is no longer held here, and its signal does not fire [S5b-7]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
    await hf.tasks.addTask('one', { key: 'T-1' })
    const claim = await hf.tasks.claimTaskForAgent('T-1')
    if (claim.outcome !== 'claimed') throw new Error(claim.outcome)
    const signal = claim.lease?.signal

    const released = await hf.tasks.releaseTask('T-1', { token: claim.task.token })

    expect([released, claim.lease?.isHeld]).toEqual([true, false])
    await env.advance(60_000)
    expect(signal?.aborted).toBe(false)
  })

  test('a write by key and token that is refused as lost fires the signal at once [S5b-7]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const operator = await store.open({ agent: 'op', background: false })
    const q = hf.queue('jobs')
    const added = await q.add('p', { key: 'ws-1' })
    const { item, lease } = await claimed(q.next())
    const signal = lease?.signal
    await operator.queue('jobs').reclaimStale({ thresholdMs: 0, force: true, reason: 'test' })

    const refused = await refusal(() => q.progress('ws-1', 1, { token: item.token }))

    expect(refused.code).toBe('LEASE_LOST')
    expect([signal?.aborted, lease?.isHeld]).toEqual([true, false])
    expect(added.item.id).toBe(item.id)
  })

  test('another item with the same token stays held [S5b-7]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    await q.add('p', { key: 'ws-1' })
    await q.add('p', { key: 'ws-2' })
    const claims = await q.claimMany(2)
    if (claims.outcome !== 'claimed') throw new Error(claims.outcome)
    const [first, second] = claims.items

    await q.release('ws-1', { token: first?.item.token ?? 0 })

    expect(first?.item.token).toBe(second?.item.token)
    expect([first?.lease?.isHeld, second?.lease?.isHeld]).toEqual([false, true])
  })
})
