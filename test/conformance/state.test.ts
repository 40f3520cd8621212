/** Versioned documents: no write overwrites another unseen. */
import { type Holdfast, type State, VersionMismatchError } from 'holdfast'
import { type Replica, renewalFields, replay } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { present, refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, rareProbes, type Store } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a document', () => {
    test('is null before it is saved, then has value, version, time and author', async () => {
      const { hf, env } = await engine.open()
      const plan = hf.state('plan')

      const before = await plan.get()
      const saved = await plan.set({ goal: 'ship' }, { agent: 'ada' })

      expect(before).toBeNull()
      expect(saved).toEqual({ version: 1, updatedAt: env.now(), updatedBy: 'ada' })
      expect(await plan.get()).toEqual({ value: { goal: 'ship' }, ...saved })
    })

    test('saved without an expected version overwrites the present one and still adds 1', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const plan = hf.state('plan')

      const versions = [await plan.set('one'), await plan.set('two'), await plan.set('two')]

      expect(versions.map(({ version }) => version)).toEqual([1, 2, 3])
      expect(await plan.get()).toMatchObject({ value: 'two', version: 3, updatedBy: 'ada' })
    })

    test.each([
      null,
      false,
      0,
      -0.5,
      '',
      '{}',
      'ünïcödé 🦑 \u0000',
      [],
      {},
      [[], [{}]],
      { deep: { er: [1, null] } },
    ])('stores %j unchanged', async (value) => {
      const { hf } = await engine.open()

      await hf.state('any').set(value)
      await hf.state('any').set(value)

      expect((await hf.state('any').get())?.value).toEqual(value)
      expect((await hf.state('any').history()).entries.map((entry) => entry.value)).toEqual([value, value])
    })

    test('is a different one in another namespace', async () => {
      const { hf, store } = await engine.open({ namespace: 'left' })
      const other = await store.open({ namespace: 'right' })
      await hf.state('plan').set('left')
      await hf.state('plan').set('left again')
      await hf.state('gone').set(1)
      await hf.state('gone').delete()

      const saved = await other.state('plan').set('right', { expectedVersion: 0 })

      expect(saved.version).toBe(1)
      expect((await hf.state('plan').get())?.value).toBe('left again')
      expect((await other.state.list()).states.map(({ key }) => key)).toEqual(['plan'])
      expect((await other.state('plan').history()).entries).toHaveLength(1)
      expect(await other.state('gone').history()).toEqual({ entries: [], next: null })
    })
  })

  describe('an expected version', () => {
    test('that matches saves; any other is refused, and changes and records nothing [X4]', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan')
      await plan.set('one', { expectedVersion: 0 })
      const before = { entry: await plan.get(), feed: await readFeed(hf) }

      const refused = await refusal(() => plan.set('two', { expectedVersion: 2 }))
      const unmade = await refusal(() => plan.set('two', { expectedVersion: 0 }))
      const after = { entry: await plan.get(), feed: await readFeed(hf) }

      expect(refused).toBeInstanceOf(VersionMismatchError)
      expect(refused).toMatchObject({
        code: 'VERSION_MISMATCH',
        facts: { subject: 'state plan', expected: 2, current: 1 },
      })
      expect(unmade).toMatchObject({ code: 'VERSION_MISMATCH', facts: { expected: 0, current: 1 } })
      expect(after).toEqual(before)
      expect(await plan.set('two', { expectedVersion: 1 })).toMatchObject({ version: 2 })
    })

    test('of a missing document can only be 0', async () => {
      const { hf } = await engine.open()

      const refused = await refusal(() => hf.state('plan').set('two', { expectedVersion: 3 }))

      expect(refused).toMatchObject({ code: 'VERSION_MISMATCH', facts: { expected: 3, current: 0 } })
    })

    test('given by twenty writers at once saves one of them', async () => {
      const { hf, store } = await engine.openInRealTime({ background: false })
      const other = await store.open({ background: false })
      await hf.state('plan').set('begun')

      const writers = Array.from({ length: 20 }, (_, number) =>
        (number % 2 ? hf : other).state('plan').set(number, { expectedVersion: 1 }),
      )
      const outcomes = await Promise.allSettled(writers)

      const won = outcomes.flatMap(({ status }, number) => (status === 'fulfilled' ? [number] : []))
      expect(won).toHaveLength(1)
      expect(await hf.state('plan').get()).toMatchObject({ value: won[0], version: 2 })
    })
  })

  describe('an update', () => {
    test('computes the new value from the current one, or from null and 0, and returns what it saved', async () => {
      const { hf } = await engine.open()
      const count = hf.state<number>('count')
      const given: unknown[] = []
      const add = (value: number | null, version: number) => {
        given.push([value, version])
        return (value ?? 0) + 10
      }

      const updates = [await count.update(add), await count.update(add, { agent: 'bob' })]

      expect(given).toEqual([
        [null, 0],
        [10, 1],
      ])
      expect(updates).toEqual([
        { outcome: 'saved', value: 10, version: 1, attempts: 1 },
        { outcome: 'saved', value: 20, version: 2, attempts: 1 },
      ])
      expect(await count.get()).toMatchObject({ value: 20, version: 2, updatedBy: 'bob' })
    })

    test('that returns undefined leaves the document as it is: no version, no event', async () => {
      const { hf } = await engine.open()
      const plan = hf.state<{ steps: string[] }>('plan')
      await plan.set({ steps: ['one'] })
      const feed = await readFeed(hf)

      const update = await plan.update((value) => {
        value?.steps.push('forgotten')
        return undefined
      })
      const none = await hf.state('none').update(() => undefined)

      expect(update).toMatchObject({ outcome: 'unchanged', version: 1, attempts: 1 })
      expect(none).toEqual({ outcome: 'unchanged', value: null, version: 0, attempts: 1 })
      expect((await plan.get())?.value).toEqual({ steps: ['one'] })
      expect(await readFeed(hf)).toEqual(feed)
    })

    test('reads again when another write came first, and loses neither change [A10]', async () => {
      const { logger, lines } = collectLogs()
      const { hf, store } = await engine.open({ logger, recovery: { onOpen: false } })
      const other = await store.open()
      const list = hf.state<string[]>('list')
      await list.set(['a'])
      const seen: unknown[] = []

      const update = await list.update(async (value, version) => {
        seen.push(version)
        if (seen.length === 1)
          await other.state<string[]>('list').update((theirs) => [...(theirs ?? []), 'b'])
        return [...(value ?? []), 'c']
      })

      expect(seen).toEqual([1, 2])
      expect(update).toEqual({ outcome: 'saved', value: ['a', 'b', 'c'], version: 3, attempts: 2 })
      expect(lines).toEqual([
        { level: 'debug', name: 'state.saved', facts: { key: 'list', version: 1 } },
        { level: 'info', name: 'state.conflict', facts: { key: 'list', attempt: 1 } },
        { level: 'debug', name: 'state.saved', facts: { key: 'list', version: 3 } },
      ])
    })

    test('survives four conflicts, and fails at the fifth with an explanation, with nothing saved [A10]', async () => {
      const { logger, named } = collectLogs()
      const { hf } = await engine.openInRealTime({ logger, background: false })
      const calls = { lucky: 0, unlucky: 0 }
      const interfering = (who: 'lucky' | 'unlucky', times: number) =>
        hf.state(who).update(async () => {
          if (calls[who]++ < times) await hf.state(who).set('in the way')
          return 'mine'
        })

      const update = await interfering('lucky', 4)
      const refused = await refusal(() => interfering('unlucky', Number.POSITIVE_INFINITY))

      expect(update).toMatchObject({ outcome: 'saved', version: 5, attempts: 5 })
      expect(refused).toBeInstanceOf(VersionMismatchError)
      expect(refused).toMatchObject({
        code: 'VERSION_MISMATCH',
        facts: { subject: 'state unlucky', expected: 4, current: 5, attempts: 5 },
      })
      expect(calls).toEqual({ lucky: 5, unlucky: 5 })
      expect(await hf.state('unlucky').get()).toMatchObject({ value: 'in the way', version: 5 })
      expect(named('state.gave_up')).toEqual([
        { level: 'warn', name: 'state.gave_up', facts: { key: 'unlucky', attempts: 5 } },
      ])
    })

    test('[S5-7] that lost twice goes first: other updates hold back until it has saved, a plain write does not', async () => {
      const { hf, env } = await engine.open({ background: false })
      const plan = hf.state<string[]>('plan')
      await plan.set([])
      let enter = () => {}
      const entered = new Promise<void>((resolve) => (enter = resolve))
      let finish = () => {}
      const finished = new Promise<void>((resolve) => (finish = resolve))
      let attempt = 0

      const loser = plan.update(async (names) => {
        attempt++
        if (attempt <= 2) await plan.set([...(names ?? []), `plain ${attempt}`])
        else {
          enter()
          await finished
        }
        return [...(names ?? []), 'loser']
      })
      for (let waited = 0; attempt < 3 && waited < 100; waited++) await env.advance(10)
      await entered
      const other = plan.update((names) => [...(names ?? []), 'other'])
      await env.advance(500)
      const meanwhile = await plan.get()
      finish()
      const saved = await loser
      await env.advance(1_000)

      expect(meanwhile?.value).toEqual(['plain 1', 'plain 2'])
      expect(saved).toMatchObject({ outcome: 'saved', attempts: 3 })
      expect(await other).toMatchObject({ outcome: 'saved', attempts: 1 })
      expect((await plan.get())?.value).toEqual(['plain 1', 'plain 2', 'loser', 'other'])
    })

    test('[S5-7] that goes first and never comes back delays others by two seconds at most', async () => {
      const { hf, env, store } = await engine.open({ background: false })
      const plan = hf.state<string>('plan')
      await plan.set('old')
      let attempt = 0
      let enter = () => {}
      const entered = new Promise<void>((resolve) => (enter = resolve))
      void plan.update(async () => {
        attempt++
        if (attempt <= 2) await plan.set(`plain ${attempt}`)
        else {
          enter()
          await new Promise(() => {})
        }
        return 'never'
      })
      for (let waited = 0; attempt < 3 && waited < 100; waited++) await env.advance(10)
      await entered

      const other = (await store.open({ background: false })).state('plan').update(() => 'other')
      await env.advance(2_001)

      expect(await other).toMatchObject({ outcome: 'saved', attempts: 1 })
    })

    test('[S5-7] that goes first and saves nothing lets others continue at once', async () => {
      const { hf, env } = await engine.open({ background: false })
      const plan = hf.state<string>('plan')
      await plan.set('old')
      const losing = (end: () => string | undefined) => {
        let attempt = 0
        return plan.update(async () => {
          attempt++
          if (attempt > 2) return end()
          await plan.set(`plain ${attempt}`)
          return 'lost'
        })
      }
      const unchanged = losing(() => undefined)
      for (let waited = 0; waited < 10; waited++) await env.advance(10)
      await unchanged
      const thrown = losing(() => {
        throw new Error('no')
      }).catch(String)
      for (let waited = 0; waited < 10; waited++) await env.advance(10)

      const update = await plan.update(() => 'other')

      expect(await thrown).toBe('Error: no')
      expect(update).toMatchObject({ outcome: 'saved', attempts: 1 })
    })

    test.each([1, 3])('may be allowed %i attempts, including the first', async (maxAttempts) => {
      const { hf } = await engine.openInRealTime({ background: false })
      const plan = hf.state('plan')
      let calls = 0

      const refused = await refusal(() =>
        plan.update(
          async () => {
            calls++
            await plan.set('in the way')
            return 'mine'
          },
          { maxAttempts },
        ),
      )

      expect(refused.facts).toMatchObject({ attempts: maxAttempts })
      expect(calls).toBe(maxAttempts)
    })

    test('that throws saves nothing, and passes on even its own conflict', async () => {
      const { hf } = await engine.open()
      await hf.state('plan').set('one')
      let calls = 0

      const failed = hf.state('plan').update(() => {
        throw new Error('no idea')
      })
      const nested = hf.state('plan').update(async () => {
        calls++
        await hf.state('other').set('x', { expectedVersion: 9 })
        return 'two'
      })

      await expect(failed).rejects.toThrow('no idea')
      expect((await refusal(() => nested)).facts).toMatchObject({ subject: 'state other' })
      expect(calls).toBe(1)
      expect(await hf.state('plan').get()).toMatchObject({ value: 'one', version: 1 })
    })

    test('saves nothing once its signal has fired', async () => {
      const { hf } = await engine.open()
      const during = new AbortController()

      const early = hf.state('plan').update(() => 'early', { signal: AbortSignal.abort(new Error('stop')) })
      const late = hf.state('plan').update(
        () => {
          during.abort(new Error('stop'))
          return 'late'
        },
        { signal: during.signal },
      )

      await expect(early).rejects.toThrow('stop')
      await expect(late).rejects.toThrow('stop')
      expect(await hf.state('plan').get()).toBeNull()
    })

    test('is counted once each, even with twenty at once in two processes', async () => {
      const { hf, store } = await engine.openInRealTime({ background: false })
      const other = await store.open({ background: false })
      const add = (value: number | null) => (value ?? 0) + 1

      const updates = await Promise.all(
        Array.from({ length: 20 }, (_, number) =>
          (number % 2 ? hf : other).state<number>('count').update(add, { maxAttempts: 100 }),
        ),
      )

      expect(await hf.state('count').get()).toMatchObject({ value: 20, version: 20 })
      expect(new Set(updates.map(({ version }) => version)).size).toBe(20)
    })
  })

  describe('a deleted document', () => {
    test('is gone, once, and its versions continue if it is created again', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan')
      await plan.set('one')
      const old = await present(plan.get())
      await plan.set('two')

      const deleted = [await plan.delete(), await plan.delete()]
      const gone = await plan.get()
      const made = await plan.set('three', { expectedVersion: 0 })

      expect(deleted).toEqual([true, false])
      expect(gone).toBeNull()
      expect(made.version).toBe(3)
      expect(await refusalCode(() => plan.set('late', { expectedVersion: old.version }))).toBe(
        'VERSION_MISMATCH',
      )
    })

    test('created again never has a version it had before', async () => {
      const { hf } = await engine.open()
      const versions: number[] = []

      for (let round = 0; round < 20; round++) {
        versions.push((await hf.state('plan').set(round)).version)
        versions.push((await hf.state('plan').set(round)).version)
        await hf.state('plan').delete()
      }

      expect(versions).toEqual(Array.from({ length: 40 }, (_, index) => index + 1))
    })

    test('must be at the version its deleter expects', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan')
      await plan.set('one')
      await plan.set('two')

      const refused = await refusal(() => plan.delete({ expectedVersion: 1 }))
      const still = await plan.get()
      const deleted = await plan.delete({ expectedVersion: 2 })
      const late = await refusal(() => plan.delete({ expectedVersion: 2 }))

      expect(refused).toMatchObject({ code: 'VERSION_MISMATCH', facts: { expected: 1, current: 2 } })
      expect(still).toMatchObject({ version: 2 })
      expect(deleted).toBe(true)
      expect(late).toMatchObject({ code: 'VERSION_MISMATCH', facts: { expected: 2, current: 0 } })
    })

    test('is gone whoever deletes other documents at the same time', async () => {
      const options = { background: false }
      const { hf, store } = await engine.openInRealTime(options)
      const handles = [hf, ...(await Promise.all(Array.from({ length: 5 }, () => store.open(options))))]
      const gone: boolean[] = []
      for (let round = 0; round < 8; round++) {
        // Each has had more versions than the one before, so that all raise what later versions begin above.
        for (const place of handles.keys()) {
          const later = Array.from(handles.keys()).slice(place)
          await Promise.all(later.map((each) => hf.state(`doc-${each}`).set(place)))
        }
        gone.push(...(await Promise.all(handles.map((each, place) => each.state(`doc-${place}`).delete()))))
      }

      expect(gone).toEqual(Array(48).fill(true))
    })

    test('leaves no row: creating and deleting a thousand adds no cost', async () => {
      const { hf, store } = await engine.open()
      const keys = Array.from({ length: 1000 }, (_, number) => `temporary/${number}`)

      await Promise.all(keys.map((key) => hf.state(key).set(key)))
      await Promise.all(keys.map((key) => hf.state(key).delete()))

      expect((await documentsIn(store)).size).toBe(0)
      expect((await hf.state.list()).states).toEqual([])
    })
  })

  describe('the history', () => {
    test('has every value with version, time and author, newest first, including deletions', async () => {
      const { hf, env } = await engine.open()
      const plan = hf.state('plan')
      await plan.set('one', { agent: 'ada' })
      await env.advance(1_000)
      await plan.set('one', { agent: 'bob' })
      await plan.delete({ agent: 'cy' })
      await plan.set('two', { agent: 'ada' })

      const { entries, next } = await plan.history()

      expect(entries.map(({ seq, ...entry }) => entry)).toEqual([
        { version: 3, value: 'two', deleted: false, at: env.now(), by: 'ada' },
        { version: 2, value: null, deleted: true, at: env.now(), by: 'cy' },
        { version: 2, value: 'one', deleted: false, at: env.now(), by: 'bob' },
        { version: 1, value: 'one', deleted: false, at: env.now() - 1_000, by: 'ada' },
      ])
      expect(next).toBeNull()
    })

    test('comes in pages that miss nothing and repeat nothing, even while more is saved', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan')
      for (let number = 1; number <= 7; number++) await plan.set(number)

      const first = await plan.history({ limit: 3 })
      await plan.set(8)
      const second = await plan.history({ limit: 3, before: first.next as number })
      const third = await plan.history({ limit: 3, before: second.next as number })

      const values = [first, second, third].map(({ entries }) => entries.map(({ value }) => value))
      expect(values).toEqual([[7, 6, 5], [4, 3, 2], [1]])
      expect(third.next).toBeNull()
    })

    test('is kept as long as events are; the document itself stays, and is rebuilt from images [X2]', async () => {
      const { hf, env, store } = await engine.open({
        retention: { eventsMs: 60_000, everyMs: 10_000 },
        ...rareProbes,
      })
      await hf.state('gone').set('soon')
      await hf.state('gone').delete()
      for (let number = 1; number <= 5; number++) await hf.state('kept').set({ number })
      await hf.queue('jobs').add(null)

      await env.advance(190_000)
      await hf.state('fresh').set('new')

      expect((await hf.state('kept').history()).entries).toEqual([])
      expect(await hf.state('kept').get()).toMatchObject({ value: { number: 5 }, version: 6 })
      expect(await rebuiltDocuments(hf)).toEqual(await documentsIn(store))
      expect(await hf.state('kept').set('six')).toMatchObject({ version: 7 })
      expect(await rebuiltDocuments(hf)).toEqual(await documentsIn(store))
      expect((await hf.state('kept').history()).entries).toMatchObject([{ version: 7, value: 'six' }])
      expect(await hf.state('fresh').get()).toMatchObject({ version: 2 })
    })

    test('replayed from the first event rebuilds every document [X2]', async () => {
      const { hf, store } = await engine.open()
      for (let number = 0; number < 30; number++) {
        await hf.state(`d${number % 4}`).set(number % 3)
        if (number % 7 === 0) await hf.state(`d${number % 4}`).delete()
      }

      expect(await rebuiltDocuments(hf)).toEqual(await documentsIn(store))
      expect((await documentsIn(store)).size).toBeGreaterThan(2)
    })

    test('is in the event feed, with one event per change and none for a refusal [X2]', async () => {
      const { hf } = await engine.open()
      await hf.state('plan').set('one', { agent: 'ada' })
      await refusalCode(() => hf.state('plan').set('two', { expectedVersion: 9, agent: 'bob' }))
      await hf.state('plan').delete({ agent: 'cy' })
      await hf.state('plan').delete({ agent: 'dee' })

      const feed = (await readFeed(hf)).filter(({ subject }) => subject === 'state')

      expect(feed.map(({ kind, id, version, agent }) => [kind, id, version, agent])).toEqual([
        ['state.set', 'plan', 1, 'ada'],
        ['state.deleted', 'plan', null, 'cy'],
      ])
    })
  })

  describe('a watcher', () => {
    test('gets the current value, then what another handle saves and deletes', async () => {
      const { hf, store } = await engine.openInRealTime({ background: false })
      const other = await store.open({ background: false })
      const seen = watching(hf.state('plan'))

      expect(await seen.next()).toBeNull()
      await other.state('plan').set('one')
      expect(await seen.next()).toMatchObject({ value: 'one', version: 1 })
      await other.state('plan').delete()
      expect(await seen.next()).toBeNull()
      await other.state('plan').set('two')
      expect(await seen.next()).toMatchObject({ value: 'two', version: 2 })
      await seen.end()
    })

    test('is woken by the change itself, in its own process and in others, before any poll', async () => {
      const { hf, store } = await engine.open()
      const other = await store.open()
      const here = watching(hf.state('plan'))
      const there = watching(other.state('plan'))
      await Promise.all([here.next(), there.next()])

      // Time stands still: whoever only polled would never see it.
      await hf.state('plan').set('rung')

      expect(await here.next()).toMatchObject({ value: 'rung' })
      expect(await there.next()).toMatchObject({ value: 'rung' })
      await Promise.all([here.end(), there.end()])
    })

    test('may miss a value that was soon replaced, but never the latest, and sees versions only increase', async () => {
      const { hf } = await engine.openInRealTime({ background: false })
      const versions: number[] = []
      const reading = (async () => {
        for await (const entry of hf.state<number>('count').watch()) {
          versions.push(entry?.version ?? 0)
          if (entry?.value === 200) return
        }
      })()

      for (let number = 1; number <= 200; number++) await hf.state('count').set(number)
      await reading

      expect(versions.at(-1)).toBe(200)
      expect(versions).toEqual([...new Set(versions)].sort((left, right) => left - right))
    })

    test('that knows a version begins with the next one, at once if it exists already', async () => {
      const { hf } = await engine.openInRealTime({ background: false })
      const plan = hf.state('plan')
      await plan.set('one')
      const current = watching(plan, { since: 1 })
      const behind = watching(plan, { since: 7 })

      expect(await behind.next()).toMatchObject({ version: 1 })
      await plan.set('two')
      expect(await current.next()).toMatchObject({ value: 'two', version: 2 })
      await Promise.all([current.end(), behind.end()])
    })

    test('of a document that was deleted since gets the deletion, and one that knows of none waits', async () => {
      const { hf } = await engine.openInRealTime({ background: false })
      const plan = hf.state('plan')
      const waiting = watching(plan, { since: 0 })
      await plan.set('one')
      expect(await waiting.next()).toMatchObject({ value: 'one' })
      await plan.delete()

      const told = watching(plan, { since: 1 })

      expect(await told.next()).toBeNull()
      await Promise.all([waiting.end(), told.end()])
    })

    test('ends when its signal fires or the store is closed', async () => {
      const { hf, store } = await engine.openInRealTime()
      const other = await store.open({ background: false })
      const stop = new AbortController()
      const bySignal = other.state('plan').watch({ since: 0, signal: stop.signal }).next()
      const byClosing = hf.state('plan').watch({ since: 0 }).next()

      stop.abort()
      await hf.close()

      expect(await bySignal).toMatchObject({ done: true })
      expect(await byClosing).toMatchObject({ done: true })
    })
  })

  describe('a list of keys', () => {
    test('has those that begin with a prefix, in order, without values', async () => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      for (const key of ['app/b', 'app/a', 'apple', 'app', 'b', 'app/é', 'a%_'.replace(/[%_]/g, '=')])
        await hf.state(key).set(key)

      const keysOf = async (prefix?: string) =>
        (await hf.state.list(prefix === undefined ? {} : { prefix })).states.map(({ key }) => key)

      expect(await keysOf()).toEqual(['a==', 'app', 'app/a', 'app/b', 'app/é', 'apple', 'b'])
      expect(await keysOf('app/')).toEqual(['app/a', 'app/b', 'app/é'])
      expect(await keysOf('app')).toEqual(['app', 'app/a', 'app/b', 'app/é', 'apple'])
      expect(await keysOf('%')).toEqual([])
      expect((await hf.state.list({ prefix: 'b' })).states).toEqual([
        { key: 'b', version: 1, updatedAt: env.now(), updatedBy: 'ada' },
      ])
    })

    test('comes in pages that miss nothing and repeat nothing', async () => {
      const { hf } = await engine.open()
      const keys = Array.from({ length: 25 }, (_, number) => `k${String(number).padStart(2, '0')}`)
      await Promise.all(keys.map((key) => hf.state(key).set(0)))

      const found: string[] = []
      let after: string | null | undefined
      let pages = 0
      while (after !== null) {
        const page = await hf.state.list({ limit: 10, ...(after === undefined ? {} : { after }) })
        found.push(...page.states.map(({ key }) => key))
        after = page.next
        pages++
      }

      expect(found).toEqual(keys)
      expect(pages).toBe(3)
    })
  })

  describe('an idempotency key', () => {
    test('saves once however often it is sent, and refuses a different request', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan')

      const first = await plan.set('one', { idempotencyKey: 'save-1' })
      await plan.set('two')
      const again = await plan.set('one', { idempotencyKey: 'save-1' })
      const other = await refusalCode(() => plan.set('three', { idempotencyKey: 'save-1' }))

      expect(again).toEqual(first)
      expect(other).toBe('IDEMPOTENCY_MISMATCH')
      expect(await plan.get()).toMatchObject({ value: 'two', version: 2 })
    })

    test('makes a repeated guarded write succeed again, although its first try moved the version', async () => {
      const { hf } = await engine.open()
      const options = { expectedVersion: 0, idempotencyKey: 'make-1' }

      const first = await hf.state('plan').set('one', options)
      const again = await hf.state('plan').set('one', options)

      expect(again).toEqual(first)
    })

    test('deletes once, and returns the same again', async () => {
      const { hf } = await engine.open()
      await hf.state('plan').set('one')

      const first = await hf.state('plan').delete({ idempotencyKey: 'gone-1' })
      await hf.state('plan').set('two')
      const again = await hf.state('plan').delete({ idempotencyKey: 'gone-1' })

      expect([first, again]).toEqual([true, true])
      expect(await hf.state('plan').get()).toMatchObject({ value: 'two' })
    })
  })
})

