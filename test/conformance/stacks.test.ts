/** Stacks and blockers: what waits for what, and when it is let go. */
import type { OpenOptions, Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { claimed, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a stacked item', () => {
    test('knows its parent, its root and its depth [Q22]', async () => {
      const { q } = await openJobs(engine)
      const root = await q.add(null, { key: 'root' })
      await q.add(null, { key: 'middle', parent: 'root' })

      const { item, position } = await q.add(null, { key: 'leaf', parent: 'middle' })

      const middle = await present(q.get('middle'))
      expect(item).toMatchObject({
        parent: middle.id,
        stackRoot: root.item.id,
        stackDepth: 2,
        waitingFor: [middle.id],
        phase: 'waiting',
      })
      expect(position).toBeNull()
      expect(await q.stats()).toMatchObject({ pending: 1, blocked: 2 })
    })

    test('waits until its parent has succeeded and is freed in the same transaction [Q22] [Q12]', async () => {
      const { q, hf } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      await q.add(null, { key: 'child', parent: 'parent' })
      await claimed(q.next({ agent: 'worker-1' }))
      const before = await q.next({ agent: 'worker-2' })

      await q.complete('parent', { agent: 'worker-1' })

      expect(before.outcome).toBe('empty')
      expect((await claimed(q.next({ agent: 'worker-2' }))).item).toMatchObject({
        key: 'child',
        waitingFor: [],
      })
      const kinds = (await readFeed(hf)).map(({ kind }) => kind)
      const closed = kinds.indexOf('item.completed')
      expect(kinds.slice(closed, closed + 2)).toEqual(['item.completed', 'item.unblocked'])
    })

    test('reports when it is added that its parent has failed, and doctor names it [S5c-50]', async () => {
      const { q, hf } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      await q.next({ agent: 'worker-1' })
      await q.fail('parent', 'no', { agent: 'worker-1', retryable: false })
      await q.add(null, { key: 'sound' })
      const before = await hf.fleet.doctor()

      const stacked = await q.add(null, { key: 'child', parent: 'parent' })
      const blocked = await q.add(null, { key: 'other', blockers: ['parent', 'sound'] })
      const fine = await q.add(null, { key: 'fine', parent: 'sound' })

      const { findings } = await hf.fleet.doctor()
      const waits = findings.find(({ check }) => check === 'waiting')
      expect([stacked.position, blocked.position]).toEqual([null, null])
      for (const { reason } of [stacked, blocked])
        expect(reason).toMatch(/parent, which is failed.*retried or resubmitted/)
      expect(fine.reason).toBe('it waits for sound')
      expect(before.findings.some(({ check }) => check === 'waiting')).toBe(false)
      expect(waits).toMatchObject({ level: 'warning' })
      expect(waits?.what).toMatch(/2 items wait .*(child|other) of queue jobs.*parent.*failed/)
    })

    test('that was stacked on a failed item runs once that is retried and succeeds [S5c-50]', async () => {
      const { q, hf } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      await q.next({ agent: 'worker-1' })
      await q.fail('parent', 'no', { agent: 'worker-1', retryable: false })
      await q.add(null, { key: 'child', parent: 'parent' })

      await q.retry('parent')
      const { findings } = await hf.fleet.doctor()
      await q.next({ agent: 'worker-1' })
      await q.complete('parent', { agent: 'worker-1' })

      expect(findings.some(({ check }) => check === 'waiting')).toBe(false)
      expect((await claimed(q.next())).item.key).toBe('child')
    })

    test('is freed level by level [Q22]', async () => {
      const { q } = await openJobs(engine)
      const keys = ['a', 'b', 'c', 'd']
      for (const [index, key] of keys.entries())
        await q.add(null, { key, ...(index === 0 ? {} : { parent: keys[index - 1] as string }) })

      const served: (string | null)[] = []
      for (let claim = await q.next({ agent: 'worker-1' }); claim.outcome === 'claimed'; ) {
        served.push(claim.item.key)
        await q.complete(claim.item.id, { agent: 'worker-1' })
        claim = await q.next({ agent: 'worker-1' })
      }

      expect(served).toEqual(keys)
    })

    test.each(['failed', 'cancelled'])(
      'stays blocked, and names the blocker, when its parent is %s [Q22]',
      async (how) => {
        const { q } = await openJobs(engine)
        const parent = await q.add(null, { key: 'parent' })
        await q.add(null, { key: 'child', parent: 'parent' })
        await q.next({ agent: 'worker-1' })

        if (how === 'failed') await q.fail('parent', 'no', { agent: 'worker-1', retryable: false })
        else await q.cancel('parent')

        expect(await q.get('child')).toMatchObject({ phase: 'waiting', waitingFor: [parent.item.id] })
        expect((await q.next({ agent: 'worker-2' })).outcome).toBe('empty')
      },
    )

    test('is freed after all when its failed parent is retried and succeeds [Q22]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      await q.add(null, { key: 'child', parent: 'parent' })
      await q.next({ agent: 'worker-1' })
      await q.fail('parent', 'no', { agent: 'worker-1', retryable: false })
      await q.retry('parent')
      await q.next({ agent: 'worker-1' })

      await q.complete('parent', { agent: 'worker-1' })

      expect(await q.get('child')).toMatchObject({ phase: 'ready' })
    })

    test('does not wait for a parent that has already succeeded [Q22]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      await q.next({ agent: 'worker-1' })
      await q.complete('parent', { agent: 'worker-1' })

      const { item } = await q.add(null, { key: 'child', parent: 'parent' })

      expect(item).toMatchObject({ phase: 'ready', waitingFor: [], stackDepth: 1 })
    })

    test('needs a parent that exists [Q22]', async () => {
      const { q } = await openJobs(engine)

      const refused = await refusal(() => q.add(null, { key: 'child', parent: 'nobody' }))

      expect(refused).toMatchObject({ code: 'NOT_FOUND', facts: { parent: 'nobody' } })
      expect(await q.get('child')).toBeNull()
    })

    test('may be ten levels deep but not eleven [Q22]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'd0' })
      for (let depth = 1; depth <= 10; depth++)
        await q.add(null, { key: `d${depth}`, parent: `d${depth - 1}` })

      const refused = await refusal(() => q.add(null, { key: 'd11', parent: 'd10' }))

      expect(await q.get('d10')).toMatchObject({ stackDepth: 10 })
      expect(refused).toMatchObject({ code: 'INVALID', facts: { maxDepth: 10 } })
    })

    test('cannot be stacked on its own descendant [Q22]', async () => {
      const { q } = await openJobs(engine)
      await q.submit('a', { headSha: 'abcd' })
      await q.submit('b', { headSha: 'abcd', parent: 'a' })
      await q.cancel('a')

      const code = await refusalCode(() => q.submit('a', { headSha: 'abcd', parent: 'b' }))

      expect(code).toBe('INVALID')
      expect(await q.get('a')).toMatchObject({ state: 'cancelled' })
    })

    test('cannot be removed while items wait for it [Q22] [Q26]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      const { item } = await q.add(null, { key: 'child', parent: 'parent' })

      const refused = await refusal(() => q.remove('parent'))

      expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { waiting: [item.id] } })
      expect(await q.get('parent')).not.toBeNull()
    })

    test('keeps its failed parent from being cleaned up [Q22] [Q26]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'parent' })
      await q.add(null, { key: 'child', parent: 'parent' })
      await q.cancel('parent')

      const removed = await q.cleanup({ maxAgeMs: 0 })

      expect(removed).toBe(0)
      expect(await q.get('parent')).toMatchObject({ state: 'cancelled' })
    })
  })

  test('a cancelled item keeps nothing that it had waited for [Q22] [Q26]', async () => {
    const { q } = await openJobs(engine)
    for (const name of ['one', 'other']) {
      await q.add(null, { key: name })
      await q.add(null, { key: `behind ${name}`, blockers: [name] })
      await q.cancel(`behind ${name}`)
    }

    const removed = await q.remove('one')
    await q.cancel('other')
    const cleaned = await q.cleanup({ maxAgeMs: 0 })

    expect([removed, cleaned]).toEqual([true, 3])
    expect(await q.stats()).toMatchObject({ total: 0 })
  })

  test('closed items that others wait for do not keep the rest from being cleaned up [Q26]', async () => {
    const { q, env } = await openJobs(engine)
    const { ids } = await q.addMany(Array.from({ length: 500 }, () => ({ payload: null })))
    await Promise.all(ids.flatMap((id) => [q.add(null, { blockers: [id] }), q.cancel(id)]))
    await env.advance(1)
    const { item } = await q.add(null)
    await q.cancel(item.id)

    const removed = await q.cleanup({ maxAgeMs: 0 })

    expect(removed).toBe(1)
    expect(await q.get(item.id)).toBeNull()
  })

  describe('an item with blockers', () => {
    test('waits for all of them, in whatever order and queue they close [Q22]', async () => {
      const { q, hf } = await openJobs(engine)
      const elsewhere = hf.queue('elsewhere')
      const first = (await q.add(null, { key: 'first' })).item.id
      const second = (await elsewhere.add(null)).item.id
      await q.add(null, { key: 'last', blockers: [first, second, first] })

      const { item } = await claimed(elsewhere.next({ agent: 'worker-1' }))
      await elsewhere.complete(item.id, { agent: 'worker-1' })
      const between = await present(q.get('last'))
      await q.next({ agent: 'worker-1' })
      await q.complete('first', { agent: 'worker-1' })

      expect(between).toMatchObject({ phase: 'waiting', blockers: [first, second], waitingFor: [first] })
      expect(await q.get('last')).toMatchObject({ phase: 'ready', waitingFor: [] })
    })

    test('names them by id or by key, its own queue first, and in other queues by id [S5c-51]', async () => {
      const { q, hf } = await openJobs(engine)
      const first = (await q.add(null, { key: 'first' })).item.id
      const second = (await q.add(null)).item.id
      const elsewhere = (await hf.queue('other').add(null, { key: 'elsewhere' })).item.id

      const { item } = await q.add(null, { blockers: ['first', second, elsewhere, first] })
      const submitted = await q.submit('w1', { headSha: 'abcd', blockers: ['first'] })

      expect(item.blockers).toEqual([first, second, elsewhere])
      expect(submitted.item.blockers).toEqual([first])
      expect(await refusalCode(() => q.add(null, { blockers: ['elsewhere'] }))).toBe('NOT_FOUND')
    })

    test('needs blockers that exist [Q22]', async () => {
      const { q } = await openJobs(engine)

      expect(await refusalCode(() => q.add(null, { blockers: ['nothing'] }))).toBe('NOT_FOUND')
    })

    test('cannot wait for an item that waits for it [Q22]', async () => {
      const { q } = await openJobs(engine)
      const a = (await q.submit('a', { headSha: 'abcd' })).item.id
      await q.cancel('a')
      const b = (await q.add(null, { key: 'b', blockers: [a] })).item.id

      const code = await refusalCode(() => q.submit('a', { headSha: 'abcd', blockers: [b] }))

      expect(code).toBe('INVALID')
    })

    test('cannot wait indirectly for one that waits for it, when it is submitted again [Q22]', async () => {
      const { q } = await openJobs(engine)
      const x = (await q.submit('x', { headSha: 'abcd' })).item.id
      await q.cancel('x')
      const y = (await q.add(null, { key: 'y', blockers: [x] })).item.id
      const z = (await q.add(null, { key: 'z', parent: 'y' })).item.id

      const byBlocker = await refusal(() => q.submit('x', { headSha: 'abcd', blockers: [z] }))
      const byParent = await refusal(() => q.submit('x', { headSha: 'abcd', parent: 'z' }))
      const { item } = await q.submit('x', { headSha: 'abcd', blockers: [(await q.add(null)).item.id] })

      expect(byBlocker).toMatchObject({ code: 'INVALID', facts: { blocker: z } })
      expect(byParent.code).toBe('INVALID')
      expect(item).toMatchObject({ id: x, phase: 'waiting' })
      expect(await q.get('y')).toMatchObject({ id: y, waitingFor: [x] })
    })

    test('is freed however many wait with it [Q22]', async () => {
      const { q, env } = await openJobs(engine)
      const { item } = await q.add(null, { key: 'gate' })
      const waiting = 250
      await Promise.all(Array.from({ length: waiting }, () => q.add(null, { blockers: [item.id] })))
      await q.next({ agent: 'worker-1' })

      await q.complete('gate', { agent: 'worker-1' })
      await env.advance(10_000)

      expect(await q.stats()).toMatchObject({ pending: waiting, blocked: 0 })
    })

    test('is freed however many wait with it for more than one, and its delay ends too [Q22]', async () => {
      const { hf, q, env } = await openJobs(engine, { background: false })
      const gates = [
        (await q.add(null, { key: 'left' })).item.id,
        (await q.add(null, { key: 'right' })).item.id,
      ]
      const waiting = 150
      const runAt = env.now() + 1000
      await Promise.all(Array.from({ length: waiting }, () => q.add(null, { blockers: gates, runAt })))
      for (const _ of gates) await q.next({ agent: 'worker-1' })

      for (const gate of gates) await q.complete(gate, { agent: 'worker-1' })
      await env.advance(2000)
      await hf.recovery.detectAndRecoverStale()

      expect(await q.stats()).toMatchObject({ pending: waiting, blocked: 0 })
      expect((await claimed(q.next())).item.attempts).toBe(1)
    })
  })
})

async function openJobs(engine: Engine, options: OpenOptions = {}) {
  const opened = await engine.open(options)
  const q: Queue = opened.hf.queue('jobs')
  return { ...opened, q }
}
