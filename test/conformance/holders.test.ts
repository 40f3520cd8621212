/** Anyone who can read a row sees its token, so acting as the holder also needs the holder's name. */
import type { Holdfast, TokenOptions } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { type HeldMergeState, walkTo } from '../support/merge.ts'
import { claimed, claimedWithLock, present, refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

type Act = (hf: Holdfast, ref: string, as: TokenOptions) => Promise<unknown>

const itemActs: Record<string, Act> = {
  renew: (hf, ref, as) => hf.queue('q').renew(ref, as),
  progress: (hf, ref, as) => hf.queue('q').progress(ref, 1, as),
  move: (hf, ref, as) => hf.queue('q').move(ref, 'failed', as),
  complete: (hf, ref, as) => hf.queue('q').complete(ref, as),
  fail: (hf, ref, as) => hf.queue('q').fail(ref, 'no', as),
}

const mergeActs: Record<string, [HeldMergeState, Act]> = {
  updateRebaseMetadata: [
    'rebasing',
    (hf, ref, as) =>
      hf.queue('m').updateRebaseMetadata(ref, { ...as, headSha: 'beef02', testedAgainstSha: 'base02' }),
  ],
  returnToRebasing: ['ready_to_merge', (hf, ref, as) => hf.queue('m').returnToRebasing(ref, 'moved', as)],
  beginMerge: ['ready_to_merge', (hf, ref, as) => hf.queue('m').beginMerge(ref, as)],
  completeMerge: ['merging', (hf, ref, as) => hf.queue('m').completeMerge(ref, 'c', as)],
  failMerge: ['merging', (hf, ref, as) => hf.queue('m').failMerge(ref, 'no', as)],
}

const taskActs: Record<string, Act> = {
  renewLease: (hf, ref, as) => hf.tasks.renewLease(ref, as),
  releaseTask: (hf, ref, as) => hf.tasks.releaseTask(ref, as),
  reviewTask: (hf, ref, as) => hf.tasks.reviewTask(ref, as),
  completeTask: (hf, ref, as) => hf.tasks.completeTask(ref, as),
  updateTask: (hf, ref, as) => hf.tasks.updateTask(ref, { ...as, title: 'other' }),
}

const processingLockActs: Record<string, Act> = {
  renewLock: (hf, _, as) => hf.queue('m').renewLock(as),
  extendLock: (hf, _, as) => hf.queue('m').extendLock({ ...as, extraMs: 1_000 }),
}

const runActs: Record<string, Act> = {
  record: (hf, run, as) => hf.runs.record(run, { ...as, done: 1 }),
  fail: (hf, run, as) => hf.runs.fail(run, { ...as, reason: 'no' }),
  pause: (hf, run, as) => hf.runs.pause(run, as),
  resume: (hf, run, as) => hf.runs.resume(run, { ...as, lock: 'press' }),
}

forEachEngine((engine) => {
  describe('another agent that names the token', () => {
    test.each(Object.entries(itemActs))('cannot %s an item [S5-15]', async (_, act) => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      await hf.queue('q').add('p')
      const { item } = await claimed(hf.queue('q').next())

      const refused = await refusal(() => act(eve, item.id, { token: item.token }))
      const former = await refusalCode(() => act(eve, item.id, { token: item.token - 1 }))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
      expect(former).toBe('LEASE_LOST')
      expect(await hf.queue('q').get(item.id)).toEqual(item)
      await act(hf, item.id, { token: item.token })
    })

    test.each(Object.entries(mergeActs))('cannot %s [S5-15]', async (_, [state, act]) => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const q = hf.queue('m', { workflow: 'merge' })
      await q.submit('feature', { headSha: 'beef' })
      const { item } = await claimedWithLock(q.next())
      const as = { token: item.token }
      await walkTo(q, item.id, state, as)
      const before = await q.get(item.id)

      const refused = await refusal(() => act(eve, item.id, as))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
      expect(await q.get(item.id)).toEqual(before)
      await act(hf, item.id, as)
    })

    test.each(Object.entries(taskActs))('cannot %s [S5-15]', async (_, act) => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const { id } = await hf.tasks.addTask('one')
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent(id))

      const refused = await refusal(() => act(eve, id, { token: task.token }))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
      expect(await hf.tasks.getTask(id)).toEqual(task)
      await act(hf, id, { token: task.token })
    })

    test.each(Object.entries(processingLockActs))('cannot %s a processing lock [S5-15]', async (_, act) => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const q = hf.queue('m', { workflow: 'merge' })
      await q.submit('feature', { headSha: 'beef' })
      const { lock } = await claimedWithLock(q.next())
      const as = { token: lock.lease.token }

      const refused = await refusal(() => act(eve, '', as))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
      await act(hf, '', as)
    })

    test('cannot renew a named lock [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const { lock } = await take(hf, 'press')

      const refused = await refusal(() => eve.locks.renewLock('press', { token: lock.lease.token }))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
    })

    test.each(Object.entries(runActs))('cannot %s a run [S5-15]', async (name, act) => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const { lock } = await take(hf, 'press', { run: 'r' })
      const as = { token: lock.lease.token }
      await hf.runs.start('r', { ...as, lock: 'press', total: 9 })
      if (name === 'resume') await hf.runs.pause('r')

      const refused = await refusal(() => act(eve, 'r', as))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
      await act(hf, 'r', as)
    })

    test('cannot start a run under another’s lock [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const { lock } = await take(hf, 'press', { run: 'r' })
      const as = { token: lock.lease.token, lock: 'press' }

      expect(await refusalCode(() => eve.runs.start('r', as))).toBe('HELD')
      expect(await eve.runs.get('r')).toBeNull()
    })

    test('gets false from a release, which is audited [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const q = hf.queue('m', { workflow: 'merge' })
      await q.submit('feature', { headSha: 'beef' })
      const claim = await claimedWithLock(q.next())
      const named = await take(hf, 'press')

      const released = [
        await eve.queue('m').release(claim.item.id, { token: claim.item.token }),
        await eve.queue('m').releaseProcessingLock({ token: claim.lock.lease.token }),
        await eve.locks.releaseLock('press', { token: named.lock.lease.token }),
      ]

      expect(released).toEqual([false, false, false])
      expect((await present(q.get(claim.item.id))).holder).toBe('ada')
      expect((await present(q.getProcessingLock())).holder).toBe('ada')
      expect(await hf.locks.isLockedBy('press')).toBe(true)
      const [last] = await q.events(claim.item.id, { limit: 1 })
      expect(last).toMatchObject({ kind: 'item.refused', agent: 'eve' })
    })

    test('cannot renew it, or end the process that holds it, as the runtime does [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      await hf.queue('q').add('p')
      const { item } = await claimed(hf.queue('q').next())
      const { lock } = await take(hf, 'press')
      const leases = [
        { kind: 'item', id: item.id, token: item.token },
        { kind: 'lock', id: `press#${lock.slot}`, token: lock.lease.token },
      ] as const

      const renewed = await eve.execute('lease.renew', { leases: leases.map((l) => ({ ...l, leaseMs: 9 })) })

      expect(renewed).toEqual({ lost: leases })
    })

    test('gets the answer of a repeated completion [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      await hf.queue('q').add('p')
      const { item } = await claimed(hf.queue('q').next())
      const done = await hf.queue('q').complete(item.id)

      expect(await eve.queue('q').complete(item.id, { token: item.token })).toEqual(done)
    })

    test('can take it as an operator, by force or transfer [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const eve = await store.open({ agent: 'eve' })
      const { lock } = await take(hf, 'press')
      const token = lock.lease.token

      const moved = await eve.locks.transfer('press', { token, to: 'zoe', reason: 'shift ends' })
      const forced = await eve.locks.forceRelease('press', { reason: 'it hangs' })

      expect([moved.holder, forced]).toEqual(['zoe', true])
    })
  })

  test('a handle acts for another agent if told to [S5-15]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const q = hf.queue('q')
    await q.add('p')
    const { item } = await claimed(q.next({ agent: 'bob' }))

    expect(await refusalCode(() => q.complete(item.id, { token: item.token }))).toBe('HELD')
    expect((await q.complete(item.id, { agent: 'bob' })).state).toBe('done')
  })

  describe('the name in HOLDFAST_AGENT', () => {
    async function withAgent<Result>(name: string, body: () => Promise<Result>): Promise<Result> {
      const before = process.env.HOLDFAST_AGENT
      process.env.HOLDFAST_AGENT = name
      try {
        return await body()
      } finally {
        if (before === undefined) delete process.env.HOLDFAST_AGENT
        else process.env.HOLDFAST_AGENT = before
      }
    }

    test('is the agent of a handle without one, so helpers act as one agent [S5-15]', async () => {
      const { hf, store } = await engine.open({ agent: 'coder-1' })
      const helper = await withAgent('coder-1', () => store.open())
      await hf.queue('q').add('p')
      const { item } = await claimed(hf.queue('q').next())

      const done = await helper.queue('q').complete(item.id, { token: item.token })

      expect([helper.agent, done.state]).toEqual(['coder-1', 'done'])
    })

    test('does not replace an explicit name [S5-15]', async () => {
      const { store } = await engine.open({ agent: 'coder-1' })

      expect((await withAgent('other', () => store.open({ agent: 'mine' }))).agent).toBe('mine')
    })

    test('is refused if it is not a valid name [S5-15]', async () => {
      const { store } = await engine.open()

      const refused = await refusal(() => withAgent('a\nb', () => store.open()))

      expect(refused).toMatchObject({ code: 'INVALID', message: expect.stringContaining('HOLDFAST_AGENT') })
    })
  })
})
