/** What went wrong with lock files, and cannot here: a successor removed, the old taken for stale, the unknown for dead. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, rareProbes, type Store } from '../support/stores.ts'

const hourMs = 3_600_000

forEachEngine((engine) => {
  describe('a lapsed lock that many find at once', () => {
    const ways: Record<string, (hf: Holdfast) => Promise<{ outcome: string }>> = {
      'a lock': (hf: Holdfast) => hf.locks.acquireLock('press', { leaseMs: 1_000, renew: false }),
      'a reservation of paths': (hf: Holdfast) =>
        hf.locks.reserve('src/**', { leaseMs: 1_000, renew: false }),
    }

    test.each(Object.entries(ways))(
      '(%s) gets one successor, whom nobody who found the old one removes [S10] [L19]',
      async (_name, acquire) => {
        const { env, store } = await engine.open({ background: false })
        const agents = await openMany(store, 8)
        await acquire(agents[0] as Holdfast)

        for (let round = 0; round < 10; round++) {
          await env.advance(1_001)
          const [answers] = await Promise.all([
            Promise.all(agents.map(acquire)),
            ...agents.map((hf) => hf.recovery.detectAndRecoverStale()),
            ...agents.map((hf) => hf.locks.recoverLocksOnStartup()),
          ])
          const winners = agents.filter((_, index) => answers[index]?.outcome === 'acquired')

          const { locks } = await (agents[0] as Holdfast).locks.list()
          expect(winners).toHaveLength(1)
          expect(locks.map(({ holder }) => holder)).toEqual([winners[0]?.agent])
        }
      },
    )
  })

  test('a lock is never stale by its age, however old, while its process renews it [S10] [L4]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'healthy', leaseMs: 3_000, ...rareProbes })
    const rival = await store.open({ agent: 'rival', background: false })
    const lock = await take(hf, 'press')

    await env.advance(300_000)
    const report = await rival.recovery.detectAndRecoverStale()

    expect(report.locksCleaned).toBe(0)
    expect((await rival.locks.acquireLock('press')).outcome).toBe('held')
    expect(lock.lease?.isHeld).toBe(true)
  })

  test('the lock of an unknown agent is left alone until its lease ends [S10] [L9]', async () => {
    const { env, store } = await engine.open({ agent: 'here' })
    const away = machine(env, { hostName: 'far-away', pidNamespace: 'another' })
    const stranger = await store.open({ agent: 'stranger', environment: away.process(7), recovery: false })
    const hand = await store.open({ agent: 'by-hand', background: false })
    await take(stranger, 'theirs', { leaseMs: 60_000 })
    await take(hand, 'written-down', { leaseMs: 60_000 })
    const here = await store.open({ agent: 'cleaner' })

    await cleanUp(here)
    await env.advance(5_000)
    const kept = await here.locks.list()
    await env.advance(56_000)
    await cleanUp(here)

    expect(kept.locks.map(({ holder }) => holder)).toEqual(['stranger', 'by-hand'])
    // The stranger lives and renews; the other one has lapsed.
    expect((await here.locks.list()).locks.map(({ holder }) => holder)).toEqual(['stranger'])
  })

  test('a pid reused by a newer process keeps no lock [S10] [T12]', async () => {
    const { env, store } = await engine.open({ background: false })
    const itself = machine(env).process(process.pid)
    const identity = { ...itself.host.identity, startTime: 'long before' }
    // With its mark, or nobody could know that its pid was one of this machine.
    const former = { ...itself, host: { ...itself.host, identity, ownMark: env.host.ownMark } }
    const dead = await store.open({ agent: 'dead', environment: former, recovery: false })
    await take(dead, 'press', { leaseMs: hourMs })

    const heir = await store.open({ agent: 'heir', background: false })
    const answer = await heir.locks.acquireLock('press')

    expect(answer).toMatchObject({ outcome: 'acquired' })
  })
})

async function openMany(store: Store, count: number) {
  const agents: Holdfast[] = []
  for (let number = 0; number < count; number++)
    agents.push(await store.open({ agent: `agent-${number}`, background: false }))
  return agents
}

async function cleanUp(hf: Holdfast): Promise<void> {
  await hf.recovery.detectAndRecoverStale()
  await hf.locks.recoverLocksOnStartup()
  await hf.tasks.cleanupDeadAgentLocks()
}
