/** A signal that has fired claims nothing. */
import type { Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { forEachEngine } from '../support/stores.ts'

interface Asking {
  readonly signal: AbortSignal
  readonly waitMs?: number
}

const calls: Readonly<Record<string, (hf: Holdfast, asking: Asking) => Promise<unknown>>> = {
  next: (hf, asking) => hf.queue('jobs').next(asking),
  nextWithLock: (hf, asking) => hf.queue('main').nextWithLock(asking),
  claimNext: (hf, asking) => hf.tasks.claimNext(asking),
  acquireLock: (hf, asking) => hf.locks.acquireLock('deploy', asking),
  runBatch: (hf, asking) => hf.locks.runBatch('run', ['a'], () => {}, asking),
}

const cases = Object.keys(calls).flatMap((call) => [
  [call, 'at once', {}] as const,
  [call, 'after a wait', { waitMs: 60_000 }] as const,
])

forEachEngine((engine) => {
  test.each(cases)(
    '%s, which returns %s, claims nothing under a signal that has fired [S5c-51]',
    async (call, _, wait) => {
      const { hf } = await engine.open({ background: false })
      await hf.queue('jobs').add(null)
      await hf.queue('main', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
      await hf.tasks.addTask('one')
      const signal = AbortSignal.abort(new Error('not wanted any more'))
      const before = await eventCount(hf)

      await expect(calls[call]?.(hf, { signal, ...wait })).rejects.toThrow('not wanted any more')

      expect(await eventCount(hf)).toBe(before)
      expect(await hf.locks.isAnyLocked()).toBe(false)
    },
  )

  test('a claim that waits for its own release claims nothing once its signal has fired [S5c-51]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', leaseMs: 600_000 })
    const abort = new AbortController()
    const { signal } = abort
    await hf.locks.acquireLock('deploy')
    const mend = await store.damage.failEvents()
    const releasing = hf.locks.releaseLock('deploy').catch(() => false)
    const claims = [
      hf.locks.acquireLock('deploy', { signal }),
      hf.locks.acquireLock('deploy', { signal, waitMs: 60_000 }),
    ].map((claim) => claim.then(() => 'claimed', String))
    await env.advance(50)

    abort.abort(new Error('not wanted any more'))
    await mend()
    for (let step = 0; step < 20; step++) await env.advance(1_000)
    await releasing

    expect(await Promise.all(claims)).toEqual(claims.map(() => 'Error: not wanted any more'))
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })
})

async function eventCount(hf: Holdfast): Promise<number> {
  return (await readFeed(hf)).length
}
