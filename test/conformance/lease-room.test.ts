/** A process has room for a fixed number of leases and takes no more, even with several calls at once. */
import type { Event, Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take } from '../support/locks.ts'
import { claimed, refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, whenReadable } from '../support/stores.ts'

const maxLeases = 4_096
const minuteMs = 60_000
/** Short, since each second of a process with so many leases takes a while. */
const leaseMs = 3_000

forEachEngine((engine) => {
  test('a process that has no room for another lease does not wait in line for one [L16] [L4]', async () => {
    const { hf, store } = await engine.open({ agent: 'full' })
    const other = await store.open({ agent: 'holder' })
    await take(other, 'deploy')
    await fill(hf, maxLeases)

    const refused = await refusal(() => hf.locks.acquireLock('deploy', { waitMs: minuteMs }))

    expect(refused).toMatchObject({ code: 'INVALID', facts: { held: maxLeases, maxLeases } })
    expect((await hf.locks.getCurrentLockInfo('deploy')).waiting).toBe(0)
  })

  test('a lock granted after a long wait is renewed, however full the process has become [L16] [L4]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'waiter' })
    const other = await store.open({ agent: 'holder' })
    await take(other, 'deploy')
    await fill(hf, maxLeases - 1)
    const waiting = hf.locks.acquireLock('deploy', { waitMs: minuteMs, leaseMs })
    await env.advance(0)

    const meanwhile = await refusalCode(() => hf.locks.acquireLock('one more'))
    await other.locks.releaseLock('deploy')
    await env.advance(1_000)
    const granted = await waiting
    await env.advance(leaseMs + 1_000)

    expect(meanwhile).toBe('INVALID')
    expect(granted).toMatchObject({ outcome: 'acquired' })
    expect(await hf.locks.isLockedBy('deploy')).toBe(true)
    expect(await hf.locks.isLockedBy('one more')).toBe(false)
  })

  test('a wait that ended without the lock leaves its room to others [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'waiter' })
    const other = await store.open({ agent: 'holder' })
    await take(other, 'deploy')
    await fill(hf, maxLeases - 1)
    const waiting = hf.locks.acquireLock('deploy', { waitMs: 1_000 })
    await env.advance(0)
    await env.advance(2_000)

    expect(await waiting).toMatchObject({ outcome: 'held' })
    expect(await hf.locks.acquireLock('one more')).toMatchObject({ outcome: 'acquired' })
  })

  test('however many leases a process takes for others, it recognizes its own by name', async () => {
    const { hf } = await engine.open({ agent: 'server' })
    const q = hf.queue('jobs')
    await q.add('own')
    const { item } = await claimed(q.next())
    await take(hf, 'leader')
    const others = { agent: 'helper' }

    for (let claims = 0; claims < 51; claims++) {
      await q.addMany(Array.from({ length: 100 }, () => ({ payload: null })))
      await q.claimMany(100, others)
      await Promise.all(
        Array.from({ length: 100 }, (_, number) => hf.locks.acquireLock(`${claims} ${number}`, others)),
      )
    }

    expect(await q.complete(item.id)).toMatchObject({ state: 'done' })
    expect(await hf.locks.releaseLock('leader')).toBe(true)
  })

  test('the last item a process has room for may include the lock of its queue [L4]', async () => {
    const { hf, env } = await engine.open()
    await hf.queue('merges', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
    await fill(hf, maxLeases - 1)

    const claim = await hf.queue('merges').next({ leaseMs })
    await env.advance(leaseMs + 1_000)

    expect(claim).toMatchObject({ outcome: 'claimed', item: { key: 'w1' } })
    expect(await hf.queue('merges').getProcessingLock()).toMatchObject({ holder: hf.agent })
  })

  test('claiming more than a process has room for is refused, and nothing is taken', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    for (let batch = 0; batch < 5; batch++)
      await q.addMany(Array.from({ length: 1_000 }, () => ({ payload: null })))

    let kept = 0
    let code = 'none'
    while (kept < 5_000 && code === 'none') {
      const claim = await q.claimMany(100).catch((error: { code: string }) => error)
      if ('code' in claim) code = claim.code
      else kept += claim.outcome === 'claimed' ? claim.items.length : 0
    }

    expect(code).toBe('INVALID')
    expect(await q.stats()).toMatchObject({ processing: kept })
  })

  test('a call may ask for as many items as a process has room for [Q7]', async () => {
    const { hf } = await engine.open()
    await hf.queue('jobs').addMany(Array.from({ length: 1_000 }, () => ({ payload: null })))
    await fill(hf, maxLeases - 1_000)

    const claims = await Promise.allSettled(Array.from({ length: 1_000 }, () => hf.queue('jobs').next()))

    expect(claims.filter(({ status }) => status === 'rejected')).toHaveLength(0)
  })

  test('of two concurrent claims with room for one, one is granted and the other takes nothing [L4]', async () => {
    const { hf } = await engine.open()
    const [jobs, tasks] = [hf.queue('jobs'), hf.tasks]
    await jobs.addMany(Array.from({ length: 4 }, () => ({ payload: null })))
    for (const number of [1, 2]) await tasks.addTask(`task ${number}`, { key: `task-${number}` })
    await fill(hf, maxLeases - 2)
    await whenReadable(hf)

    for (const [what, { needs, claim, giveBack }] of Object.entries(claims)) {
      if (needs === 1) await take(hf, 'spare')
      const { events } = (await hf.execute('events.list', { newest: true, limit: 1 })) as { events: Event[] }
      const [last] = events
      const [one, other] = await Promise.allSettled([claim(hf, 1), claim(hf, 2)])
      const granted = (await readFeed(hf, last?.seq)).filter(isGrant)

      expect([what, one]).toMatchObject([
        what,
        { status: 'fulfilled', value: { outcome: expect.stringMatching(/^(claimed|acquired)$/) } },
      ])
      expect([what, other]).toMatchObject([what, { status: 'rejected', reason: { code: 'INVALID' } }])
      expect([what, granted.length > 0 && granted.length <= needs]).toEqual([what, true])
      if (one.status === 'fulfilled') await giveBack(hf, one.value)
      if (needs === 1) await hf.locks.releaseLock('spare')
    }
  })
})