/** A watcher whose values are asked for one by one; waiting for the first begins at once. */
function watching(state: State, options: { since?: number } = {}) {
  const stop = new AbortController()
  const values = state.watch({ ...options, signal: stop.signal })
  let pending = values.next()
  return {
    async next() {
      const { value, done } = await pending
      expect(done).toBe(false)
      pending = values.next()
      return value
    },
    async end() {
      stop.abort()
      await pending
    },
  }
}

/** What a replay makes of the images of removed events and of the events that are kept. */
async function rebuiltDocuments(hf: Holdfast): Promise<Replica> {
  const { images } = (await hf.execute('events.images', { limit: 500 })) as {
    images: { subject: string; id: string; image: Record<string, unknown> }[]
  }
  const replica: Replica = new Map(images.map(({ subject, id, image }) => [`${subject}:${id}`, image]))
  for (const event of await readFeed(hf)) replay(replica, event as Parameters<typeof replay>[1])
  return documentsOf(replica)
}

async function documentsIn(store: Store): Promise<Replica> {
  return documentsOf(await store.readTables())
}

/** Without what no event tells: which update goes first. */
function documentsOf(rows: Replica): Replica {
  const told = (row: object) =>
    Object.fromEntries(Object.entries(row).filter(([field]) => !renewalFields.has(field)))
  return new Map([...rows].flatMap(([key, row]) => (key.startsWith('state:') ? [[key, told(row)]] : [])))
}
