/** The audit: what changed, in order, with the change, for as long as it is kept. */
import type { Event, EventOptions, Queue } from 'holdfast'
import { type Replica, renewalFields, replay } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { walkTo } from '../support/merge.ts'
import { claimed, refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, whenReadable } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a reader of a store whose oldest events were removed', () => {
    /** With the numbers of all there were, and that of the last that is gone. */
    const sealed = async () => {
      const { hf, env } = await engine.open({ background: false })
      for (let number = 0; number < 6; number++) await hf.queue('jobs').add(number)
      const all = (await readFeed(hf)).map(({ seq }) => seq)
      const past = { from: env.now(), ageMs: 0 }
      const { through } = (await hf.execute('events.seal', { past, through: all[3] })) as { through: number }
      return { hf, all, through }
    }
    const first = async (events: AsyncGenerator<Event>) => (await events.next()).value?.seq

    test('starts with the oldest remaining event when it asks for all [S5c-16]', async () => {
      const { hf, all, through } = await sealed()

      expect(through).toBe(all[3])
      expect(await first(hf.events())).toBe(all[4])
      expect(await first(hf.events({ since: 0 }))).toBe(all[4])
      expect(await first(hf.events({ since: through }))).toBe(all[4])
    })

    test('is told where events begin if it would skip some [S5c-16]', async () => {
      const { hf, all, through } = await sealed()
      const since = all[2] as number

      const refused = await refusal(() => hf.events({ since }).next())

      expect(refused).toMatchObject({ code: 'NOT_FOUND', facts: { since, checkpoint: through } })
      expect(refused.message).toContain(String(through))
      expect(await refusalCode(() => hf.execute('events.list', { since, subject: 'item' }))).toBe('NOT_FOUND')
    })

    test('that was too slow is told so, instead of continuing past the gap [S5c-16]', async () => {
      const { hf, env } = await engine.open({ background: false })
      await hf.queue('jobs').addMany(Array.from({ length: 501 }, (_, number) => ({ payload: number })))
      await whenReadable(hf)
      const events = hf.events()
      for (let read = 0; read < 500; read++) await events.next()
      await hf.queue('jobs').add('newest')
      await whenReadable(hf)

      const past = { from: env.now(), ageMs: 0 }
      for (let more = true; more; )
        ({ more } = (await hf.execute('events.seal', { past })) as { more: boolean })

      expect(await refusalCode(() => events.next())).toBe('NOT_FOUND')
    })
  })

  test('events of one kind of thing are found page by page, in either direction [S5e-1]', async () => {
    const { hf } = await engine.open({ background: false })
    for (let number = 0; number < 5; number++) {
      await hf.queue('jobs').add(number)
      await hf.state(`key-${number}`).set(number)
    }
    const all = (await readFeed(hf)).filter(({ subject }) => subject === 'state').map(({ seq }) => seq)
    const page = async (input: object) => {
      const found = await hf.execute('events.list', { subject: 'state', limit: 2, ...input })
      const { events, next } = found as { events: Event[]; next: number | null }
      return { seqs: events.map(({ seq }) => seq), next }
    }

    const first = await page({})
    const second = await page({ since: first.next })
    const last = await page({ since: second.next })
    const newest = await page({ newest: true })
    const older = await page({ newest: true, before: newest.next })

    expect([first.seqs, second.seqs, last.seqs]).toEqual([all.slice(0, 2), all.slice(2, 4), all.slice(4)])
    expect(last.next).toBeNull()
    expect([newest.seqs, older.seqs]).toEqual([all.slice(3), all.slice(1, 3)])
    expect(await refusalCode(() => hf.execute('events.list', { id: 'key-1' }))).toBe('INVALID')
  })

  test.each<[string, Omit<EventOptions, 'since' | 'signal'>]>([
    ['kinds', { kinds: ['item.claimed', 'state.set'] }],
    ['a queue', { queue: 'jobs' }],
    ['a kind of thing and a queue', { subject: 'item', queue: 'jobs' }],
    ['kinds and one thing', { subject: 'state', id: 'key-1', kinds: ['state.set'] }],
    ['all that pass no event', { subject: 'lock', kinds: ['item.claimed'] }],
  ])('events that pass a filter by %s are found page by page, in either direction', async (_, filter) => {
    const { hf } = await engine.open({ background: false })
    for (let number = 0; number < 3; number++) {
      await hf.queue('jobs').add(number)
      await hf.queue('jobs').next()
      await hf.queue('others').add(number)
      await hf.state(`key-${number % 2}`).set(number)
    }
    const { subject, id, kinds, queue } = filter
    const wanted = (await readFeed(hf)).filter(
      (event) =>
        (subject ?? event.subject) === event.subject &&
        (id ?? event.id) === event.id &&
        (kinds?.includes(event.kind) ?? true) &&
        (queue === undefined || event.queue === queue || (event.subject === 'queue' && event.id === queue)),
    )
    const pages = async (newest: boolean) => {
      const all: number[][] = []
      for (let from: number | null | undefined; from !== null; ) {
        const start = from === undefined ? {} : { [newest ? 'before' : 'since']: from }
        const page = { ...filter, ...start, newest, limit: 2 }
        const { events, next } = await hf.execute('events.list', page)
        all.push(events.map(({ seq }) => seq))
        from = next
      }
      return all
    }

    const forward = await pages(false)
    const backward = await pages(true)

    expect(forward.flat()).toEqual(wanted.map(({ seq }) => seq))
    expect(backward.reverse().flat()).toEqual(wanted.map(({ seq }) => seq))
    expect(await refusalCode(() => hf.execute('events.list', { id: 'key-1', queue: 'jobs' }))).toBe('INVALID')
  })

  test('each change of an item has its event, in order, with agent and token [Q25] [X2]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd', agent: 'author' })
    await q.submit('w1', { headSha: 'bbbb', agent: 'author' })
    await q.nextWithLock({ agent: 'worker-1', leaseMs: 1_000 })
    await env.advance(1_001)
    await q.detectAndRecoverStale()
    const { item } = await claimed(q.nextWithLock({ agent: 'worker-2' }))
    await walkTo(q, 'w1', 'testing', { agent: 'worker-2' })
    await q.progress('w1', 1, { agent: 'worker-2' })
    await q.fail('w1', 'flaky', { agent: 'worker-2', retryable: true })
    await q.retry('w1', { agent: 'operator' })
    await q.setPriority('w1', 1, { agent: 'operator' })
    await q.cancel('w1', { agent: 'operator' })
    await q.submit('w1', { headSha: 'cccc', agent: 'author' })
    await q.remove('w1', { agent: 'operator' })

    const events = await q.events(item.id)

    expect(events.map(({ kind, agent }) => `${kind} ${agent}`)).toEqual([
      'item.created author',
      'item.updated author',
      'item.claimed worker-1',
      `item.reclaimed ${hf.agent}`,
      'item.claimed worker-2',
      'item.moved worker-2',
      'item.rebased worker-2',
      'item.progressed worker-2',
      'item.failed worker-2',
      'item.retried operator',
      'item.prioritized operator',
      'item.cancelled operator',
      'item.resubmitted author',
      'item.removed operator',
    ])
    expect(events[4]).toMatchObject({ token: item.token, queue: 'main' })
  })

  test('the version of a thing increases by one with each of its events [Q25] [Q18]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await busyDay(q)

    const byThing = new Map<string, number[]>()
    for (const { subject, id, version } of await readFeed(hf)) {
      const versions = byThing.get(`${subject} ${id}`) ?? []
      byThing.set(`${subject} ${id}`, version === null ? versions : [...versions, version])
    }

    for (const versions of byThing.values())
      expect(versions).toEqual(versions.map((_, index) => (versions[0] ?? 0) + index))
    expect(byThing.size).toBeGreaterThan(4)
  })

  test('event numbers only increase, and a reader that continues sees no gaps [Q25]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await busyDay(q)
    const all = await readFeed(hf)
    const middle = all[Math.floor(all.length / 2)] as Event

    const rest = await readFeed(hf, middle.seq)

    const numbers = all.map(({ seq }) => seq)
    expect(numbers).toEqual(numbers.toSorted((left, right) => left - right))
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(rest).toEqual(all.slice(Math.floor(all.length / 2) + 1))
  })

  test('replaying the feed rebuilds every item except its renewal times [Q25] [X2]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await busyDay(q)

    const replica: Replica = new Map()
    for (const event of await readFeed(hf)) replay(replica, event as Parameters<typeof replay>[1])

    const { items } = await q.list({ limit: 500 })
    const rebuilt = [...replica.entries()].filter(([key]) => key.startsWith('item:'))
    expect(rebuilt).toHaveLength(items.length)
    for (const item of items) {
      const { payload, result, lease, ...fields } = item
      const row = replica.get(`item:${item.id}`)
      expect(JSON.parse(String(row?.payload))).toEqual(payload)
      for (const field of ['state', 'phase', 'priority', 'version', 'token', 'attempts', 'failures'] as const)
        expect(row?.[field]).toEqual(fields[field])
      expect(row?.agent ?? null).toBe(lease?.agent ?? null)
    }
    expect(renewalFields.has('expiresAt')).toBe(true)
  })

  test('a change that was refused leaves no event [X2]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null, { key: 'k' })
    const before = await readFeed(hf)

    await refusalCode(() => q.add(null, { key: 'k' }))
    await refusalCode(() => q.complete('k'))
    await refusalCode(() => q.retry('k'))

    expect(await readFeed(hf)).toEqual(before)
  })

  test('a change that the store could not write leaves no event, and no event is left without its change [X2]', async () => {
    const { hf, store } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null, { key: 'k' })
    const before = await q.events('k')
    const mend = await store.damage.failItems()

    await refusalCode(() => q.cancel('k'))
    await mend()

    expect(await q.events('k')).toEqual(before)
  })

  test('moving to the current state changes nothing: no event, no version [Q2] [E-17]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null, { key: 'k' })
    await q.next({ agent: 'worker-1' })
    const before = await q.get('k')

    const moved = await q.move('k', 'running', { agent: 'worker-1' })

    expect(moved).toEqual(before)
    expect(await q.events('k')).toHaveLength(2)
  })

  test('events outlive clean-up and removal of their item [Q25] [Q26] [X2]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const removed = (await q.add(null)).item.id
    const cleaned = (await q.add(null)).item.id
    await q.remove(removed)
    await q.cancel(cleaned)
    await q.cleanup({ maxAgeMs: 0 })

    expect((await q.events(removed)).map(({ kind }) => kind)).toEqual(['item.created', 'item.removed'])
    expect((await q.events(cleaned)).map(({ kind }) => kind)).toEqual([
      'item.created',
      'item.cancelled',
      'item.removed',
    ])
  })

  test('the newest few events of an item come oldest first, and asking for 0 returns none [Q25]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null, { key: 'k' })
    for (let priority = 6; priority <= 9; priority++) await q.setPriority('k', priority)

    const all = await q.events('k')

    expect(await q.events('k', { limit: 2 })).toEqual(all.slice(-2))
    expect(await q.events('k', { limit: 100 })).toEqual(all)
    expect(await q.events('k', { limit: 0 })).toEqual([])
  })

  test('all events of an item can be read, however many there are [Q25]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null)
    await Promise.all(Array.from({ length: 1_050 }, (_, number) => q.setPriority(item.id, number % 2)))

    const events = await q.events(item.id)

    expect(events).toHaveLength(1_051)
    expect(events.at(-1)).toMatchObject({ version: 1_051, change: { priority: 1 } })
  })

  test('the lock has its events: acquired, extended, released, expired, taken over and refused [Q25]', async () => {
    const { hf, env } = await engine.open({ recovery: false })
    const q = hf.queue('main', { workflow: 'merge' })
    await q.acquireProcessingLock({ agent: 'worker-1', leaseMs: 1_000 })
    await q.extendLock({ agent: 'worker-1', extraMs: 1_000 })
    await q.releaseProcessingLock({ agent: 'worker-1' })
    await q.releaseProcessingLock({ agent: 'worker-1' })
    await q.acquireProcessingLock({ agent: 'worker-1', leaseMs: 1_000 })
    await env.advance(1_001)
    await q.acquireProcessingLock({ agent: 'worker-2', leaseMs: 1_000 })
    await env.advance(1_001)
    await q.detectAndRecoverStale()

    const ofLock = (await readFeed(hf)).filter(({ subject }) => subject === 'lock')

    expect(ofLock.map(({ kind }) => kind)).toEqual([
      'lock.acquired',
      'lock.extended',
      'lock.released',
      'lock.refused',
      'lock.acquired',
      'lock.stolen',
      'lock.expired',
    ])
    expect(new Set(ofLock.map(({ id }) => id)).size).toBe(1)
  })

  describe('the iterator', () => {
    test('waits for more and is woken by a commit of another handle [Q25]', async () => {
      const { hf, env, store } = await engine.open()
      const other = await store.open()
      const end = new AbortController()
      const seen: string[] = []
      const reading = (async () => {
        for await (const { kind } of hf.events({ signal: end.signal }))
          if (kind === 'item.created') seen.push(kind)
      })()
      await env.advance(100)
      const before = seen.length

      await other.queue('jobs').add(null)
      await env.advance(1_000)
      end.abort()
      await reading

      expect([before, seen.length]).toEqual([0, 1])
    })

    test('ends when its signal fires, before or while it waits [Q25]', async () => {
      const { hf, env } = await engine.open()
      const fired: Event[] = []
      for await (const event of hf.events({ signal: AbortSignal.abort() })) fired.push(event)
      const end = new AbortController()
      let isOver = false
      const reading = (async () => {
        for await (const _event of hf.events({ signal: end.signal }));
        isOver = true
      })()
      await env.advance(10)

      end.abort()
      await reading

      expect([fired, isOver]).toEqual([[], true])
    })

    test('ends when its store closes [Q25]', async () => {
      const { hf, env } = await engine.open()
      let isOver = false
      const reading = (async () => {
        for await (const _event of hf.events());
        isOver = true
      })()
      await env.advance(10)

      await hf.close()
      await env.advance(1_000)

      expect(isOver).toBe(true)
      await reading
    })

    test('yields only what it asked for, in order [S6-26]', async () => {
      const { hf } = await engine.open()
      const jobs = hf.queue('jobs')
      const others = hf.queue('others')
      await busyDay(others)
      const { item } = await jobs.add(1)
      await jobs.add(2)
      await jobs.pause()
      await jobs.cancel(item.id)
      await hf.state('key').set(1)
      const all = await readFeed(hf)
      const seqs = (events: Event[]) => events.map(({ seq }) => seq)
      const read = async (options: EventOptions) => {
        const expected = all.filter((event) => isAskedFor(event, options))
        const found: Event[] = []
        for await (const event of hf.events(options)) {
          found.push(event)
          if (found.length === expected.length) break
        }
        expect(seqs(found)).toEqual(seqs(expected))
        return found
      }

      expect(await read({ subject: 'item', id: item.id })).toHaveLength(2)
      expect(await read({ kinds: ['item.cancelled', 'queue.paused'] })).toHaveLength(3)
      expect(await read({ queue: 'jobs' })).toHaveLength(5)
      expect(await read({ subject: 'state' })).toHaveLength(1)
      expect(await read({ queue: 'jobs', kinds: ['item.created'], since: all[3]?.seq ?? 0 })).toHaveLength(2)
    })

    test.each([
      [{ subject: 'itm' }, '"item"'],
      [{ kinds: ['item.finished'] }, 'item.'],
      [{ kinds: 'item.failed' }, 'array'],
      [{ queue: '' }, 'queue'],
      [{ id: 'x' }, 'subject'],
      [{ kind: ['item.failed'] }, 'kinds'],
    ])('refuses a filter that nothing could match: %o [S6-26]', async (options, hint) => {
      const { hf } = await engine.open()

      const refused = await refusal(() => hf.events(options as EventOptions).next())

      expect(refused.code).toBe('INVALID')
      expect(refused.message).toContain(hint)
    })

    test('reads past a page without losing or repeating an event [Q25]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.addMany(Array.from({ length: 1_000 }, () => ({ payload: null })))
      await q.addMany(Array.from({ length: 234 }, () => ({ payload: null })))

      const created: string[] = []
      for await (const { kind, id } of hf.events()) {
        if (kind === 'item.created') created.push(id)
        if (created.length === 1_234) break
      }

      expect(new Set(created).size).toBe(1_234)
    })
  })
})