function isGrant({ kind }: Event): boolean {
  return kind === 'item.claimed' || kind === 'lock.acquired'
}

interface Claim {
  readonly needs: number
  claim(hf: Holdfast, number: number): Promise<unknown>
  giveBack(hf: Holdfast, granted: unknown): Promise<unknown>
}

const releaseTask = (hf: Holdfast) => hf.tasks.releaseTask('task-1')
const claims: Record<string, Claim> = {
  'a lock': {
    needs: 1,
    claim: (hf, number) => hf.locks.acquireLock(`lock-${number}`),
    giveBack: (hf) => hf.locks.releaseLock('lock-1'),
  },
  'a reservation': {
    needs: 1,
    claim: (hf, number) => hf.locks.reserve(`folder-${number}/**`),
    giveBack: (hf, granted) => hf.locks.releaseLock((granted as { lock: { name: string } }).lock.name),
  },
  'a processing lock': {
    needs: 1,
    claim: (hf, number) => hf.queue(`q${number}`).acquireProcessingLock(),
    giveBack: (hf) => hf.queue('q1').releaseProcessingLock(),
  },
  'an item': {
    needs: 1,
    claim: (hf) => hf.queue('jobs').next(),
    giveBack: (hf, granted) => hf.queue('jobs').release((granted as { item: { id: string } }).item.id),
  },
  'an item and its lock': {
    needs: 2,
    claim: (hf) => hf.queue('jobs').nextWithLock(),
    async giveBack(hf, granted) {
      await hf.queue('jobs').release((granted as { item: { id: string } }).item.id)
      await hf.queue('jobs').releaseProcessingLock()
    },
  },
  'several items': {
    needs: 2,
    claim: (hf) => hf.queue('jobs').claimMany(2),
    giveBack: (hf, granted) =>
      Promise.all(
        (granted as { items: { item: { id: string } }[] }).items.map(({ item }) =>
          hf.queue('jobs').release(item.id),
        ),
      ),
  },
  'a task': {
    needs: 1,
    claim: (hf, number) => hf.tasks.claimTaskForAgent(`task-${number}`),
    giveBack: releaseTask,
  },
  'the next task': { needs: 1, claim: (hf) => hf.tasks.claimNext(), giveBack: releaseTask },
  'several tasks': {
    needs: 1,
    claim: (hf, number) => hf.tasks.batchClaim([`task-${number}`]),
    giveBack: releaseTask,
  },
}

/** So many leases that this process keeps. */
async function fill(hf: Holdfast, count: number): Promise<void> {
  const queue = hf.queue('filler')
  // Not to be renewed while a test lets minutes pass.
  const long = { leaseMs: 3_600_000 }
  await Promise.all(
    pieces(count, 1000).map((size) => queue.addMany(Array.from({ length: size }, () => ({ payload: null })))),
  )
  await Promise.all(pieces(count, 100).map((size) => queue.claimMany(size, long)))
}

function pieces(count: number, size: number): number[] {
  return Array.from({ length: Math.ceil(count / size) }, (_, index) => Math.min(size, count - index * size))
}
