/** A holder that releases a lease it had lost is told so; one that releases a lease it holds is not. */
import type { Holdfast, Lease } from 'holdfast'
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimed, claimedWithLock } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

interface Held {
  readonly lease: Lease | null
  /** An operator's act, by another handle. */
  taken(operator: Holdfast): Promise<unknown>
  release(): Promise<boolean>
}

const reason = 'it hangs'

const ways: Readonly<Record<string, (hf: Holdfast) => Promise<Held>>> = {
  'a lock': async (hf) => ({
    lease: (await take(hf, 'deploy')).lease,
    taken: (operator) => operator.locks.forceRelease('deploy', { reason }),
    release: () => hf.locks.releaseLock('deploy'),
  }),
  'a lock acquired twice': async (hf) => {
    await take(hf, 'deploy', { reentrant: true })
    return {
      lease: (await take(hf, 'deploy', { reentrant: true })).lease,
      taken: (operator) => operator.locks.forceRelease('deploy', { reason }),
      release: () => hf.locks.releaseLock('deploy'),
    }
  },
  'a processing lock': async (hf) => {
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd' })
    await claimedWithLock(q.nextWithLock())
    const again = await q.acquireProcessingLock()
    return {
      lease: again.outcome === 'acquired' ? again.lease : null,
      taken: (operator) => operator.queue('main').cancel('w1', { reason }),
      release: () => q.releaseProcessingLock(),
    }
  },
  'an item': async (hf) => {
    const q = hf.queue('jobs')
    await q.add(null)
    const { item, lease } = await claimed(q.next())
    return {
      lease,
      taken: (operator) => operator.queue('jobs').cancel(item.id, { reason }),
      release: () => q.release(item.id),
    }
  },
}

forEachEngine((engine) => {
  test.each(Object.keys(ways))(
    'the signal of %s fires, too, when its holder releases it before it has heard of its loss [S5c-51]',
    async (way) => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const operator = await store.open({ agent: 'olga' })
      const { lease, taken, release } = await (ways[way] as (typeof ways)[string])(hf)
      const signal = lease?.signal as AbortSignal
      await taken(operator)

      const released = await release()

      expect(released).toBe(false)
      expect(signal.aborted).toBe(true)
      expect(signal.reason).toMatchObject({ code: 'LEASE_LOST' })
    },
  )

  test.each(Object.keys(ways))(
    'the signal of %s stays silent when its holder releases it, also twice [S5c-51]',
    async (way) => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      const { lease, release } = await (ways[way] as (typeof ways)[string])(hf)
      const signal = lease?.signal as AbortSignal

      const released = await Promise.all([release(), release(), release()])
      await env.advance(2_000)

      expect(released).toContain(true)
      expect(released.at(-1)).toBe(false)
      expect(signal.aborted).toBe(false)
    },
  )
})
