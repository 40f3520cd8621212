/** Submitting a change: the five cases, their bounds and their races. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { walkTo } from '../support/merge.ts'
import { claimedWithLock, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a submitted change', () => {
    test('is new when its key is unused [Q4]', async () => {
      const { q } = await openMerge(engine)

      const { outcome, item, position, totalPending } = await q.submit('w1', {
        headSha: 'aaaa',
        bead: 'bd-1',
      })

      expect({ outcome, position, totalPending }).toEqual({ outcome: 'new', position: 1, totalPending: 1 })
      expect(item).toMatchObject({
        key: 'w1',
        dedupeKey: 'workspace:w1',
        state: 'pending',
        data: { headSha: 'aaaa', bead: 'bd-1' },
      })
    })

    test('updates the head of an open item of the same workspace, and keeps what is not given [Q4]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', bead: 'bd-1', priority: 3, payload: { a: 1 } })

      const { outcome, item } = await q.submit('w1', { headSha: 'bbbb' })

      expect(outcome).toBe('updated')
      expect(item).toMatchObject({ priority: 3, payload: { a: 1 }, data: { headSha: 'bbbb', bead: 'bd-1' } })
    })

    test('is refused while its key is open under another workspace [Q4]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c1' })

      const code = await refusalCode(() => q.submit('w2', { headSha: 'aaaa', dedupeKey: 'repo:c1' }))

      expect(code).toBe('DUPLICATE')
    })

    test('is refused while its workspace is open under another key [Q4] [E-21]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c1' })

      const refused = await refusal(() => q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c2' }))

      expect(refused).toMatchObject({ code: 'DUPLICATE', facts: { field: 'key', value: 'w1' } })
    })

    test.each(['merged', 'failed_terminal', 'cancelled'] as const)(
      'reopens a %s item of the same workspace, as if it were new [Q4]',
      async (closed) => {
        const { q, env } = await openMerge(engine)
        const first = await q.submit('w1', { headSha: 'aaaa', bead: 'bd-1', priority: 3 })
        await close(q, closed)
        await env.advance(10)

        const { outcome, item } = await q.submit('w1', { headSha: 'bbbb', bead: 'bd-2', priority: 4 })

        expect(outcome).toBe('resubmitted')
        expect(item).toMatchObject({
          id: first.item.id,
          state: 'pending',
          phase: 'ready',
          priority: 4,
          attempts: 0,
          failures: 0,
          holder: null,
          lease: null,
          startedAt: null,
          closedAt: null,
          outcome: null,
          error: null,
          cancelRequestedAt: null,
          addedAt: env.now(),
          previousState: closed,
        })
        expect(item.data).toEqual({ headSha: 'bbbb', bead: 'bd-2' })
      },
    )

    test('reuses a closed key for another workspace, as a separate item [Q4]', async () => {
      const { q } = await openMerge(engine)
      const first = await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c1' })
      await close(q, 'merged')

      const { outcome, item } = await q.submit('w2', { headSha: 'bbbb', dedupeKey: 'repo:c1' })

      expect(outcome).toBe('new')
      expect(item.id).not.toBe(first.item.id)
      expect(await q.get('w1')).toMatchObject({ state: 'merged' })
    })

    test('sends a holder that tested the old head back to rebasing [Q4] [Q21]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })
      await q.nextWithLock({ agent: 'worker-1' })
      await walkTo(q, 'w1', 'ready_to_merge', { agent: 'worker-1' })

      const { outcome } = await q.submit('w1', { headSha: 'bbbb' })

      expect(outcome).toBe('updated')
      expect(await q.isFresh('w1', 'base01')).toBe(false)
      expect(await q.returnToRebasing('w1', 'base01', { agent: 'worker-1' })).toMatchObject({
        state: 'rebasing',
        data: { headSha: 'bbbb' },
      })
    })

    test('loses no head that is submitted while the old one is rebased or tested [Q4] [Q21]', async () => {
      const { q } = await openMerge(engine)
      const as = { agent: 'worker-1' }
      const rebase = (headSha: string, fromSha?: string) =>
        q.updateRebaseMetadata('w1', {
          ...as,
          headSha,
          testedAgainstSha: 'base01',
          ...(fromSha ? { fromSha } : {}),
        })
      await q.submit('w1', { headSha: 'aaaa' })
      await q.nextWithLock(as)
      await q.move('w1', 'rebasing', as)
      await q.submit('w1', { headSha: 'bbbb' })

      const blind = await refusal(() => rebase('aaaa01'))
      const old = await refusal(() => rebase('aaaa01', 'aaaa'))
      const rebased = await rebase('bbbb01', 'bbbb')
      await q.submit('w1', { headSha: 'cccc' })
      await q.move('w1', 'ready_to_merge', as)
      await q.returnToRebasing('w1', 'base01', as)
      const tested = await refusal(() => rebase('bbbb02'))
      await q.release('w1', as)
      await q.nextWithLock({ agent: 'worker-1' })
      await q.move('w1', 'rebasing', as)

      expect(blind).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { headSha: 'bbbb' } })
      expect(old).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { headSha: 'bbbb' } })
      expect(rebased.data).toMatchObject({ headSha: 'bbbb01', testedAgainstSha: 'base01' })
      expect(tested).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { headSha: 'cccc' } })
      expect((await rebase('cccc01')).data).toMatchObject({ headSha: 'cccc01' })
    })

    test('cannot change the head of a running merge, and says who merges [Q4]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })
      await q.nextWithLock({ agent: 'worker-1' })
      await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })

      const refused = await refusal(() => q.submit('w1', { headSha: 'bbbb' }))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'worker-1' } })
    })

    test.each([
      { fault: 'a head of three letters', key: 'w1', options: { headSha: 'abc' } },
      { fault: 'a head that is no id', key: 'w1', options: { headSha: '../../x' } },
      { fault: 'a key without a colon', key: 'w1', options: { headSha: 'abcd', dedupeKey: 'plain' } },
      { fault: 'a workspace that climbs', key: '../w1', options: { headSha: 'abcd' } },
      { fault: 'an empty workspace', key: '', options: { headSha: 'abcd' } },
    ])('with $fault is INVALID and leaves nothing behind [Q4]', async ({ key, options }) => {
      const { q } = await openMerge(engine)

      const code = await refusalCode(() => q.submit(key, options))

      expect(code).toBe('INVALID')
      expect((await q.list()).items).toEqual([])
    })
  })

  describe('an open change that nobody holds, submitted again', () => {
    test('applies everything that is given, with one event [S5c-43]', async () => {
      const { q, env } = await openMerge(engine)
      const runAt = env.now() + 60_000
      await q.submit('w1', { headSha: 'aaaa', bead: 'bd-1', payload: { a: 1 }, data: { kept: 1, other: 1 } })
      const blocker = await q.submit('w2', { headSha: 'aaaa' })

      const { outcome, item } = await q.submit('w1', {
        headSha: 'bbbb',
        bead: 'bd-2',
        priority: 9,
        payload: { b: 2 },
        data: { other: 2 },
        runAt,
        maxAttempts: 7,
        blockers: ['w2'],
      })

      expect(outcome).toBe('updated')
      expect(item).toMatchObject({
        priority: 9,
        payload: { b: 2 },
        runAt,
        maxAttempts: 7,
        blockers: [blocker.item.id],
        waitingFor: [blocker.item.id],
        phase: 'waiting',
        version: 2,
        data: { headSha: 'bbbb', bead: 'bd-2', kept: 1, other: 2 },
      })
      expect((await q.events('w1')).map(({ kind }) => kind)).toEqual(['item.created', 'item.updated'])
      expect(await q.get('w1')).toMatchObject({ priority: 9, payload: { b: 2 }, runAt })
    })

    test('changes nothing and records nothing when the values are the same [S5c-43]', async () => {
      const { q, env } = await openMerge(engine)
      await q.submit('w2', { headSha: 'aaaa' })
      await q.submit('w3', { headSha: 'aaaa' })
      const same = {
        headSha: 'aaaa',
        bead: 'bd-1',
        priority: 4,
        payload: { a: 1, b: { c: [1, 2] } },
        data: { note: { x: 1, y: 2 } },
        runAt: env.now() + 60_000,
        maxAttempts: 7,
        parent: 'w2',
        blockers: ['w3'],
      }
      const first = await q.submit('w1', same)

      const again = await q.submit('w1', {
        ...same,
        payload: { b: { c: [1, 2] }, a: 1 },
        data: { note: { y: 2, x: 1 } },
      })

      expect(again).toMatchObject({ outcome: 'updated', item: { version: first.item.version } })
      expect(await q.events('w1')).toHaveLength(1)
    })

    test('returns its real position in line, after the change [S5c-43]', async () => {
      const { q } = await openMerge(engine)
      for (const key of ['w1', 'w2', 'w3']) await q.submit(key, { headSha: 'aaaa' })

      const same = await q.submit('w2', { headSha: 'bbbb' })
      const last = await q.submit('w1', { headSha: 'aaaa', priority: 9 })
      const first = await q.submit('w3', { headSha: 'aaaa', priority: 1 })

      expect([same, last, first].map(({ position, totalPending }) => [position, totalPending])).toEqual([
        [2, 3],
        [3, 3],
        [1, 3],
      ])
      expect(same.reason).toBeNull()
      expect(await Promise.all(['w1', 'w2', 'w3'].map((key) => q.position(key)))).toEqual([3, 2, 1])
    })

    test('can be delayed, and put back in line with a past time or none [S5c-43]', async () => {
      const { q, env } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })

      const delayed = await q.submit('w1', { headSha: 'aaaa', runAt: env.now() + 60_000 })
      const lifted = await q.submit('w1', { headSha: 'aaaa', runAt: env.now() - 1 })
      await q.submit('w1', { headSha: 'aaaa', runAt: new Date(env.now() + 60_000) })
      const cleared = await q.submit('w1', { headSha: 'aaaa', runAt: null })

      expect(delayed).toMatchObject({ position: null, totalPending: 0, item: { phase: 'waiting' } })
      expect(delayed.reason).toContain('delayed')
      expect([lifted, cleared].map(({ position, item }) => [position, item.phase])).toEqual([
        [1, 'ready'],
        [1, 'ready'],
      ])
    })

    test('keeps the delay after a failure, even if a past time is given again [S5c-43]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      const runAt = env.now() - 1
      await q.submit('w1', { headSha: 'aaaa', runAt })
      await q.next({ agent: 'worker-1' })
      const failed = await q.fail('w1', 'no', { agent: 'worker-1' })

      const { item } = await q.submit('w1', { headSha: 'aaaa', runAt })

      expect(item).toMatchObject({ runAt: failed.runAt, version: failed.version })
    })

    test('can be restacked, but never on something that waits for it [S5c-43]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })
      await q.submit('w2', { headSha: 'aaaa' })
      await q.submit('w3', { headSha: 'aaaa', parent: 'w2' })

      const { item } = await q.submit('w2', { headSha: 'aaaa', parent: 'w1' })
      const circle = await refusalCode(() => q.submit('w1', { headSha: 'aaaa', parent: 'w3' }))
      const free = await q.submit('w2', { headSha: 'aaaa', parent: null })

      expect(item).toMatchObject({ phase: 'waiting', stackDepth: 1 })
      expect(circle).toBe('INVALID')
      expect(free).toMatchObject({ position: 2, item: { parent: null, waitingFor: [], phase: 'ready' } })
    })

    test('brings along what is stacked on it, so only real cycles are refused [S5c-43]', async () => {
      const { q } = await openMerge(engine)
      const ids: Record<string, string> = {}
      for (const [key, parent] of [['w1'], ['w2', 'w1'], ['w3', 'w2'], ['w4', 'w3'], ['beside', 'w2']]) {
        ids[key as string] = (
          await q.submit(key as string, { headSha: 'aaaa', parent: parent ?? null })
        ).item.id
      }

      await q.submit('w2', { headSha: 'aaaa', parent: null })
      const alone = await stackOf(q, ['w2', 'w3', 'w4', 'beside'])
      await q.submit('w1', { headSha: 'aaaa', parent: 'w4' })
      const under = await stackOf(q, ['w1', 'w4'])
      const circle = await refusalCode(() => q.submit('w3', { headSha: 'aaaa', parent: 'w1' }))

      expect(alone).toEqual([
        [ids.w2, 0],
        [ids.w2, 1],
        [ids.w2, 2],
        [ids.w2, 1],
      ])
      expect(under).toEqual([
        [ids.w2, 3],
        [ids.w2, 2],
      ])
      expect(circle).toBe('INVALID')
      expect((await q.events('w4')).at(-1)).toMatchObject({
        kind: 'item.updated',
        detail: { stackedAnew: ids.w2 },
      })
    })

    test('cannot be stacked where the items on top of it would be too deep [S5c-43]', async () => {
      const { q } = await openMerge(engine)
      for (let depth = 0; depth < 8; depth++) {
        const parent = depth === 0 ? null : `deep-${depth - 1}`
        await q.submit(`deep-${depth}`, { headSha: 'aaaa', parent })
      }
      for (let depth = 0; depth < 3; depth++) {
        const parent = depth === 0 ? null : `top-${depth - 1}`
        await q.submit(`top-${depth}`, { headSha: 'aaaa', parent })
      }

      await q.submit('top-0', { headSha: 'aaaa', parent: 'deep-7' })
      await q.submit('one-more', { headSha: 'aaaa' })
      const refused = await refusalCode(() => q.submit('deep-0', { headSha: 'aaaa', parent: 'one-more' }))

      expect(await stackOf(q, ['top-2'])).toEqual([[(await q.get('deep-0'))?.id, 10]])
      expect(refused).toBe('INVALID')
      expect(await q.get('deep-0')).toMatchObject({ stackDepth: 0 })
    })

    test.each([
      ['failed', 'failed_retryable'],
      ['delayed', 'delayed'],
      ['blocked', 'waits for w0'],
      ['held', 'worker-1'],
    ] as const)('has no position while it is %s, and the answer says so [S5c-43]', async (how, said) => {
      const { q, env } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', ...(how === 'delayed' ? { runAt: env.now() + 1000 } : {}) })
      if (how === 'blocked') {
        await q.submit('w0', { headSha: 'aaaa' })
        await q.submit('w1', { headSha: 'aaaa', blockers: ['w0'] })
      }
      if (how === 'held' || how === 'failed') await q.nextWithLock({ agent: 'worker-1' })
      if (how === 'failed') await q.fail('w1', 'no', { agent: 'worker-1', retryable: true })

      const { position, reason } = await q.submit('w1', { headSha: 'bbbb' })

      expect(position).toBeNull()
      expect(reason).toContain(said)
    })
  })

  describe('an open change that somebody holds, submitted again', () => {
    test('applies head, priority and attempts [S5c-43]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', payload: { a: 1 }, bead: 'bd-1' })
      await q.nextWithLock({ agent: 'worker-1' })

      const { item } = await q.submit('w1', {
        headSha: 'bbbb',
        priority: 1,
        maxAttempts: 7,
        payload: { a: 1 },
        bead: 'bd-1',
      })

      expect(item).toMatchObject({
        phase: 'held',
        holder: 'worker-1',
        priority: 1,
        maxAttempts: 7,
        data: { headSha: 'bbbb', testedAgainstSha: null },
      })
    })

    test.each([
      ['payload', { payload: { b: 2 } }],
      ['data', { data: { more: 1 } }],
      ['bead', { bead: 'bd-2' }],
      ['runAt', { runAt: 9_000_000_000_000 }],
      ['parent', { parent: 'w0' }],
      ['blockers', { blockers: ['w0'] }],
    ])(
      'refuses a different %s as HELD, names the holder and changes nothing [S5c-43]',
      async (field, other) => {
        const { q } = await openMerge(engine)
        await q.submit('w1', { headSha: 'aaaa', payload: { a: 1 } })
        await q.nextWithLock({ agent: 'worker-1' })
        await q.submit('w0', { headSha: 'aaaa' })
        const before = await q.get('w1')

        const refused = await refusal(() => q.submit('w1', { headSha: 'bbbb', priority: 1, ...other }))

        expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'worker-1' } })
        expect(refused.next).toContain(field)
        expect(await q.get('w1')).toEqual(before)
      },
    )

    test('may change its priority while it merges, but not its head [S5c-43]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })
      await q.nextWithLock({ agent: 'worker-1' })
      await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })

      const { item } = await q.submit('w1', { headSha: 'beef01', priority: 1 })
      const code = await refusalCode(() => q.submit('w1', { headSha: 'bbbb', priority: 2 }))

      expect([item.priority, code]).toEqual([1, 'HELD'])
      expect(await q.get('w1')).toMatchObject({ priority: 1, state: 'merging' })
    })
  })

  test('a finished change that is reopened elsewhere brings along what is stacked on it [S5c-43]', async () => {
    const { q } = await openMerge(engine)
    const { item: root } = await q.submit('w1', { headSha: 'aaaa' })
    const { item: other } = await q.submit('w2', { headSha: 'aaaa', parent: 'w1' })
    await q.submit('w3', { headSha: 'aaaa', parent: 'w2' })
    await q.cancel('w2')

    const before = await stackOf(q, ['w3'])
    await q.submit('w2', { headSha: 'aaaa' })

    expect(before).toEqual([[root.id, 2]])
    expect(await stackOf(q, ['w2', 'w3'])).toEqual([
      [other.id, 0],
      [other.id, 1],
    ])
  })

  test('an item stacked on a change that is moved at the same time gets the new root [S5c-43]', async () => {
    const { q, store } = await openMerge(engine)
    const others = (await store.open()).queue('main')
    for (const key of ['a', 'b', 'c']) await q.submit(key, { headSha: 'aaaa' })
    await q.submit('d', { headSha: 'aaaa', parent: 'c' })
    for (let round = 0; round < 10; round++) {
      const root = round % 2 === 0 ? 'a' : 'b'

      await Promise.all([
        others.submit(`top-${round}`, { headSha: 'aaaa', parent: 'd' }),
        q.submit('c', { headSha: 'aaaa', parent: root }),
        others.submit(`high-${round}`, { headSha: 'aaaa', parent: 'd' }),
      ])

      const { id } = (await q.get(root)) as { id: string }
      expect(await stackOf(q, ['c', 'd', `top-${round}`, `high-${round}`])).toEqual([
        [id, 1],
        [id, 2],
        [id, 3],
        [id, 3],
      ])
    }
  })

  test('racing submits of one key from several workspaces leave one of them open [Q4] [E-21]', async () => {
    const { store } = await openMerge(engine)
    const queues = await Promise.all(
      [1, 2, 3].map(async () => (await store.open()).queue('main', { workflow: 'merge' })),
    )

    const answers = await Promise.allSettled(
      queues.flatMap((q, handle) =>
        Array.from({ length: 5 }, (_, number) =>
          q.submit(`w${handle}-${number}`, { headSha: 'aaaa', dedupeKey: 'repo:c1' }),
        ),
      ),
    )

    const refused = answers.flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []))
    expect(answers.length - refused.length).toBe(1)
    expect(new Set(refused)).toEqual(new Set(['DUPLICATE']))
  })

  test('racing resubmissions of a closed change reopen it once [Q4]', async () => {
    const { q, store } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })
    await q.cancel('w1')
    const other = (await store.open()).queue('main')

    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, number) => (number % 2 ? q : other).submit('w1', { headSha: 'aaaa' })),
    )

    expect(answers.filter(({ outcome }) => outcome === 'resubmitted')).toHaveLength(1)
    expect(await q.stats()).toMatchObject({ total: 1, pending: 1 })
  })
})

async function openMerge(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

async function close(q: Queue, state: 'merged' | 'failed_terminal' | 'cancelled'): Promise<void> {
  const holder = { agent: 'worker-1' }
  const { item } = await claimedWithLock(q.nextWithLock(holder))
  if (state === 'cancelled') await q.cancel(item.id)
  if (state === 'failed_terminal') await q.fail(item.id, 'no', holder)
  if (state !== 'merged') return
  await walkTo(q, item.id, 'merging', holder)
  await q.completeMerge(item.id, 'beef02', holder)
}

/** Of each: the root of its stack, and how many are below it. */
async function stackOf(
  q: Queue,
  keys: readonly string[],
): Promise<[string | undefined, number | undefined][]> {
  const items = await Promise.all(keys.map((key) => q.get(key)))
  return items.map((item) => [item?.stackRoot, item?.stackDepth])
}
