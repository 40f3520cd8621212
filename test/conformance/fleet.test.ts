/** The fleet as a whole: status, find, explain, doctor, prime, watch. */
import type { FleetExplanation, Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('status', () => {
    test('counts queues, shows who holds what, and which agents take part', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.queue('builds').addMany([{ payload: 1 }, { payload: 2 }])
      await hf.queue('builds').next()
      await hf.tasks.addTask('Write it', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' })
      await hf.locks.acquireLock('deploy', { agent: 'carol' })

      const status = await hf.fleet.status()

      expect(status.queues).toMatchObject([
        { name: 'builds', ready: { count: 1, more: false }, held: { count: 1 }, waiting: { count: 0 } },
        { name: 'tasks', ready: { count: 0 }, held: { count: 1 } },
      ])
      expect(status.held).toMatchObject({ total: 3, expired: 0, stale: 0 })
      expect(
        status.held.shown.map(({ kind, title, holder }) => [kind, title, holder.agent, holder.kind]),
      ).toEqual([
        ['item', expect.any(String), 'ada', 'bound'],
        ['task', 'T-1 Write it', 'bob', 'manual'],
        ['lock', 'deploy', 'carol', 'manual'],
      ])
      expect(status.agents.map(({ agent, processes, holds }) => [agent, processes, holds])).toEqual([
        ['ada', 1, 1],
        ['bob', 0, 1],
        ['carol', 0, 1],
      ])
      expect(status.alerts).toEqual([])
    })

    test('shows a lapsed lease as lapsed before any sweep, and says that no process heals', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', background: false, recovery: false })
      await hf.queue('q').add(1)
      await hf.queue('q').next({ leaseMs: 1_000 })
      await env.advance(20_000)

      const status = await hf.fleet.status()

      expect(status.held).toMatchObject({ total: 1, expired: 1 })
      expect(status.recovery).toMatchObject({ due: 1, lastSweptAt: null })
      expect(status.alerts).toMatchObject([{ code: 'recovery_late' }])
    })

    test('reports quarantine, dead letters, crashing agents and work that nobody claims', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', background: false })
      await hf.queue('fragile', { maxCrashes: 3 }).define()
      await hf.queue('fragile').add(1)
      for (let crash = 0; crash < 3; crash++) {
        await env.advance(30_000)
        await hf.queue('fragile').next({ agent: 'bob', leaseMs: 0 })
        await env.advance(1)
        await hf.recovery.detectAndRecoverStale()
      }
      await hf.queue('idle').add(1)
      await hf.messages.register('dora')
      const policy = { delaysMs: [], ladder: [], timeoutMs: 1_000 }
      await hf.messages.sendWithAck('dora', { content: 1, ...policy })
      for (let pass = 0; pass < 3; pass++) {
        await env.advance(120_000)
        await hf.messages.processRetries()
      }

      const { alerts } = await hf.fleet.status()
      const later = await codesAfter(env.advance(3_600_000), hf)

      const codes = alerts.map(({ code }) => code)
      expect(codes).toEqual(
        expect.arrayContaining(['crash_pattern', 'suspect_agent', 'quarantine', 'dead_letters']),
      )
      expect(later).toContain('oldest_waiting')
    })
  })

  describe('explain', () => {
    test('finds what a name refers to: a key, an id, a lock, a message, a run, an agent, a queue', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const { item } = await hf.queue('builds').add(1, { key: 'main' })
      await hf.locks.acquireLock('deploy', { run: 'spring' })
      await hf.runs.start('spring', { lock: 'deploy' })
      await hf.messages.register('bob')
      const { message } = await hf.messages.sendWithAck('bob', { content: 1 })

      const kinds = async (ref: string) => (await hf.fleet.find(ref)).map(({ kind }) => kind)

      expect(await kinds('main')).toEqual(['item'])
      expect(await kinds(item.id)).toEqual(['item'])
      expect(await kinds('deploy')).toEqual(['lock'])
      expect(await kinds(message.id)).toEqual(['message'])
      expect(await kinds('spring')).toEqual(['run'])
      expect(await kinds('ada')).toEqual(['agent'])
      expect(await kinds('builds')).toEqual(['queue'])
      expect(await kinds('nothing')).toEqual([])
    })

    test('finds agents without a process by what they hold or lost', async () => {
      const { hf, env } = await engine.open({ agent: 'boss' })
      await hf.queue('builds').add(1)
      await hf.queue('builds').next({ agent: 'by-hand' })
      await hf.locks.acquireLock('deploy', { agent: 'lock-holder' })
      await hf.queue('others').add(1)
      await hf.queue('others').next({ agent: 'gone', leaseMs: 0 })
      await env.advance(10)
      await hf.recovery.detectAndRecoverStale()

      const kinds = async (ref: string) => (await hf.fleet.find(ref)).map(({ kind }) => kind)

      expect(await kinds('by-hand')).toEqual(['agent'])
      expect(await kinds('lock-holder')).toEqual(['agent'])
      expect(await kinds('gone')).toEqual(['agent'])
    })

    test('of an ambiguous name asks which one is meant', async () => {
      const { hf } = await engine.open()
      await hf.queue('same').add(1, { key: 'same' })
      await hf.locks.acquireLock('same')

      const refused = await refusal(() => hf.fleet.explain('same'))

      expect(refused).toMatchObject({ code: 'INVALID' })
      expect(await hf.fleet.explain('same', { kind: 'lock' })).toMatchObject({
        kind: 'lock',
        verdict: 'held',
      })
      expect(await refusalCode(() => hf.fleet.explain('nothing'))).toBe('NOT_FOUND')
      expect(await refusalCode(() => hf.fleet.explain('same', { kind: 'run' }))).toBe('NOT_FOUND')
    })

    test('names the holder, its process and what happens next, with the history', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.queue('q').add(1, { key: 'k' })
      await hf.queue('q').next()

      expect(await hf.fleet.explain('k')).toMatchObject({
        kind: 'item',
        queue: 'q',
        verdict: 'held',
        why: 'ada holds it',
        holder: { agent: 'ada', kind: 'bound', liveness: 'alive' },
        next: [{ inMs: 30_000 }],
        history: [{ kind: 'item.created' }, { kind: 'item.claimed', agent: 'ada' }],
      })
    })

    test('says how the death of a holder is known, and what frees its work', async () => {
      const { hf, env, store } = await engine.open({ agent: 'ada', recovery: false })
      const here = machine(env)
      const worker = await store.open({ agent: 'worker', environment: here.process(4711), recovery: false })
      const witness = await store.open({ agent: 'witness', environment: here.process(1), recovery: false })
      await hf.queue('q').add(1, { key: 'k' })
      await worker.queue('q').next()
      here.kill(4711)

      expect(await witness.fleet.explain('k')).toMatchObject({
        verdict: 'stuck',
        why: 'worker held it and is dead: process 4711 is gone',
        can: [{ operation: 'recovery.run' }],
      })
      expect(await witness.fleet.explain('worker')).toMatchObject({
        verdict: 'stuck',
        evidence: expect.arrayContaining(['holds 1 lease, 1 of them of a dead process']),
      })
      expect((await witness.fleet.status()).alerts).toMatchObject([{ code: 'dead_holders' }])
    })

    const waits: [
      what: string,
      prepare: (hf: Holdfast) => Promise<unknown>,
      expected: Partial<FleetExplanation>,
    ][] = [
      ['ready', async () => {}, { verdict: 'ready', evidence: ['position 1 in line'] }],
      ['paused', (hf) => hf.queue('q').pause({ reason: 'lunch' }), { verdict: 'stuck' }],
      ['cancelled', (hf) => hf.queue('q').cancel('k'), { verdict: 'closed', why: 'it is cancelled' }],
    ]

    test.each(waits)('says why an item is %s', async (_, prepare, expected) => {
      const { hf } = await engine.open()
      await hf.queue('q').add(1, { key: 'k' })
      await prepare(hf)

      expect(await hf.fleet.explain('k')).toMatchObject(expected)
    })

    test('says that an item is due before anything has put it in line, and since when it is there', async () => {
      const { hf, env } = await engine.open({ background: false })
      await hf.queue('q').add(1, { key: 'k', delayMs: 7_200_000 })
      await env.advance(7_200_000)

      const [item, queue] = [await hf.fleet.explain('k'), await hf.fleet.explain('q')]
      await hf.recovery.detectAndRecoverStale()
      const ready = await hf.fleet.explain('q')

      expect(item).toMatchObject({ verdict: 'waiting', why: 'it is due' })
      expect(queue).toMatchObject({ verdict: 'waiting', why: 'something in it is due' })
      expect(ready.evidence).toContain('the oldest was added 2h ago')
    })

    test('says what an item waits for, and whether that can still happen', async () => {
      const { hf } = await engine.open()
      const { item } = await hf.queue('q').add(1, { key: 'first' })
      await hf.queue('q').add(2, { key: 'second', blockers: [item.id] })

      const waiting = await hf.fleet.explain('second')
      await hf.queue('q').cancel('first')
      const stuck = await hf.fleet.explain('second')

      expect(waiting).toMatchObject({ verdict: 'waiting', evidence: ['waits for first, which is pending'] })
      expect(stuck).toMatchObject({ verdict: 'stuck', evidence: ['waits for first, which is cancelled'] })
    })

    test('calls no slot free that is kept for a delay once its loss is noticed', async () => {
      const { hf, env } = await engine.open({ background: false, recovery: false })
      await hf.locks.acquireLock('press', { leaseMs: 1000, delayMs: 5000 })
      await hf.locks.acquireLock('pair', { agent: 'ada', slots: 2, leaseMs: 1000, delayMs: 5000 })
      await hf.locks.acquireLock('pair', { agent: 'bob', slots: 2, leaseMs: 60_000 })
      await env.advance(2000)

      const press = await hf.fleet.explain('press')
      const pair = await hf.fleet.explain('pair')
      const asked = await hf.locks.acquireLock('press', { agent: 'eve' })

      expect(asked.outcome).toBe('held')
      expect(press).toMatchObject({ verdict: 'waiting', next: [{ inMs: 5000 }], can: [] })
      expect(pair.verdict).toBe('waiting')
    })

    test('calls a lock free as soon as its delay is over', async () => {
      const { hf, env } = await engine.open({ background: false, recovery: false })
      await hf.locks.acquireLock('press', { delayMs: 5000 })
      await hf.locks.forceRelease('press', { reason: 'because' })
      await env.advance(5000)
      const within = await hf.fleet.explain('press')
      await env.advance(1)
      const after = await hf.fleet.explain('press')
      const asked = await hf.locks.acquireLock('press', { agent: 'eve' })

      expect(within).toMatchObject({ verdict: 'waiting', next: [{ inMs: 0 }], can: [] })
      expect(after).toMatchObject({
        verdict: 'free',
        holder: null,
        can: [{ operation: 'locks.acquireLock' }],
      })
      expect(asked.outcome).toBe('acquired')
    })

    test('explains locks, runs, messages, agents and queues too', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.queue('merges', { workflow: 'merge' }).define()
      await hf.queue('merges').submit('x', { headSha: 'abcd' })
      await hf.queue('merges').submit('y', { headSha: 'abcd' })
      await hf.queue('merges').next({ agent: 'bob' })
      await hf.locks.acquireLock('deploy', { run: 'spring', reason: 'release' })
      await hf.runs.start('spring', { lock: 'deploy', total: 3 })
      await hf.messages.register('bob')
      const { message } = await hf.messages.sendWithAck('bob', { content: 1 })

      expect(await hf.fleet.explain('deploy')).toMatchObject({
        verdict: 'held',
        evidence: ['for: release', 'for run spring'],
      })
      expect(await hf.fleet.explain('spring')).toMatchObject({ verdict: 'held', holder: { agent: 'ada' } })
      expect(await hf.fleet.explain(message.id)).toMatchObject({
        verdict: 'waiting',
        why: 'it waits for bob',
      })
      expect(await hf.fleet.explain('ada')).toMatchObject({ kind: 'agent', verdict: 'held' })
      expect(await hf.fleet.explain('merges')).toMatchObject({
        verdict: 'waiting',
        why: 'its processing lock is held by bob',
      })
      expect(await hf.fleet.explain('y')).toMatchObject({ verdict: 'waiting', holder: { agent: 'bob' } })
    })

    test('of something that does not exist is refused', async () => {
      const { hf } = await engine.open()
      const kinds = ['item', 'message', 'run', 'queue'] as const

      const codes = await Promise.all(
        kinds.map((kind) => refusalCode(() => hf.execute('fleet.explain', { kind, id: 'nothing' }))),
      )

      expect(codes).toEqual(kinds.map(() => 'NOT_FOUND'))
      expect(await hf.execute('fleet.explain', { kind: 'lock', id: 'nothing' })).toMatchObject({
        verdict: 'free',
      })
      expect(await hf.execute('fleet.explain', { kind: 'agent', id: 'nothing' })).toMatchObject({
        verdict: 'gone',
      })
    })
  })

  describe('doctor', () => {
    test('finds nothing wrong with a sound store', async () => {
      const { hf } = await engine.open()

      const { healthy, findings, fixed } = await hf.fleet.doctor()

      expect({ healthy, fixed }).toEqual({ healthy: true, fixed: null })
      expect(findings.filter(({ level }) => level !== 'ok')).toEqual([])
    })

    test('finds lapsed leases, and a fix reclaims them', async () => {
      const { hf, env } = await engine.open({ recovery: false })
      await hf.queue('q').add(1)
      await hf.queue('q').next({ leaseMs: 0, renew: false })
      await env.advance(10)

      const sick = await hf.fleet.doctor()
      const mended = await hf.fleet.doctor({ fix: true })

      expect(sick.findings).toContainEqual(
        expect.objectContaining({ check: 'leases', level: 'warning', isFixable: true }),
      )
      expect(mended.fixed).toMatchObject({ entriesReclaimed: 1 })
      expect(mended.findings).toContainEqual(expect.objectContaining({ check: 'leases', level: 'ok' }))
    })

    test('reports acknowledged commits that the server lost, wherever the store has moved since [S5b-15]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const loss = { timeline: 2, known: 1, acknowledged: 7, found: 3, durability: 'full' } as const
      await hf.execute('store.noteCommitLoss', loss)

      const { findings } = await hf.fleet.doctor()
      const events = (await readFeed(hf)).filter(({ subject }) => subject === 'store')

      expect(findings.find(({ check }) => check === 'commits')?.what).toContain('1 report')
      expect(events).toMatchObject([{ kind: 'store.commits_lost', agent: 'ada', detail: loss }])
    })

    test('reports that healing failed, and is then unhealthy', async () => {
      const { hf, env, store } = await engine.open({ recovery: false })
      await hf.queue('q').add(1)
      await hf.queue('q').next({ leaseMs: 0, renew: false })
      await env.advance(10)
      const patient = await store.open({ recovery: { onOpen: false } })
      const mend = await store.damage.failRecovery()
      await patient.queue('q').next()
      await mend()

      const { healthy, findings } = await patient.fleet.doctor()

      expect(healthy).toBe(false)
      expect(findings).toContainEqual(expect.objectContaining({ check: 'recovery', level: 'error' }))
    })
  })

  describe('prime', () => {
    test('heals before it answers, so that lost work can be claimed [S5-14]', async () => {
      const { hf, env } = await engine.open({ agent: 'boss', background: false })
      await hf.tasks.addTask('Write the parser', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'gone', leaseMs: 1_000 })
      await env.advance(1_001)

      const page = await hf.fleet.prime({ agent: 'ada' })

      expect(page.tasks).toMatchObject([{ key: 'T-1' }])
      expect(page.advice[0]).toMatchObject({ operation: 'tasks.claimNext' })
    })

    test('answers even if healing fails, and says so [S5-14]', async () => {
      const lines = collectLogs()
      const { hf, env, store } = await engine.open({
        agent: 'boss',
        background: false,
        logger: lines.logger,
      })
      await hf.tasks.addTask('Write the parser', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'gone', leaseMs: 1_000 })
      await env.advance(1_001)
      const mend = await store.damage.failRecovery()

      const page = await hf.fleet.prime({ agent: 'ada' })
      await mend()

      expect(page.agent).toBe('ada')
      expect(lines.named('recovery.failed')).toHaveLength(1)
    })

    test('knows which leases a process renews, and which are to be renewed by hand [S5c-30]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      for (const key of ['T-1', 'T-2', 'T-3']) await hf.tasks.addTask(key, { key })
      await hf.tasks.claimTaskForAgent('T-1')
      await hf.tasks.claimTaskForAgent('T-2', { renew: false })
      await hf.locks.acquireLock('press')

      const page = await hf.fleet.prime()

      const renewed = Object.fromEntries(page.holds.map(({ title, isRenewed }) => [title, isRenewed]))
      expect(renewed).toEqual({ 'T-1 T-1': true, 'T-2 T-2': false, press: true })
    })

    test('tells an agent what it holds, what it was sent and what it could do', async () => {
      const { hf } = await engine.open({ agent: 'boss' })
      await hf.tasks.addTask('Write the parser', { key: 'T-1', priority: 1 })
      await hf.tasks.addTask('Write the docs', { key: 'T-2' })
      await hf.messages.register('ada')
      await hf.messages.sendWithAck('ada', { content: 'hello' })

      const fresh = await hf.fleet.prime({ agent: 'ada' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' })
      const busy = await hf.fleet.prime({ agent: 'ada' })

      expect(fresh).toMatchObject({
        agent: 'ada',
        process: null,
        holds: [],
        unread: [{ sender: 'boss', content: 'hello' }],
        tasks: [{ key: 'T-1' }, { key: 'T-2' }],
        queues: [{ name: 'tasks', ready: { count: 2, more: false } }],
      })
      expect(fresh.advice.map(({ operation }) => operation)).toEqual([
        'messages.inbox',
        'tasks.claimNext',
        'agents.register',
      ])
      expect(busy.holds).toMatchObject([{ kind: 'task', title: 'T-1 Write the parser' }])
      expect(busy.advice[0]?.what).toContain('go on with T-1')
    })
  })

  test('watch repeats the status until it is stopped', async () => {
    const { hf, env } = await engine.open()
    const enough = new AbortController()
    const seen: number[] = []

    const watching = (async () => {
      for await (const { queues } of hf.fleet.watch({ everyMs: 1_000, signal: enough.signal })) {
        seen.push(queues.length)
        if (seen.length === 2) enough.abort()
      }
    })()
    await env.advance(10)
    await hf.queue('q').add(1)
    await env.advance(1_000)
    await watching

    expect(seen).toEqual([0, 1])
  })

  test('watch refreshes soon after a change, and rarely otherwise [S5-25]', async () => {
    const { hf, env } = await engine.open({ background: false })
    const enough = new AbortController()
    const looks: number[] = []
    const began = env.monotonic()
    const watching = (async () => {
      for await (const _ of hf.fleet.watch({ everyMs: 1_000, signal: enough.signal }))
        looks.push(env.monotonic() - began)
    })()
    await env.advance(1_500)
    const quiet = looks.length
    await hf.queue('q').add(1)
    await env.advance(100)
    const soon = looks.length
    await env.advance(6_000)
    enough.abort()
    await env.advance(0)
    await watching

    expect([quiet, soon]).toEqual([1, 2])
    expect(looks).toHaveLength(4)
  })

  test('reads change nothing', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    await hf.queue('q').add(1, { key: 'k' })
    const before = await store.readTables()

    await hf.fleet.status()
    await hf.fleet.explain('k')
    await hf.fleet.doctor()
    await hf.fleet.prime()

    expect(await store.readTables()).toEqual(before)
  })
})

async function codesAfter(time: Promise<void>, hf: Holdfast): Promise<string[]> {
  await time
  return (await hf.fleet.status()).alerts.map(({ code }) => code)
}
