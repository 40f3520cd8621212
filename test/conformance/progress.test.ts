/** Progress of a run under its lock: counted by its holder, paused by anybody, resumed with the rest. */
import type { Holdfast, OpenOptions } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { beginToRetain, dayMs, hourMs, retain, retainFor } from '../support/retention.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('counts, cursor, rate and remaining time are those of the run [L6]', async () => {
    const { hf, env } = await begun(engine, { total: 10 })
    await env.advance(5_000)

    const { progress, isLast } = await hf.runs.record('c1', {
      done: 3,
      failed: 1,
      skipped: 1,
      cursor: { page: 2 },
    })

    expect(isLast).toBe(false)
    expect(progress).toMatchObject({
      run: 'c1',
      lock: 'global',
      status: 'running',
      total: 10,
      done: 3,
      failed: 1,
      skipped: 1,
      processed: 5,
      remaining: 5,
      cursor: { page: 2 },
      ratePerSecond: 1,
      etaMs: 5_000,
    })
    expect(await hf.runs.get('c1')).toEqual(progress)
    expect((await hf.locks.getCurrentLockInfo()).progress).toEqual(progress)
  })

  test('is completed by the record that reaches the total, and only that record says so [L7] [P5]', async () => {
    const { hf } = await begun(engine, { total: 3 })

    const answers = await Promise.all(
      (['done', 'failed', 'skipped'] as const).map((what) => hf.runs.record('c1', { [what]: 1 })),
    )

    expect(answers.filter(({ isLast }) => isLast)).toHaveLength(1)
    expect(await hf.runs.get('c1')).toMatchObject({
      status: 'completed',
      processed: 3,
      remaining: 0,
    })
  })

  test('raised by many at once loses no increment [L8] [P5]', async () => {
    const { hf } = await begun(engine, { total: 1_000 })

    await Promise.all(Array.from({ length: 100 }, () => hf.runs.record('c1', { done: 2 })))

    expect(await hf.runs.get('c1')).toMatchObject({ done: 200, version: 101 })
  })

  test('a late runner is refused and does not change its successor’s run [L8] [P1] [P5]', async () => {
    const { hf, env } = await engine.open({ recovery: false, background: false })
    const late = await take(hf, 'global', { agent: 'old', run: 'c1', leaseMs: 1_000 })
    const { token } = late.lock.lease
    await hf.runs.start('c1', { agent: 'old', total: 10 })
    await env.advance(1_001)
    await take(hf, 'global', { agent: 'new', run: 'c1' })
    await hf.runs.resume('c1', { agent: 'new' })
    const before = await hf.runs.get('c1')

    const codes = [
      await refusalCode(() => hf.runs.record('c1', { agent: 'old', token, done: 1 })),
      await refusalCode(() => hf.runs.fail('c1', { agent: 'old', token, reason: 'x' })),
      await refusalCode(() => hf.runs.pause('c1', { agent: 'old', token })),
      await refusalCode(() => hf.runs.resume('c1', { agent: 'old', token })),
    ]

    expect(codes).toEqual(['LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST'])
    expect(await hf.runs.get('c1')).toEqual(before)
    expect(await hf.runs.shouldStop('c1', { token })).toMatchObject({ stop: true })
  })

  test('a pause stays in force whatever its runner still reports; finished items count [L8] [P5]', async () => {
    const { hf, store } = await begun(engine, { total: 3 })
    const operator = await store.open({ agent: 'olga' })

    await operator.runs.pause('c1', { reason: 'lunch' })
    await hf.runs.record('c1', { done: 3 })

    expect(await hf.runs.get('c1')).toMatchObject({
      status: 'paused',
      pauseReason: 'lunch',
      done: 3,
    })
    expect(await hf.runs.shouldStop('c1')).toMatchObject({ stop: true, reason: 'lunch' })
    expect(await operator.runs.pause('c1')).toMatchObject({
      status: 'paused',
      pauseReason: 'lunch',
    })
  })

  test('a resume keeps the counts, and may have more items than before [L11]', async () => {
    const { hf } = await begun(engine, { total: 3 })
    await hf.runs.record('c1', { done: 2 })
    await hf.locks.releaseLock('global')
    const { lock } = await take(hf, 'global', { run: 'c1' })

    const resumed = await hf.runs.resume('c1', { total: 5 })

    expect(resumed).toMatchObject({
      status: 'running',
      done: 2,
      total: 5,
      token: lock.lease.token,
      pauseReason: null,
    })
  })

  test('a run fails with a reason and can be resumed; a completed one is reopened by an explicit call [L7]', async () => {
    const { hf } = await begun(engine, { total: 2 })

    const failed = await hf.runs.fail('c1', { reason: 'no model' })
    await hf.runs.resume('c1')
    await hf.runs.record('c1', { done: 2 })
    const again = await refusalCode(() => hf.runs.resume('c1'))
    const reopened = await hf.runs.reopen('c1', { total: 4 })

    expect(failed).toMatchObject({ status: 'failed', pauseReason: 'no model' })
    expect(again).toBe('ILLEGAL_MOVE')
    expect(reopened).toMatchObject({ status: 'paused', total: 4, done: 2, endedAt: null })
    expect(await hf.runs.resume('c1')).toMatchObject({ status: 'running', remaining: 2 })
  })

  test('is not taken from a holder whose lock is live, even under another lock [L8]', async () => {
    const { hf } = await begun(engine, { total: 2 })
    await take(hf, 'second', { run: 'c1' })

    expect(await refusalCode(() => hf.runs.resume('c1', { lock: 'second' }))).toBe('HELD')
  })

  test('item outcomes count once per key, and can be read [L13]', async () => {
    const { hf } = await begun(engine, { total: 3 })
    await hf.runs.record('c1', {
      outcomes: [
        { key: 'a', outcome: 'done' },
        { key: 'b', outcome: 'failed', error: 'no luck' },
      ],
    })
    await hf.runs.record('c1', { outcomes: [{ key: 'a', outcome: 'done' }] })
    const before = await hf.runs.get('c1')
    await hf.runs.record('c1', { outcomes: [{ key: 'b', outcome: 'done' }] })

    expect(before).toMatchObject({ done: 1, failed: 1 })
    expect(await hf.runs.get('c1')).toMatchObject({ done: 2, failed: 0, processed: 2 })
    expect(await hf.runs.remaining('c1', ['a', 'b', 'c'])).toEqual(['c'])
    const { outcomes } = await hf.runs.outcomes('c1')
    expect(outcomes.map(({ key, outcome }) => [key, outcome])).toEqual([
      ['a', 'done'],
      ['b', 'done'],
    ])
  })

  test('runs are listed by status, and a finished one is removed with its items on request', async () => {
    const { hf } = await begun(engine, { total: 600 })
    await take(hf, 'second', { run: 'c2' })
    await hf.runs.start('c2', { lock: 'second' })
    const outcomes = Array.from({ length: 300 }, (_, number) => ({
      key: `k${number}`,
      outcome: 'done' as const,
    }))
    await hf.runs.record('c1', { outcomes })
    await hf.runs.record('c1', {
      outcomes: outcomes.map(({ key, outcome }) => ({ key: `x${key}`, outcome })),
    })

    const running = await hf.runs.list({ status: 'running' })
    const refused = await refusalCode(() => hf.runs.remove('c2'))
    const removed = [await hf.runs.remove('c1'), await hf.runs.remove('c1')]

    expect(running.runs.map(({ run }) => run)).toEqual(['c2'])
    expect(refused).toBe('INVALID')
    expect(removed).toEqual([true, false])
    expect((await hf.runs.outcomes('c1')).outcomes).toEqual([])
  })

  test('a completed run is kept as long as events are, and its items as long as finished items [S5c-40]', async () => {
    const { hf, env, store } = await begun(engine, { total: 2 }, { background: false })
    await hf.runs.record('c1', {
      outcomes: [{ key: 'a', outcome: 'done' }],
      skipped: 1,
      cursor: 'a',
    })
    const outcomes = async () => (await hf.runs.outcomes('c1')).outcomes.length

    await env.advance(7 * dayMs - 2 * hourMs)
    await retainFor(2, { hf, env })
    const within = [await hf.runs.get('c1'), await outcomes()]
    await retainFor(2, { hf, env })
    const trimmed = [await hf.runs.get('c1'), await outcomes()]
    await env.advance(83 * dayMs)
    await retainFor(2, { hf, env })

    expect(within).toMatchObject([{ status: 'completed', outcomesRemovedAt: null, cursor: 'a' }, 1])
    expect(trimmed).toMatchObject([{ status: 'completed', done: 1, skipped: 1, cursor: null }, 0])
    expect(trimmed).toMatchObject([{ outcomesRemovedAt: expect.any(Number) }, 0])
    expect(await hf.runs.get('c1')).toBeNull()
    expect(
      [...(await store.readTables()).keys()].filter((key) => /^(?:outcome|progress):/.test(key)),
    ).toEqual([])
  })

  test('an open process removes the items of a run after the item period, and the run after the event period [S5c-40]', async () => {
    const retention = { itemsMs: hourMs / 2, eventsMs: (hourMs * 3) / 4 }
    const { hf, env } = await begun(engine, { total: 1 }, { recovery: false, retention })
    await hf.runs.record('c1', { outcomes: [{ key: 'a', outcome: 'done' }] })
    const later = async (ms: number) => {
      env.suspend(ms)
      await env.advance(4 * 60_000)
      return hf.runs.get('c1')
    }

    const trimmed = await later(hourMs / 2)
    const gone = await later(hourMs / 4)

    expect(trimmed).toMatchObject({ status: 'completed', outcomesRemovedAt: expect.any(Number) })
    expect(gone).toBeNull()
  })

  test('a run whose items were removed is neither reopened nor started again [S5c-40]', async () => {
    const { hf, env } = await begun(engine, { total: 1 }, { background: false })
    await hf.runs.record('c1', { outcomes: [{ key: 'a', outcome: 'done' }] })
    await env.advance(7 * dayMs)
    await retainFor(2, { hf, env })

    const reopened = await refusal(() => hf.runs.reopen('c1', { total: 2 }))

    expect(reopened).toMatchObject({ code: 'ILLEGAL_MOVE', next: expect.stringContaining('another name') })
    expect(await hf.runs.remaining('c1', ['a', 'b'])).toEqual([])
  })

  test('a run whose items are being removed is never repeated [S5c-40]', async () => {
    const keys = Array.from({ length: 450 }, (_, number) => `k${number}`)
    const { hf, env, store } = await begun(engine, { total: keys.length }, { background: false })
    for (const some of [keys.slice(0, 225), keys.slice(225)])
      await hf.runs.record('c1', { outcomes: some.map((key) => ({ key, outcome: 'done' })) })
    await hf.locks.releaseLock('global')
    await env.advance(7 * dayMs - 2 * hourMs)
    await retainFor(2, { hf, env })
    await env.advance(hourMs)

    await beginToRetain(hf)
    const left = (await store.countRows()).outcome ?? 0
    const runner = await store.open({ agent: 'ada', recovery: false })
    const again = await runner.locks.runBatch('c1', keys, () => expect.fail('it worked'), { gapMs: 0 })
    const reopened = await refusalCode(() => hf.runs.reopen('c1'))
    await retain(hf)

    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThan(keys.length)
    expect(again).toMatchObject({ outcome: 'completed', progress: { done: keys.length, failed: 0 } })
    expect(reopened).toBe('ILLEGAL_MOVE')
    expect(await store.countRows()).toMatchObject({ outcome: 0, run: 1 })
  })

  test('shouldStop is true if the answer is unknown [L12] [P5]', async () => {
    const { hf, store } = await begun(engine, { total: 2 })
    const fine = await hf.runs.shouldStop('c1')
    const other = await store.open({ agent: 'other' })
    await other.close()

    const unknown = await other.runs.shouldStop('c1', { token: 1 })

    expect(fine).toEqual({ stop: false, reason: null })
    expect(unknown).toMatchObject({ stop: true, error: { code: 'STORE_UNAVAILABLE' } })
    expect(await hf.runs.shouldStop('nothing')).toMatchObject({ stop: true })
  })

  describe('misuse of progress', () => {
    test.each([
      ['INVALID', 'a lock held for no run', (hf: Holdfast) => hf.runs.start('c9', { lock: 'plain' })],
      [
        'LEASE_LOST',
        'a lock that nobody holds',
        (hf: Holdfast) => hf.runs.start('c9', { lock: 'none', token: 1 }),
      ],
      ['ILLEGAL_MOVE', 'a run that is known', (hf: Holdfast) => hf.runs.start('c1', { total: 1 })],
      ['ILLEGAL_MOVE', 'resuming what runs', (hf: Holdfast) => hf.runs.resume('c1')],
      ['ILLEGAL_MOVE', 'reopening what runs', (hf: Holdfast) => hf.runs.reopen('c1', { total: 1 })],
      ['NOT_FOUND', 'recording for no run', (hf: Holdfast) => hf.runs.record('c9', { done: 1, token: 1 })],
      ['NOT_FOUND', 'pausing no run', (hf: Holdfast) => hf.runs.pause('c9')],
      ['NOT_FOUND', 'the rest of no run', (hf: Holdfast) => hf.runs.remaining('c9', ['a'])],
      ['INVALID', 'a negative count', (hf: Holdfast) => hf.runs.record('c1', { done: -1 })],
      ['INVALID', 'half an item', (hf: Holdfast) => hf.runs.record('c1', { done: 0.5 })],
      ['INVALID', 'an unknown option', (hf: Holdfast) => hf.runs.record('c1', { dun: 1 } as object)],
      [
        'INVALID',
        'a hostile key',
        (hf: Holdfast) => hf.runs.record('c1', { outcomes: [{ key: 'a|b', outcome: 'done' }] }),
      ],
      [
        'INVALID',
        'an unknown outcome',
        (hf: Holdfast) => hf.runs.record('c1', { outcomes: [{ key: 'a', outcome: 'maybe' as 'done' }] }),
      ],
      ['INVALID', 'a run with a bar', (hf: Holdfast) => hf.runs.get('a|b')],
      ['INVALID', 'a cursor that is no JSON', (hf: Holdfast) => hf.runs.record('c1', { cursor: 1n })],
      [
        'INVALID',
        'too many keys',
        (hf: Holdfast) =>
          hf.runs.remaining(
            'c1',
            Array.from({ length: 501 }, () => 'a'),
          ),
      ],
      [
        'INVALID',
        'a failure without a reason',
        (hf: Holdfast) => hf.runs.fail('c1', {} as { reason: string }),
      ],
    ])('%s: %s is refused', async (code, _, call) => {
      const { hf } = await begun(engine, { total: 2 })
      await take(hf, 'plain')
      const before = await hf.runs.get('c1')

      expect(await refusalCode(() => call(hf))).toBe(code)
      expect(await hf.runs.get('c1')).toEqual(before)
    })
  })
})

/** A run of ada's under the lock `global`. */
async function begun(engine: Engine, options: { total: number }, more: OpenOptions = {}) {
  const opened = await engine.open({ agent: 'ada', ...more })
  await take(opened.hf, 'global', { run: 'c1' })
  await opened.hf.runs.start('c1', options)
  return opened
}
