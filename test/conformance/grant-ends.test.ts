/** A holder can learn whether it ended a lease itself, perhaps by a helper under the same token, or lost it. */
import type { Holdfast, QueueItem } from 'holdfast'
import { expect, test } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

const endingOf = (hf: Holdfast, kind: 'item' | 'lock', id: string, token: number) =>
  hf.execute('lease.ending', { kind, id, token })

async function claimed(hf: Holdfast, payload: unknown): Promise<QueueItem<unknown>> {
  await hf.queue('jobs').add(payload)
  const claim = await hf.queue('jobs').next()
  return claim.outcome === 'claimed' ? claim.item : expect.fail(`it was ${claim.outcome}`)
}

forEachEngine((engine) => {
  test('an item that its holder finished, failed or released was not lost [S5c-30]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    const [done, failed, released] = [await claimed(hf, 1), await claimed(hf, 2), await claimed(hf, 3)]
    const running = await endingOf(hf, 'item', done.id, done.token)

    await q.complete(done.id, { token: done.token })
    await q.fail(failed.id, 'broken', { token: failed.token, retryable: false })
    await q.release(released.id, { token: released.token })
    await q.next({ agent: 'bob' })

    expect(running).toBe(null)
    expect(await endingOf(hf, 'item', done.id, done.token)).toEqual({ kind: 'item.completed', state: 'done' })
    expect(await endingOf(hf, 'item', failed.id, failed.token)).toMatchObject({ kind: 'item.failed' })
    expect(await endingOf(hf, 'item', released.id, released.token)).toMatchObject({ kind: 'item.released' })
  })

  test('a lock that its holder released was not lost; one taken by force was [S5c-30]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const tokens: number[] = []
    for (const name of ['released', 'forced']) {
      const acquired = await hf.locks.acquireLock(name)
      tokens.push(acquired.outcome === 'acquired' ? acquired.lock.lease.token : 0)
    }
    const [released = 0, forced = 0] = tokens

    await hf.locks.releaseLock('released', { token: released })
    await hf.locks.forceRelease('forced', { reason: 'test' })

    expect(await endingOf(hf, 'lock', 'released#0', released)).toEqual({ kind: 'lock.released', state: null })
    expect(await endingOf(hf, 'lock', 'forced#0', forced)).toBe(null)
  })

  test('an item that was cancelled or reclaimed was lost, whoever has it now [S5c-30]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', background: false })
    const q = hf.queue('jobs')
    const cancelled = await claimed(hf, 1)
    await q.cancel(cancelled.id)
    const reclaimed = await claimed(hf, 2)

    await env.advance(31_000)
    await q.next({ agent: 'bob' })

    expect(await endingOf(hf, 'item', cancelled.id, cancelled.token)).toBe(null)
    expect(await endingOf(hf, 'item', reclaimed.id, reclaimed.token)).toBe(null)
  })
})
