/** One lock and many contenders: one holder at a time, everyone gets a turn, and every wait ends. */
import type { Holdfast } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take, taken } from '../support/locks.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

const minuteMs = 60_000

forEachEngine((engine) => {
  test.each([
    [10, '[I-01]'],
    [50, '[I-02]'],
    [100, '[I-03]'],
  ])('of %i agents trying at once through four handles, one has the lock %s', async (count) => {
    const { hf, store } = await engine.openInRealTime({ background: false, durability: 'normal' })
    const handles = [hf, await another(), await another(), await another()]

    const answers = await Promise.all(
      agents(count).map((agent, number) => handles[number % 4]?.locks.acquireLock('one', { agent })),
    )

    expect(answers.filter((answer) => answer?.outcome === 'acquired')).toHaveLength(1)
    expect(answers.filter((answer) => answer?.outcome === 'held')).toHaveLength(count - 1)

    function another(): Promise<Holdfast> {
      return store.open({ background: false, durability: 'normal' })
    }
  })

  test('a hundred agents releasing at once free the lock once, by its holder [I-04] [L19]', async () => {
    const { hf } = await engine.openInRealTime({ background: false, durability: 'normal' })
    const { lock } = await take(hf, 'one', { agent: 'agent-42' })
    const tokens = agents(100).map((_, number) => (number === 42 ? lock.lease.token : number))

    const storm = await Promise.all(
      agents(100).map((agent, number) => hf.locks.releaseLock('one', { agent, token: tokens[number] ?? 0 })),
    )

    expect(storm.filter((released) => released)).toHaveLength(1)
    expect(storm[42]).toBe(true)
    const kinds = (await readFeed(hf)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'lock.released')).toHaveLength(1)
    expect(kinds.filter((kind) => kind === 'lock.refused')).toHaveLength(99)
  })

  test('a lock handed on a hundred times has one holder and a larger token each time [I-05]', async () => {
    const { hf } = await engine.openInRealTime({ background: false, durability: 'normal' })
    const first = await take(hf, 'one', { agent: 'agent-0' })
    const tokens = [first.lock.lease.token]

    for (const to of agents(100).slice(1)) {
      const [{ lease }, rival] = await Promise.all([
        hf.locks.transfer('one', { to, reason: 'next shift' }),
        hf.locks.acquireLock('one', { agent: 'rival' }),
      ])
      expect(rival).toMatchObject({ outcome: 'held', holder: to })
      tokens.push(lease.token)
    }

    expect(tokens).toEqual([...new Set(tokens)].sort((left, right) => left - right))
    expect((await hf.locks.list()).locks).toMatchObject([{ holder: 'agent-99' }])
  })

  describe('fairness', () => {
    test.each([50, 100])(
      '%i agents in line are served in order of arrival, each by one call [I-06] [L16]',
      async (count) => {
        const { hf, env } = await engine.open({ agent: 'holder', durability: 'normal' })
        await take(hf, 'one')
        const served: string[] = []
        const waits = agents(count).map(async (agent) => {
          const { lock } = await taken(hf.locks.acquireLock('one', { agent, waitMs: minuteMs }))
          served.push(agent)
          await hf.locks.releaseLock('one', { agent, token: lock.lease.token })
        })

        await hf.locks.releaseLock('one')
        await pass(env, Promise.all(waits))

        expect(served).toEqual(agents(count))
      },
    )

    test('of fifty agents that keep coming back, none gets the lock twice before all have had it once [I-06] [L16]', async () => {
      const { hf, env } = await engine.open({ agent: 'holder', durability: 'normal', ...rareProbes })
      await take(hf, 'one')
      const rounds = 3
      const served: string[] = []
      const waits = agents(50).map(async (agent) => {
        for (let round = 0; round < rounds; round++) {
          const { lock } = await taken(hf.locks.acquireLock('one', { agent, waitMs: minuteMs }))
          served.push(agent)
          await hf.locks.releaseLock('one', { agent, token: lock.lease.token })
        }
      })

      await hf.locks.releaseLock('one')
      await pass(env, Promise.all(waits))

      for (let round = 0; round < rounds; round++) {
        const shift = served.slice(round * 50, (round + 1) * 50)
        expect([round, new Set(shift).size]).toEqual([round, 50])
      }
    })
  })

  test('every agent is told the same holder until the lock changes hands, and the next one after that [I-07] [L16]', async () => {
    const { hf } = await engine.openInRealTime({ background: false, durability: 'normal' })
    const told = async () => {
      const asking = agents(50).map((agent) => hf.locks.acquireLock('one', { agent }))
      const answers = await Promise.all(asking)
      return new Set(answers.map((answer) => (answer.outcome === 'held' ? answer.holder : 'granted')))
    }

    const { lock } = await take(hf, 'one', { agent: 'first' })
    const whileFirst = await told()
    await hf.locks.releaseLock('one', { agent: 'first', token: lock.lease.token })
    await take(hf, 'one', { agent: 'second' })

    expect([...whileFirst, ...(await told())]).toEqual(['first', 'second'])
  })

  test('two agents that wait for each other’s lock both get an answer in time, and carry on [I-08] [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada' })
    const other = await store.open({ agent: 'bob' })
    await take(hf, 'left')
    await take(other, 'right')

    const waits = [
      hf.locks.acquireLock('right', { waitMs: 5_000 }),
      other.locks.acquireLock('left', { waitMs: 6_000 }),
    ] as const
    await env.advance(5_500)
    const first = await waits[0]
    await hf.locks.releaseLock('left')
    await env.advance(600)

    expect(first).toMatchObject({ outcome: 'held', holder: 'bob' })
    expect(await waits[1]).toMatchObject({ outcome: 'acquired' })
  })
})

/** Lets time go on until something has happened. */
async function pass(env: MovableEnvironment, happening: Promise<unknown>): Promise<void> {
  let isOver = false
  const over = happening.finally(() => {
    isOver = true
  })
  while (!isOver) await env.advance(100)
  await over
}

function agents(count: number): string[] {
  return Array.from({ length: count }, (_, number) => `agent-${number}`)
}
