/** Places in line that were lost, or that belong to another line. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { forEachEngine } from '../support/stores.ts'

const minuteMs = 60_000

interface Waiting {
  readonly outcome: string
  readonly waiter: string
}

forEachEngine((engine) => {
  test('a waiter that lost its position while silent rejoins the line and gets the lock [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder' })
    const silent = await store.open({ agent: 'silent' })
    const held = await take(hf, 'deploy', { renew: false })
    const waiting = silent.locks.acquireLock('deploy', { waitMs: minuteMs })
    await env.advance(1_000)
    const [place] = [...(await store.readTables()).values()].filter((row) => 'joinedAt' in row)
    await hf.execute('locks.leaveLine', { name: 'deploy', waiter: String(place?.id) })

    await env.advance(2_000)
    const { waiting: inLine } = await hf.locks.getCurrentLockInfo('deploy')
    await hf.locks.releaseLock('deploy', { token: held.lock.lease.token })
    await env.advance(2_000)

    expect(inLine).toBe(1)
    expect(await waiting).toMatchObject({ outcome: 'acquired', lock: { holder: 'silent' } })
  })

  test('a position in one line does not count in another', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await take(hf, 'first')
    await take(hf, 'second')
    const first = (await hf.execute('locks.acquireLock', { name: 'first', wait: true })) as Waiting

    const second = (await hf.execute('locks.acquireLock', {
      name: 'second',
      wait: true,
      waiter: first.waiter,
    })) as Waiting

    expect(second).toMatchObject({ outcome: 'waiting' })
    expect(second.waiter).not.toBe(first.waiter)
    expect((await hf.locks.getCurrentLockInfo('first')).waiting).toBe(1)
  })
})
