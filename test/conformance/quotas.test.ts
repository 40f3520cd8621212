/** What one agent may take of what all share. */
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('an agent has at most a hundred reservations, and others still get theirs [S5d-16]', async () => {
    const { hf, store } = await engine.open({ agent: 'mallory' })
    const other = await store.open({ agent: 'ada' })

    const asked = await Promise.allSettled(
      Array.from({ length: 110 }, (_, number) => hf.locks.reserve(`docs/${number}/*`)),
    )

    expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(100)
    expect(await refusal(() => hf.locks.reserve('src/**'))).toMatchObject({
      code: 'BUSY',
      facts: { quota: 'reservations', agent: 'mallory', held: 100, max: 100 },
    })
    expect(await other.locks.reserve('src/**')).toMatchObject({ outcome: 'acquired' })
  })

  test('an agent waits in at most fifty lines, even if it asks for all at once, and others get their position [S5d-16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada' })
    const mallory = await store.open({ agent: 'mallory' })
    const names = Array.from({ length: 60 }, (_, number) => `lock-${number}`)
    for (const name of names) await hf.locks.acquireLock(name)

    const asked = names.map((name) => mallory.execute('locks.acquireLock', { name, wait: true }))
    const settled = await Promise.allSettled(asked)
    const others = await hf.execute('locks.acquireLock', { name: 'lock-59', wait: true }, {
      agent: 'bob',
    } as never)

    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(50)
    expect(others).toMatchObject({ outcome: 'waiting' })
    await env.advance(10_000)
    expect(await mallory.execute('locks.acquireLock', { name: 'lock-0', wait: true })).toMatchObject({
      outcome: 'waiting',
    })
  })

  test('both limits are options [S5d-16]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada', quotas: { reservations: 1, lockWaits: 1 } })
    const other = await store.open({ agent: 'bob' })
    for (const name of ['first', 'second']) await other.locks.acquireLock(name)

    await hf.locks.reserve('src/**')
    await hf.execute('locks.acquireLock', { name: 'first', wait: true })

    expect(await refusal(() => hf.locks.reserve('docs/**'))).toMatchObject({ facts: { max: 1 } })
    expect(
      await refusal(() => hf.execute('locks.acquireLock', { name: 'second', wait: true })),
    ).toMatchObject({
      facts: { quota: 'lockWaits', max: 1 },
    })
  })

  test('patterns that would make the next reservation too expensive are refused [S5d-16]', async () => {
    const { hf, store } = await engine.open({ agent: 'mallory' })
    const other = await store.open({ agent: 'ada' })
    const costly = (number: number) => `{${'*a*b,'.repeat(40)}x}*${number}`

    const asked = await Promise.allSettled(
      Array.from({ length: 50 }, (_, number) => hf.locks.reserve(costly(number), { mode: 'shared' })),
    )

    expect(asked.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0)
    expect(await other.locks.reserve('src/engines/**/*.test.ts')).toMatchObject({
      outcome: 'acquired',
    })
  })
})
