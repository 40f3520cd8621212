/** Which triggers heal, what they say, and how much they take at once. */
import type { OpenOptions, Queue } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { claimed, claimedMany } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const leaseMs = 1_000
const off = { onOpen: false, onClaim: false, onWait: false, everyMs: 0, probeEveryMs: 0 }

forEachEngine((engine) => {
  describe('the only enabled trigger', () => {
    test('claim heals before a claim and at no other time [Q11] [HP-007]', async () => {
      const { q, env } = await openLapsed(engine, { ...off, onClaim: true })
      await env.advance(60_000)
      const before = await q.stats()

      const claim = await q.next({ agent: 'worker-1' })

      expect(before.processing).toBe(1)
      expect(claim.outcome).toBe('claimed')
    })

    test('open heals when a store is opened and at no other time [Q13]', async () => {
      const { q, env, store } = await openLapsed(engine, off)
      await env.advance(60_000)
      const before = await q.stats()

      await store.open({ recovery: { ...off, onOpen: true } })
      await env.advance(200)

      expect([before.processing, (await q.stats()).processing]).toEqual([1, 0])
    })

    test('timer heals periodically [Q13]', async () => {
      const { q, env, store } = await openLapsed(engine, off)
      await store.open({ recovery: { ...off, everyMs: 3_000 } })

      await env.advance(2_000)
      const before = await q.stats()
      await env.advance(2_000)

      expect([before.processing, (await q.stats()).processing]).toEqual([1, 0])
    })

    test('manual heals on request [Q13]', async () => {
      const { q, env } = await openLapsed(engine, false)
      await env.advance(60_000)
      const claim = await q.next({ agent: 'worker-1' })

      const report = await q.detectAndRecoverStale()

      expect(claim.outcome).toBe('empty')
      expect(report.entriesReclaimed).toBe(1)
    })
  })

  describe('the holder of an item is dead', () => {
    /** It runs on by its lease, and whoever is asked sees that its process is gone. */
    async function openOrphaned(recovery: NonNullable<OpenOptions['recovery']>, background = false) {
      const { hf, env, store } = await engine.open({ background: false, recovery: false })
      const host = machine(env)
      const dying = await store.open({ agent: 'dying', environment: host.process(101), recovery: false })
      await hf.queue('jobs').add(null)
      await claimed(dying.queue('jobs').next({ leaseMs: 3_600_000 }))
      await dying.locks.acquireLock('busy', { leaseMs: 3_600_000 })
      host.kill(101)
      const { logger, named } = collectLogs()
      const environment = host.process(102)
      const waiter = await store.open({ environment, background, recovery, logger })
      return { q: waiter.queue('jobs'), waiter, env, store, named }
    }

    async function outcomeOf(waiting: Promise<{ outcome: string }>, env: MovableEnvironment) {
      let outcome: string | null = null
      void waiting.then((answer) => {
        outcome = answer.outcome
      })
      for (let step = 0; step < 60 && outcome === null; step++) await env.advance(100)
      return outcome
    }

    test('with only the trigger for waiting on, a call that waits for work finds it [S5c-13]', async () => {
      const { q, env } = await openOrphaned({ ...off, onWait: true })
      const before = await q.stats()

      const outcome = await outcomeOf(q.next({ waitMs: 5_000 }), env)

      expect(before.processing).toBe(1)
      expect(outcome).toBe('claimed')
    })

    test('a call that waits for work goes on although healing fails, which is logged [Q11] [S5c-13]', async () => {
      const { q, env, store, named } = await openOrphaned({ ...off, onWait: true })
      const mend = await store.damage.failRecovery()
      const waiting = q.next({ waitMs: 10_000 })
      await env.advance(3_000)
      const failures = named('recovery.failed')
      await mend()

      const outcome = await outcomeOf(waiting, env)

      expect(outcome).toBe('claimed')
      expect(failures[0]).toMatchObject({ level: 'warn', facts: { trigger: 'waiter' } })
    })

    test('processRetries() sends although healing fails, which is logged [Q11]', async () => {
      const { waiter, env, store, named } = await openOrphaned({ ...off, onClaim: true })
      await waiter.messages.register('bob')
      await waiter.messages.sendWithAck('bob', { content: 1, delaysMs: [1_000] })
      await env.advance(1_000)
      const mend = await store.damage.failRecovery()

      const counts = await waiter.messages.processRetries()
      await mend()

      expect(counts).toMatchObject({ retried: 1 })
      expect(named('recovery.failed')).toMatchObject([{ level: 'warn', facts: { trigger: 'claim' } }])
    })

    test.each([
      ['with', true],
      ['without', false],
    ])(
      'with only the trigger for waiting on, a call that waits for a lock finds it %s a caretaker',
      async (_, background) => {
        const { waiter, env } = await openOrphaned({ ...off, onWait: true }, background)

        const outcome = await outcomeOf(waiter.locks.acquireLock('busy', { waitMs: 3_000 }), env)

        expect(outcome).toBe('acquired')
      },
    )

    test.each([
      ['all triggers', false],
      ['the trigger by waiting', { ...off, everyMs: 3_600_000 }],
    ] as const)('with %s off, waiting for work heals nothing [S5c-13]', async (_, recovery) => {
      const { q, waiter, env } = await openOrphaned(recovery)

      const outcomes = [
        await outcomeOf(q.next({ waitMs: 3_000 }), env),
        await outcomeOf(waiter.tasks.claimNext({ waitMs: 3_000 }), env),
        await outcomeOf(waiter.locks.acquireLock('free', { waitMs: 3_000 }), env),
        await outcomeOf(waiter.locks.acquireLock('busy', { waitMs: 3_000 }), env),
      ]

      expect(outcomes).toEqual(['empty', 'empty', 'acquired', 'held'])
      expect(await q.stats()).toMatchObject({ processing: 1 })
    })

    test('with all triggers off, neither prime() nor processRetries() heals [S5c-13]', async () => {
      const { q, waiter } = await openOrphaned(false)

      await waiter.fleet.prime()
      await waiter.messages.processRetries()
      const claim = await q.claimMany(1)

      expect(claim.outcome).toBe('empty')
      expect(await q.stats()).toMatchObject({ processing: 1 })
    })
  })

  test('with all triggers off, a delayed item is still claimed when it is due [Q12]', async () => {
    const { hf, env } = await engine.open({ recovery: false })
    const q = hf.queue('jobs')
    await q.add('later', { runAt: env.now() + 1_000 })
    await env.advance(1_000)

    expect((await claimed(q.next({ agent: 'worker-1' }))).item.payload).toBe('later')
  })

  describe('the log', () => {
    test.each(['claim', 'open', 'timer'] as const)(
      'describes a recovery by %s: what was taken from whom, why and how much [Q11]',
      async (trigger) => {
        const { q, env, store, item } = await openLapsed(engine, off)
        const { logger, named } = collectLogs()
        const triggers = {
          claim: { ...off, onClaim: true },
          open: { ...off, onOpen: true },
          timer: { ...off, everyMs: 1_000 },
        }
        const healer = await store.open({ logger, recovery: triggers[trigger] })

        if (trigger === 'claim') await healer.queue('jobs').next()
        else await env.advance(1_500)

        const [line] = named('lease.reclaimed')
        expect(line).toMatchObject({
          level: 'warn',
          facts: { kind: 'item', id: item, holder: 'worker-1', expiredForMs: expect.any(Number) },
        })
        expect(line?.facts.expiredForMs).toBeGreaterThan(0)
        expect(line?.facts.evidence).toContain('lapsed')
        expect(named('recovery.completed')).toMatchObject([
          { level: 'info', facts: { trigger, locksCleaned: 0, entriesReclaimed: 1, quarantined: 0 } },
        ])
        expect(named('recovery.completed')[0]?.facts.ms).toEqual(expect.any(Number))
        expect((await q.stats()).processing).toBe(trigger === 'claim' ? 1 : 0)
      },
    )

    test.each(['claim', 'timer'] as const)(
      'says that a recovery by %s failed, and why [Q11]',
      async (trigger) => {
        const { env, store } = await openLapsed(engine, off)
        const { logger, named } = collectLogs()
        const recovery = trigger === 'claim' ? { ...off, onClaim: true } : { ...off, everyMs: 1_000 }
        const healer = await store.open({ logger, recovery })
        const mend = await store.damage.failRecovery()

        if (trigger === 'claim') await healer.queue('jobs').next()
        else await env.advance(1_500)
        await mend()

        const [line] = named('recovery.failed')
        expect(line).toMatchObject({ level: 'warn', facts: { trigger } })
        expect(String(line?.facts.error)).not.toBe('')
      },
    )

    test('shows that healing works again once the cause of a failure is fixed [Q11]', async () => {
      const { q, env, store } = await openLapsed(engine, off)
      await store.open({ recovery: { ...off, everyMs: 1_000 } })
      const mend = await store.damage.failRecovery()
      await env.advance(3_000)
      const during = (await q.stats()).processing
      await mend()

      await env.advance(2_000)

      expect([during, (await q.stats()).processing]).toEqual([1, 0])
    })

    test('says at start-up that there was nothing to heal, and is quiet after that [Q11] [S5-18]', async () => {
      const { logger, lines } = collectLogs()
      const { hf, env } = await engine.open({ logger })
      const atStart = lines.splice(0)
      await hf.queue('jobs').add(null)
      await hf.queue('jobs').next()

      await env.advance(60_000)

      const nothing = { locksCleaned: 0, entriesReclaimed: 0, quarantined: 0, messagesReclaimed: 0 }
      expect(atStart).toEqual([
        { level: 'info', name: 'recovery.completed', facts: { trigger: 'open', ...nothing, ms: 0 } },
      ])
      expect(lines).toEqual([])
    })
  })

  describe('more stale items than one transaction takes', () => {
    test('are healed by the timer in bounded transactions, longest expired first [Q13] [EC-003]', async () => {
      const { hf, env, store } = await engine.open({ recovery: off })
      const q = hf.queue('jobs')
      const { ids } = await q.addMany(Array.from({ length: 250 }, (_, number) => ({ payload: number })))
      for (const limit of [100, 100, 50]) {
        await claimedMany(q.claimMany(limit, { agent: 'worker-1', leaseMs }))
        await env.advance(10)
      }
      await env.advance(leaseMs + 1)
      const { logger, named } = collectLogs()

      await store.open({ logger, recovery: { ...off, everyMs: 1_000 } })
      await env.advance(1_500)

      const pieces = named('recovery.completed').map(({ facts }) => Number(facts.entriesReclaimed))
      expect(pieces.reduce((sum, piece) => sum + piece, 0)).toBe(250)
      expect(Math.max(...pieces)).toBeLessThanOrEqual(100)
      const order = (await readFeed(hf)).filter(({ kind }) => kind === 'item.reclaimed').map(({ id }) => id)
      const firstHundred = new Set(ids.toSorted().slice(0, 100))
      expect(order.slice(0, 100).every((id) => firstHundred.has(id))).toBe(true)
    })

    test('do not hold up a claim, and are healed by the claims that follow [Q11]', async () => {
      const { hf, env } = await engine.open({ recovery: { ...off, onClaim: true } })
      const q = hf.queue('jobs')
      await q.addMany(Array.from({ length: 150 }, (_, number) => ({ payload: number })))
      for (const limit of [100, 50]) await claimedMany(q.claimMany(limit, { agent: 'worker-1', leaseMs }))
      await env.advance(leaseMs + 1)

      await claimed(q.next({ agent: 'worker-2' }))
      const first = await q.getRecoveryStats()
      await claimed(q.next({ agent: 'worker-2' }))

      expect(first.entriesReclaimed).toBe(50)
      expect(await q.getRecoveryStats()).toMatchObject({
        entriesReclaimed: 0,
        totals: { entriesReclaimed: 150 },
      })
    })
  })
})

/** One item whose holder, worker-1, let its lease lapse. */
async function openLapsed(engine: Engine, recovery: NonNullable<OpenOptions['recovery']>) {
  const { hf, env, store } = await engine.open({ recovery })
  const q: Queue = hf.queue('jobs')
  const { item } = await q.add(null)
  await q.next({ agent: 'worker-1', leaseMs })
  await env.advance(leaseMs + 1)
  return { q, env, store, item: item.id }
}
