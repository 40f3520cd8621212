/** Healing reaches every namespace of a store, also those that no process has open. */
import { hostname } from 'node:os'
import type { Holdfast, OpenOptions } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { claimed, present, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** Two sweeps of the process that heals, each up to a tenth late. */
const soonMs = 12_000
const byTimer = { onOpen: false, onClaim: false, probeEveryMs: 0 }

forEachEngine((engine) => {
  describe('in a namespace that no process heals', () => {
    test('a process of another namespace reclaims a lapsed item and a lapsed lock [S5c-38]', async () => {
      const { other, env } = await openBeside(engine)
      await other.queue('jobs').add('work')
      await other.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
      await other.locks.acquireLock('deploy', { agent: 'worker-1', leaseMs: 100 })

      await env.advance(soonMs)

      expect(await other.queue('jobs').stats()).toMatchObject({ pending: 1, processing: 0 })
      expect(await other.locks.list()).toMatchObject({ locks: [] })
    })

    test('events name the agent holdfast, with the process that healed [S5c-38]', async () => {
      const { other, env } = await openBeside(engine)
      await other.queue('jobs').add('work')
      await other.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
      const before = await other.agents.list()

      await env.advance(soonMs)

      const healed = (await readFeed(other)).filter(({ kind }) => kind === 'item.reclaimed')
      expect(healed).toMatchObject([
        {
          agent: 'holdfast',
          detail: { holder: 'worker-1', healer: { host: hostname(), pid: process.pid } },
        },
      ])
      expect(await other.recovery.getRecoveryStats()).toMatchObject({ lastRun: { by: 'holdfast' } })
      // It joins nothing there: nobody can write to it, and no quorum counts it.
      expect((await other.agents.list()).map(({ agent }) => agent)).toEqual(before.map(({ agent }) => agent))
      expect(
        await refusalCode(() => other.messages.sendWithAck('holdfast', { type: 'note', content: 'hello' })),
      ).toBe('UNKNOWN_RECIPIENT')
    })

    test('a delay ends on time, and a cascade continues [S5c-38]', async () => {
      const { other, store, env } = await openBeside(engine)
      let isFailing = false
      const reached = (point: string) => {
        if (isFailing && point === 'transaction.begun') throw new Error('the disk is gone')
        isFailing ||= isCompleting && point === 'transaction.committed'
      }
      let isCompleting = false
      const environment = { ...machine(env).process(201), reached }
      const failing = await store.open({
        namespace: 'other',
        environment,
        background: false,
        recovery: false,
      })
      const jobs = failing.queue('jobs')
      const { item: blocker } = await jobs.add('first', { priority: 0 })
      // One more than are freed together with what they wait for.
      await Promise.all(Array.from({ length: 101 }, () => jobs.add('second', { blockers: [blocker.id] })))
      await other.queue('later').add('delayed', { runAt: env.now() + 1_000 })
      const { lease } = await claimed(jobs.next({ agent: 'worker-1' }))
      isCompleting = true
      await jobs.complete(blocker.id, { agent: 'worker-1', token: lease?.token as number })
      await failing.close()
      expect(await store.countRows()).toMatchObject({ cascade: 1, blocker: 1 })

      await env.advance(soonMs)

      expect(await store.countRows()).toMatchObject({ cascade: 0, blocker: 0 })
      expect((await other.queue('later').list({ phase: 'ready' })).items).toHaveLength(1)
    })

    test('what a dead process held is reclaimed before its lease ends [S5c-38]', async () => {
      const { env, store } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      const host = machine(env)
      const victim = await store.open({
        namespace: 'other',
        agent: 'victim',
        environment: host.process(101),
        recovery: false,
        leaseMs: 3_600_000,
      })
      await victim.queue('jobs').add('work')
      await victim.queue('jobs').next()
      await store.open({ agent: 'healer', environment: host.process(102), recovery: byTimer })

      host.kill(101)
      await env.advance(soonMs)

      const look = await store.open({ namespace: 'other', background: false, recovery: false })
      expect(await look.queue('jobs').stats()).toMatchObject({ pending: 1, processing: 0 })
      expect(await look.agents.list()).toEqual([])
    })

    test('a live holder keeps what it renews [S5c-38]', async () => {
      const { other, env } = await openBeside(engine)
      await other.queue('jobs').add('work')
      const { item } = await claimed(other.queue('jobs').next({ leaseMs: 3_000 }))

      await env.advance(60_000)

      expect(await other.queue('jobs').get(item.id)).toMatchObject({ phase: 'held', token: item.token })
    })

    test('a failure to heal does not affect the others [S5c-38]', async () => {
      const { env, store, other } = await openBeside(engine)
      const broken = await store.open({ namespace: 'broken', agent: 'stranger', recovery: false })
      for (const each of [broken, other]) {
        await each.queue('jobs').add('work')
        await each.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
      }
      const mend = await store.damage.failRecovery('broken')

      await env.advance(soonMs)
      const states = await Promise.all([broken, other].map((each) => each.queue('jobs').stats()))
      await mend()

      expect(states).toMatchObject([{ processing: 1 }, { pending: 1, processing: 0 }])
    })

    test('a failure to heal is logged with the namespace, and retried [S5c-38]', async () => {
      const { logger, named } = collectLogs()
      const { env, store, other } = await openBeside(engine, { logger })
      await other.queue('jobs').add('work')
      await other.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
      const mend = await store.damage.failRecovery()

      await env.advance(soonMs)
      await mend()
      const failures = named('recovery.failed')
      await env.advance(soonMs)

      expect(failures[0]?.facts).toMatchObject({ trigger: 'timer', namespace: 'other' })
      expect(named('lease.reclaimed')).toMatchObject([{ facts: { namespace: 'other', holder: 'worker-1' } }])
      expect(await other.queue('jobs').stats()).toMatchObject({ pending: 1 })
    })
  })

  test.each([{ recovery: false }, { recovery: { everyMs: 0 } }, { background: false }])(
    'a handle opened with %j never heals [S5c-38]',
    async (options) => {
      const { other, env } = await openBeside(engine, options)
      await other.queue('jobs').add('work')
      await other.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })

      await env.advance(60_000)

      expect(await other.queue('jobs').stats()).toMatchObject({ processing: 1 })
    },
  )

  test('messages of a namespace that no process has open are left to its own processes [S5c-38]', async () => {
    const { other, env, store } = await openBeside(engine)
    const { message: sent } = await other.messages.sendWithAck('stranger', { type: 'note', content: 'hello' })
    await other.close()

    await env.advance(180_000)

    const look = await store.open({ namespace: 'other', background: false, recovery: false })
    const message = await present(look.messages.get(sent.id))
    expect(message).toMatchObject({ state: 'sent', deliveries: [{ attempts: 1 }] })
  })

  test('finished items of a namespace that no process has open are kept for its own processes [S5c-38]', async () => {
    const { hf, store, env } = await engine.open({
      namespace: 'own',
      recovery: byTimer,
      retention: { itemsMs: 30 * 60_000 },
    })
    const other = await store.open({ namespace: 'other', background: false, recovery: false })
    for (const each of [hf, other]) {
      const { item } = await each.queue('jobs').add('work')
      await each.queue('jobs').cancel(item.id)
    }

    env.suspend(31 * 60_000)
    await env.advance(4 * 60_000)

    expect(await hf.queue('jobs').stats()).toMatchObject({ total: 0 })
    expect(await other.queue('jobs').stats()).toMatchObject({ total: 1 })
  })

  describe('of several processes on a machine', () => {
    test.each(['dies', 'is frozen'])(
      'the oldest heals for all, and the next one takes over when it %s [S5c-38]',
      async (what) => {
        const { host, other, env, healers } = await openFleet(engine)
        // By then each has beaten, and so is known to heal.
        await env.advance(60_000)

        const first = await healedBy(other, env, healers)
        host.freeze(101)
        if (what === 'dies') host.kill(101)
        // A frozen one counts until it has not beaten for a while.
        else await env.advance(120_000)
        const then = await healedBy(other, env, healers)

        expect([first, then]).toEqual([
          [3, 0, 0],
          [0, 3, 0],
        ])
        host.thaw(101)
      },
    )
  })

  describe('a look at the store', () => {
    test('pages through the namespaces and names those with something to heal [S5c-38]', async () => {
      const { hf, env, store } = await engine.open({ namespace: 'own', recovery: false })
      for (const namespace of ['a', 'b', 'c', 'd']) {
        const each = await store.open({ namespace, recovery: false })
        await each.queue('jobs').add('work')
        await each.queue('jobs').next({ agent: 'worker-1', leaseMs: namespace === 'c' ? 3_600_000 : 100 })
      }
      await env.advance(101)

      const pages: unknown[] = []
      for (let after: string | null = ''; after !== null; ) {
        const page = (await hf.execute('recovery.survey', { namespaces: { after }, limit: 2 })) as Survey
        pages.push(page.due)
        after = page.namespacesNext
      }

      // The last is that of our own.
      expect(pages).toEqual([['a', 'b'], ['d'], []])
    })
  })

  describe('recovery of all namespaces by request', () => {
    test('reclaims what lapsed anywhere and says where [S5c-38]', async () => {
      const { hf, other, env } = await openBeside(engine, { recovery: false, agent: 'operator' })
      for (const each of [hf, other]) {
        await each.queue('jobs').add('work')
        await each.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
      }
      await env.advance(101)

      const own = await hf.recovery.detectAndRecoverStale({ dryRun: true })
      const tried = await hf.recovery.detectAndRecoverStale({ dryRun: true, allNamespaces: true })
      const done = await hf.recovery.detectAndRecoverStale({ allNamespaces: true })
      const again = await hf.recovery.detectAndRecoverStale({ allNamespaces: true })

      expect([own, tried, done, again].map((report) => report.entriesReclaimed)).toEqual([1, 2, 2, 0])
      expect([tried, done, again].map((report) => report.namespaces)).toEqual([['other'], ['other'], []])
      expect(done.reclaimed.map(({ namespace }) => namespace)).toEqual([undefined, 'other'])
      const events = await readFeed(other)
      expect(events.findLast(({ kind }) => kind === 'item.reclaimed')).toMatchObject({ agent: 'operator' })
    })
  })

  describe('doctor', () => {
    test('names namespaces in which something has lapsed [S5c-38]', async () => {
      const { hf, other, env } = await openBeside(engine, { recovery: false })
      await other.queue('jobs').add('work')
      await other.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
      const before = await findings(hf)
      await env.advance(101)

      expect(before).toMatchObject([{ level: 'ok' }])
      expect(await findings(hf)).toMatchObject([
        {
          level: 'warning',
          what: expect.stringContaining('"other"'),
          remedy: expect.stringContaining('--all-namespaces'),
        },
      ])
    })

    test('names namespaces whose messages no process resends [S5c-38]', async () => {
      const { hf, other, env } = await openBeside(engine, { recovery: false })
      await other.messages.sendWithAck('stranger', { type: 'note', content: 'hello' })
      await env.advance(0)
      const served = await findings(hf)
      await other.close()
      await env.advance(180_000)

      expect(served).toMatchObject([{ level: 'ok' }])
      expect(await findings(hf)).toMatchObject([
        { level: 'warning', what: expect.stringMatching(/message.*"other"/) },
      ])
    })
  })
})

