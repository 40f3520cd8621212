/** Waiting for work looks at the leases that keep it: it is claimed when they end, not at some later look. */
import type { Holdfast } from 'holdfast'
import { expect, test, vi } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

/** No background healing and no renewals. */
const alone = { background: false, recovery: { onOpen: false } } as const

const ways: Record<
  string,
  (hf: Holdfast) => { hold(): Promise<unknown>; wait(): Promise<{ outcome: string }> }
> = {
  'nextWithLock takes over the lock of another': (hf) => {
    const q = hf.queue('main', { workflow: 'merge' })
    return {
      async hold() {
        await q.submit('w1', { headSha: 'abcd' })
        await q.nextWithLock({ agent: 'bob', leaseMs: 1_500 })
      },
      wait: () => q.nextWithLock({ agent: 'ada', waitMs: 10_000 }),
    }
  },
  'next takes an item whose holder was silent': (hf) => {
    const q = hf.queue('jobs')
    return {
      async hold() {
        await q.add(null)
        await q.next({ agent: 'bob', leaseMs: 1_500 })
      },
      wait: () => q.next({ agent: 'ada', waitMs: 10_000 }),
    }
  },
  'claimNext takes a task whose holder was silent': (hf) => ({
    async hold() {
      await hf.tasks.addTask('one')
      await hf.tasks.claimNext({ agent: 'bob', leaseMs: 1_500 })
    },
    wait: () => hf.tasks.claimNext({ agent: 'ada', waitMs: 10_000 }),
  }),
}

forEachEngine((engine) => {
  test.each(Object.entries(ways))('[S5-9] %s as soon as its lease ends', async (_, way) => {
    const { hf, env } = await engine.open(alone)
    const { hold, wait } = way(hf)
    await hold()
    const heldAt = env.monotonic()
    let claimedAt: number | null = null
    const waiting = wait().then((answer) => {
      claimedAt = env.monotonic()
      return answer
    })

    for (let step = 0; step < 300 && claimedAt === null; step++) await env.advance(10)

    expect((await waiting).outcome).toBe('claimed')
    expect((claimedAt ?? 0) - heldAt).toBeGreaterThan(1_500)
    expect((claimedAt ?? 0) - heldAt).toBeLessThan(1_600)
  })

  test('[S5-9] a lapsed lease that cannot be taken over is polled no more often than before', async () => {
    const { hf, env, store } = await engine.open({ ...alone, recovery: { onOpen: false, onClaim: false } })
    const q = hf.queue('jobs')
    await q.add(null)
    await q.next({ agent: 'bob', leaseMs: 1_000 })
    let claims = 0
    const counted = hf.waitForWork({
      queue: 'jobs',
      waitMs: 9_000,
      claim: async () => {
        claims++
        return q.next({ agent: 'ada' })
      },
      isEnough: ({ outcome }) => outcome === 'claimed',
      giveBack: () => undefined,
    })

    // A look asks for one or a few; looking every 20 ms asked for 1,200.
    const looks = vi.spyOn(env, 'random')
    for (let step = 0; step < 500; step++) await env.advance(20)

    expect((await counted).outcome).toBe('empty')
    expect(claims).toBeLessThanOrEqual(5)
    expect(looks.mock.calls.length).toBeLessThan(100)
    expect(await (await store.open(alone)).queue('jobs').stats()).toMatchObject({ processing: 1 })
  })

  test('[S5-9] [S5-16] a lease in its grace period is taken over as soon as that ends', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', manualGraceMs: 2_500, recovery: { everyMs: 0 } })
    const q = hf.queue('jobs')
    await q.add(null)
    await q.next({ agent: 'bob', leaseMs: 1_000 })
    const startedAt = env.monotonic()
    const waiting = q.next({ waitMs: 9_000 }).then(() => env.monotonic() - startedAt)

    for (let step = 0; step < 500; step++) await env.advance(20)

    expect(await waiting).toBeGreaterThan(3_500)
    expect(await waiting).toBeLessThan(3_700)
  })
})
