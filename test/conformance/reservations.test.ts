/** Reservations of paths: overlapping patterns keep each other out, unless both share. */
import type { Holdfast, ReservedPaths } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take } from '../support/locks.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('paths are reserved by pattern, and an overlapping request is told by whom [L15]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const other = await store.open({ agent: 'bob' })
    const mine = await reserved(hf.locks.reserve(['src/**', 'docs/*.md'], { reason: 'rename' }))

    const overlapping = await other.locks.reserve('src/a/b.ts')
    const apart = await other.locks.reserve('test/**')

    expect(mine.lock).toMatchObject({ patterns: ['src/**', 'docs/*.md'], mode: 'exclusive', holder: 'ada' })
    expect(overlapping).toMatchObject({
      outcome: 'held',
      holder: 'ada',
      expiresAt: mine.lock.lease.expiresAt,
      by: [{ name: mine.lock.name, reason: 'rename' }],
    })
    expect(apart).toMatchObject({ outcome: 'acquired' })
  })

  test('overlap works both ways: a wide pattern conflicts with an earlier narrow one [L15]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const other = await store.open({ agent: 'bob' })
    await hf.locks.reserve('src/deep/in/a.ts')

    expect(await other.locks.reserve('src/**')).toMatchObject({ outcome: 'held', holder: 'ada' })
    expect(await other.locks.reserve('src/*/in/?.ts')).toMatchObject({ outcome: 'held' })
    expect(await other.locks.reserve('src/*.ts')).toMatchObject({ outcome: 'acquired' })
  })

  test('shared reservations coexist and keep exclusive ones out [L15]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const [bob, cy] = [await store.open({ agent: 'bob' }), await store.open({ agent: 'cy' })]
    await hf.locks.reserve('src/**', { mode: 'shared' })

    expect(await bob.locks.reserve('src/a.ts', { mode: 'shared' })).toMatchObject({ outcome: 'acquired' })
    expect(await cy.locks.reserve('src/a.ts')).toMatchObject({ outcome: 'held' })
  })

  test('all patterns are reserved or none [L15]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const other = await store.open({ agent: 'bob' })
    await hf.locks.reserve('src/**')

    await other.locks.reserve(['test/**', 'src/a.ts'])

    expect(await hf.locks.whoHas('test/a.ts')).toEqual([])
  })

  test('whoHas finds a path by reservation and by lock, and ignores lapsed ones [L15] [X3]', async () => {
    const { hf, env } = await engine.open({ background: false, recovery: false })
    await hf.locks.reserve('src/**', { agent: 'ada', leaseMs: 1_000 })
    await take(hf, 'file:src/a.ts', { agent: 'cy' })

    const before = (await hf.locks.whoHas('src/a.ts')).map(({ holder }) => holder)
    await env.advance(1_001)

    expect(before).toEqual(['cy', 'ada'])
    expect((await hf.locks.whoHas('src/a.ts')).map(({ holder }) => holder)).toEqual(['cy'])
    expect(await hf.locks.whoHas('other')).toEqual([])
  })

  test('a manual reservation lasts five minutes, and is renewed and released by name and token [L15]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    const manual = await reserved(hf.locks.reserve('src/**', { agent: 'bob' }))
    const { name } = manual.lock
    const { token } = manual.lock.lease
    await env.advance(1_000)

    const renewed = await hf.locks.renewLock(name, { agent: 'bob' })

    expect(manual.lock.lease.leaseMs).toBe(300_000)
    expect(renewed.lease.expiresAt).toBe((manual.lock.lease.expiresAt as number) + 1_000)
    expect(await hf.locks.releaseLock(name, { agent: 'eve', token: token + 1 })).toBe(false)
    expect(await hf.locks.releaseLock(name, { agent: 'bob' })).toBe(true)
    expect(await hf.locks.whoHas('src/a.ts')).toEqual([])
  })

  test('two handlers of one process exclude each other, as two processes do [L15] [S5c-39]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const twin = await store.open({ agent: 'ada' })
    await hf.locks.reserve('src/**')
    await hf.locks.reserve('docs/**', { agent: 'bob' })

    expect(await hf.locks.reserve('src/**')).toMatchObject({ outcome: 'held', holder: 'ada' })
    expect(await twin.locks.reserve('src/b.ts')).toMatchObject({ outcome: 'held', holder: 'ada' })
    expect(await hf.locks.reserve('docs/a', { agent: 'bob' })).toMatchObject({ outcome: 'held' })
  })

  test('a caller that names what it holds, with token, is not blocked by it [S5c-39]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const outer = await reserved(hf.locks.reserve('src/**'))
    const manual = await reserved(hf.locks.reserve('docs/**', { agent: 'bob' }))

    const inner = hf.locks.reserve('src/a.ts', { holding: [held(outer)] })
    const byHand = hf.locks.reserve('docs/a', { agent: 'bob', holding: [held(manual)] })

    expect(await inner).toMatchObject({ outcome: 'acquired' })
    expect(await byHand).toMatchObject({ outcome: 'acquired' })
  })

  test('exactly those named are exempt: no other agent’s, no other reservation, no other token [S5c-39]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    // Granted in one millisecond, they have the same token.
    const [left, right] = await Promise.all(
      ['src/left/**', 'src/right/**'].map((pattern) => reserved(hf.locks.reserve(pattern))),
    )
    const ofBob = await reserved(hf.locks.reserve('docs/**', { agent: 'bob' }))
    const attempts = [
      hf.locks.reserve('src/**', { holding: [held(left)] }),
      hf.locks.reserve('src/left/a', { holding: [{ ...held(left), token: held(left).token - 1 }] }),
      hf.locks.reserve('src/left/a', { holding: [{ ...held(left), name: held(right).name }] }),
      hf.locks.reserve('docs/a', { holding: [held(ofBob)] }),
    ]

    expect(held(left).token).toBe(held(right).token)
    expect((await Promise.all(attempts)).map(({ outcome }) => outcome)).toEqual(Array(4).fill('held'))
    expect(await hf.locks.reserve('src/**', { holding: [held(left), held(right)] })).toMatchObject({
      outcome: 'acquired',
    })
  })

  test('those of a dead process are free at once, and those of a silent one when they lapse [L15] [L9]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const victim = await store.open({ agent: 'victim', environment: host.process(101) })
    const heir = await store.open({ agent: 'heir', environment: host.process(102) })
    await victim.locks.reserve('src/**')

    host.kill(101)
    await env.advance(1_000)

    expect(await heir.locks.reserve('src/a.ts')).toMatchObject({ outcome: 'acquired' })
  })

  test('an unreadable one is set aside, not deleted, and blocks nothing [L15]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada' })
    const damaged = await reserved(hf.locks.reserve('src/**', { agent: 'bob', leaseMs: 1_000 }))
    await hf.locks.reserve('docs/**', { agent: 'cy', leaseMs: 1_000 })
    await store.damage.garblePatterns(damaged.lock.name)

    const other = await hf.locks.reserve('test/**')
    await env.advance(10_000)

    expect(other).toMatchObject({ outcome: 'acquired' })
    expect((await hf.locks.list()).locks.map(({ holder }) => holder)).toEqual(['ada'])
    expect(await hf.locks.whoHas('docs/a.md')).toEqual([])
    // Fails unless it finds the row still there.
    await store.damage.garblePatterns(damaged.lock.name)
  })

  test('a lapsed one is over: nothing revives it beside its successor’s [L15] [L3]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', recovery: false, background: false })
    const other = await store.open({ agent: 'bob', recovery: false, background: false })
    const key = { idempotencyKey: 'reserve once' }
    const { lock } = await reserved(hf.locks.reserve('src/**', { leaseMs: 1_000, ...key }))
    await env.advance(1_001)
    await reserved(other.locks.reserve('src/a.ts'))

    const renewing = await refusal(() => hf.locks.renewLock(lock.name))
    const token = { token: lock.lease.token }
    const transferring = await refusalCode(() =>
      hf.locks.transfer(lock.name, { ...token, to: 'cy', reason: 'cy goes on' }),
    )
    const repeating = await refusalCode(() => hf.locks.reserve('src/**', { leaseMs: 1_000, ...key }))

    expect(renewing).toMatchObject({ code: 'LEASE_LOST', facts: token })
    expect([transferring, repeating]).toEqual(['NOT_FOUND', 'LEASE_LOST'])
    expect((await hf.locks.whoHas('src/a.ts')).map(({ holder }) => holder)).toEqual(['bob'])
    expect(await hf.locks.releaseLock(lock.name, token)).toBe(true)
  })

  test('a process that was frozen loses what lapsed in the meantime, and learns of it [L15]', async () => {
    const { env, store } = await engine.open({ background: false, recovery: false })
    const host = machine(env)
    const sleeper = await store.open({ agent: 'ada', recovery: false, environment: host.process(101) })
    const other = await store.open({ agent: 'bob', recovery: false, environment: host.process(102) })
    const { lock, lease } = await reserved(sleeper.locks.reserve('src/**', { leaseMs: 3_000 }))

    host.freeze(101)
    await env.advance(3_001)
    await reserved(other.locks.reserve('src/a.ts', { renew: false }))
    host.thaw(101)
    await env.advance(1_000)

    expect(lease?.signal.aborted).toBe(true)
    expect((await other.locks.whoHas('src/a.ts')).map(({ holder }) => holder)).toEqual(['bob'])
    expect(await sleeper.locks.isLockedBy(lock.name)).toBe(false)
  })

  test('however many have lapsed, no live one is overlooked [L15]', async () => {
    const { hf, env } = await engine.open({ recovery: false, background: false })
    const short = { agent: 'ada', leaseMs: 0, mode: 'shared' } as const
    // A few at a time: each is compared with all that have not lapsed yet.
    for (let count = 0; count < 1_000; count += 50) {
      await Promise.all(Array.from({ length: 50 }, () => reserved(hf.locks.reserve('docs/**', short))))
      await env.advance(1)
    }
    await reserved(hf.locks.reserve('src/**', { agent: 'ada' }))

    expect(await hf.locks.reserve('src/a.ts', { agent: 'bob' })).toMatchObject({ outcome: 'held' })
    expect(await hf.locks.whoHas('src/a.ts')).toHaveLength(1)
  })

  test('their total is limited; the next one is BUSY, and releasing makes room [L15]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const patterns = (of: number) => Array.from({ length: 50 }, (_, number) => `${of}/${number}/*`)
    const all = await Promise.all(
      Array.from({ length: 100 }, (_, of) => reserved(hf.locks.reserve(patterns(of)))),
    )

    const refused = await refusal(() => hf.locks.reserve('src/**', { agent: 'bob' }))
    const [first] = all
    if (first) await hf.locks.releaseLock(first)

    expect(refused).toMatchObject({
      code: 'BUSY',
      facts: { limit: 'patterns', held: 5_000, asked: 1, max: 5_000 },
    })
    expect(await hf.locks.reserve('src/**', { agent: 'bob' })).toMatchObject({ outcome: 'acquired' })
  })

  test('the audit counts who conflicts with whom [L15]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const other = await store.open({ agent: 'bob' })
    const { lock } = await reserved(hf.locks.reserve('src/**'))

    await other.locks.reserve('src/a.ts')
    await other.locks.reserve('src/b.ts')

    const refused = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.refused')
    expect(refused.map(({ agent, id, detail }) => [agent, id, detail?.holder])).toEqual([
      ['bob', `${lock.name}#0`, 'ada'],
      ['bob', `${lock.name}#0`, 'ada'],
    ])
  })

  test('of many agents that reserve one path at once, exactly one gets it [L15]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, number) => hf.locks.reserve('src/**', { agent: `agent-${number}` })),
    )

    expect(answers.filter(({ outcome }) => outcome === 'acquired')).toHaveLength(1)
  })

  describe('misuse of reservations', () => {
    test.each([
      ['no pattern', (hf: Holdfast) => hf.locks.reserve([])],
      ['an empty pattern', (hf: Holdfast) => hf.locks.reserve('')],
      ['an absolute pattern', (hf: Holdfast) => hf.locks.reserve('/etc/*')],
      ['a climbing pattern', (hf: Holdfast) => hf.locks.reserve('src/../etc')],
      ['an open bracket', (hf: Holdfast) => hf.locks.reserve('src/[a')],
      [
        'too many patterns',
        (hf: Holdfast) => hf.locks.reserve(Array.from({ length: 51 }, (_, number) => `a${number}`)),
      ],
      [
        'more than fifty of what it holds',
        (hf: Holdfast) => hf.locks.reserve('a', { holding: Array(51).fill({ name: 'paths:a', token: 1 }) }),
      ],
      ['a token alone', (hf: Holdfast) => hf.locks.reserve('a', { token: 1 } as object)],
      ['an unknown mode', (hf: Holdfast) => hf.locks.reserve('a', { mode: 'greedy' as 'shared' })],
      ['an unknown option', (hf: Holdfast) => hf.locks.reserve('a', { moad: 'shared' } as object)],
      ['a negative lease', (hf: Holdfast) => hf.locks.reserve('a', { leaseMs: -1 })],
      ['a path that is none', (hf: Holdfast) => hf.locks.whoHas('/a')],
      ['an empty path', (hf: Holdfast) => hf.locks.whoHas('')],
    ])('%s is refused as INVALID and reserves nothing', async (_, call) => {
      const { hf } = await engine.open()

      expect(await refusalCode(() => call(hf))).toBe('INVALID')
      expect((await hf.locks.list()).locks).toEqual([])
    })
  })
})

/** As whoever holds it names it. */
function held(answer: Extract<ReservedPaths, { outcome: 'acquired' }> | undefined) {
  if (!answer) throw new Error('it was not reserved')
  return { name: answer.lock.name, token: answer.lock.lease.token }
}

async function reserved(reserving: Promise<ReservedPaths>) {
  const answer = await reserving
  expect(answer).toMatchObject({ outcome: 'acquired' })
  return answer as Extract<ReservedPaths, { outcome: 'acquired' }>
}