/** The same rule, in other words. */
function isAskedFor(event: Event, options: EventOptions): boolean {
  const { since = 0, subject = event.subject, id = event.id, kinds = [event.kind], queue } = options
  const queueOf = event.subject === 'queue' ? event.id : event.queue
  return (
    event.seq > since &&
    event.subject === subject &&
    event.id === id &&
    kinds.includes(event.kind) &&
    queueOf === (queue ?? queueOf)
  )
}

/** A bit of everything, so that the feed has something to tell. */
async function busyDay(q: Queue): Promise<void> {
  await q.addMany(Array.from({ length: 8 }, (_, number) => ({ payload: { number }, priority: number })))
  const claims = [1, 2, 3, 4, 5].map((worker) => claimed(q.next({ agent: `worker-${worker}` })))
  const [one, two, three, four] = await Promise.all(claims)
  await q.complete(one?.item.id ?? '', { agent: 'worker-1', result: { ok: true } })
  await q.fail(two?.item.id ?? '', 'no', { agent: 'worker-2', retryable: false })
  await q.release(three?.item.id ?? '', { agent: 'worker-3' })
  await q.fail(four?.item.id ?? '', 'again', { agent: 'worker-4' })
  await q.retry(two?.item.id ?? '')
  await q.setPriority(two?.item.id ?? '', 9)
  await q.pause()
  await q.resume()
  await q.acquireProcessingLock({ agent: 'worker-1' })
  await q.remove(one?.item.id ?? '')
}