interface Survey {
  readonly due: readonly string[]
  readonly namespacesNext: string | null
}

async function findings(hf: Holdfast) {
  const visit = await hf.fleet.doctor()
  return visit.findings.filter(({ check }) => check === 'namespaces')
}

/** A handle in a namespace of its own, and one in another that heals nothing. */
async function openBeside(engine: Engine, options: OpenOptions = {}) {
  const { hf, store, env } = await engine.open({ namespace: 'own', recovery: byTimer, ...options })
  const other = await store.open({ namespace: 'other', agent: 'stranger', recovery: false })
  return { hf, other, store, env }
}

/** Three processes that heal, oldest first, none of them in the namespace of the last handle. */
async function openFleet(engine: Engine) {
  const { env, store } = await engine.open({ background: false, recovery: false })
  const host = machine(env)
  const healers = [101, 102, 103].map((pid) => ({ pid, logs: collectLogs() }))
  for (const { pid, logs } of healers) {
    const environment = host.process(pid)
    await store.open({ agent: `healer-${pid}`, environment, logger: logs.logger, recovery: byTimer })
    await env.advance(1)
  }
  const other = await store.open({ namespace: 'other', background: false, recovery: false })
  return { env, host, healers, other }
}

/** How many of three lapsed items, one after the other, were given back by each. */
async function healedBy(
  other: Holdfast,
  env: MovableEnvironment,
  healers: readonly { readonly logs: ReturnType<typeof collectLogs> }[],
) {
  const count = () => healers.map(({ logs }) => logs.named('lease.reclaimed').length)
  const before = count()
  for (let round = 0; round < 3; round++) {
    await other.queue('jobs').add(round)
    await other.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
    await env.advance(soonMs)
  }
  return count().map((after, index) => after - (before[index] ?? 0))
}
