/** Agents: their ids, the processes behind them, and which ones keep crashing. */
import { hostname } from 'node:os'
import type { Holdfast } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test, vi } from 'vitest'
import { take } from '../support/locks.ts'
import { collectLogs } from '../support/logs.ts'
import { claimed, present, refusal } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  describe('an agent’s id', () => {
    test('is type, host and pid, and the pid can be read back [T15]', async () => {
      const { hf } = await engine.open()

      const id = hf.agents.getAgentId()

      expect(id).toBe(`general-${hostname()}-${process.pid}`)
      expect(hf.agents.parsePidFromAgentId(id)).toBe(process.pid)
      expect(hf.agents.agentProcessExists(id)).toBe(true)
      expect((await engine.open()).hf.agent).toBe(id)
    })

    test('takes its type from the environment [T15]', async () => {
      const { hf } = await engine.open()
      const before = process.env.HOLDFAST_AGENT
      try {
        process.env.HOLDFAST_AGENT = 'code review'
        expect(hf.agents.getAgentIdSimple()).toBe(`code_review-${hostname()}`)
      } finally {
        if (before === undefined) delete process.env.HOLDFAST_AGENT
        else process.env.HOLDFAST_AGENT = before
      }
    })

    test('without a pid, of another host, or of a process that is gone proves nothing [T15] [E2]', async () => {
      const { hf } = await engine.open()
      const simple = hf.agents.getAgentIdSimple()

      expect(hf.agents.parsePidFromAgentId(simple)).toBeNull()
      expect(hf.agents.agentProcessExists(simple)).toBeNull()
      expect(hf.agents.agentProcessExists(`general-elsewhere-${process.pid}`)).toBeNull()
      expect(hf.agents.agentProcessExists(`general-${hostname()}-99999999`)).toBe(false)
      expect(
        ['', 'ada', 'ada-1', 'a-b-0', 'a-b-x', 'a-b-1.5'].map((id) => hf.agents.parsePidFromAgentId(id)),
      ).toEqual(Array(6).fill(null))
      expect(hf.agents.parsePidFromAgentId('general-host-with-dashes-123')).toBe(123)
    })

    test('process is found by its pid, and none is found for 0, -1 and 99999999 [T15]', async () => {
      const { hf } = await engine.open()
      const pids = [process.pid, 0, -1, 99999999, 2 ** 40, Number.NaN]

      expect(pids.map((pid) => hf.agents.processExists(pid))).toEqual([
        true,
        false,
        false,
        false,
        false,
        false,
      ])
    })
  })

  test('a process that this user may not signal is alive [T12] [E2]', async () => {
    const { hf } = await engine.open({ background: false })
    const kill = vi.spyOn(process, 'kill').mockImplementation(() => {
      throw Object.assign(new Error('not permitted'), { code: 'EPERM' })
    })
    try {
      expect(hf.agents.processExists(99999999)).toBe(true)
    } finally {
      kill.mockRestore()
    }
  })

  describe('an agent with a registered process', () => {
    test('gets bound leases through whichever process claims for it, freed at once when its own is dead [T12] [E2] [E11]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const helper = () => store.open({ agent: 'helper', environment: host.process(201), background: false })
      const watcher = await store.open({ agent: 'watcher', environment: host.process(202) })
      const first = await helper()
      await first.tasks.addTask('one', { key: 'T-1' })
      await first.agents.register({ agent: 'coder', pid: 101 })
      const claim = await claimedTask(first.tasks.claimTaskForAgent('T-1', { agent: 'coder' }))
      await first.close()
      const second = await helper()

      const again = await claimedTask(second.tasks.claimTaskForAgent('T-1', { agent: 'coder' }))
      host.kill(201)
      await env.advance(2_000)
      const kept = await present(watcher.tasks.getTask('T-1'))
      host.kill(101)
      await env.advance(1_000)

      expect(claim.task.lease).toMatchObject({ leaseMs: 1_800_000, instance: expect.any(String) })
      expect(again).toMatchObject({ renewed: true, task: { token: claim.task.token } })
      expect(kept).toMatchObject({ status: 'In Progress', assignee: 'coder' })
      expect(await watcher.tasks.getTask('T-1')).toMatchObject({ status: 'Todo', assignee: null, crashes: 1 })
    })

    test('gets bound leases on items of other queues too [T12]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const helper = await store.open({ environment: host.process(201), background: false })
      const watcher = await store.open({ agent: 'watcher', environment: host.process(202) })
      await helper.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
      await helper.agents.register({ agent: 'coder', pid: 101 })
      const { item } = await claimed(helper.queue('jobs').next({ agent: 'coder' }))
      await helper.queue('jobs').claimMany(1, { agent: 'coder' })

      host.kill(101)
      await env.advance(1_000)

      expect(item.lease).toMatchObject({ leaseMs: 300_000, instance: expect.any(String) })
      expect(await watcher.queue('jobs').stats()).toMatchObject({ processing: 0, pending: 2 })
    })

    test('can hand over what it claimed [T20]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.agents.register({ agent: 'coder' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'coder' })

      expect((await hf.tasks.handoff({ agent: 'coder' })).taskIds).toHaveLength(1)
    })

    test('is registered once per process [T12]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const hf = await store.open({ environment: host.process(201), background: false })

      const first = await hf.agents.register({ agent: 'coder', pid: 101 })
      const again = await hf.agents.register({ agent: 'coder', pid: 101 })
      const other = await hf.agents.register({ agent: 'coder', pid: 102 })

      expect(again.id).toBe(first.id)
      expect(other.id).not.toBe(first.id)
      expect(first).toMatchObject({ agent: 'coder', pid: 101, startTime: 'start of 101', liveness: 'alive' })
    })

    test('cannot be registered with a pid that does not exist [T12]', async () => {
      const { hf } = await engine.open()

      expect(await refusal(() => hf.agents.register({ agent: 'coder', pid: 99999999 }))).toMatchObject({
        code: 'NOT_FOUND',
        facts: { pid: 99999999 },
      })
    })

    test('sends heartbeats, and learns when its registration is gone [T12]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const hf = await store.open({ agent: 'watcher', environment: host.process(201) })
      const before = await hf.agents.beat({ agent: 'coder' })
      await hf.agents.register({ agent: 'coder', pid: 101 })
      await env.advance(5_000)

      const alive = await hf.agents.beat({ agent: 'coder' })
      const listed = (await hf.agents.list()).find(({ agent }) => agent === 'coder')
      host.kill(101)
      await env.advance(1_000)

      expect([before, alive]).toEqual([false, true])
      expect(listed).toMatchObject({ beatAt: (listed?.startedAt as number) + 5_000, registeredBy: 'coder' })
      expect(await hf.agents.beat({ agent: 'coder' })).toBe(false)
      expect(await hf.agents.beat()).toBe(true)
    })

    test('that is gone shows no sign of life, whether or not anything heals [S5-17]', async () => {
      const { env, store } = await engine.open({ background: false, recovery: false })
      const host = machine(env)
      const off = { recovery: false, background: false } as const
      const hf = await store.open({ agent: 'watcher', environment: host.process(201), ...off })
      await hf.agents.register({ agent: 'coder', pid: 101 })
      host.kill(101)
      await env.advance(5_000)

      const isAlive = await hf.agents.beat({ agent: 'coder' })
      const [listed] = await hf.agents.list()

      expect(isAlive).toBe(false)
      expect(listed).toMatchObject({ agent: 'coder', liveness: 'dead', beatAt: listed?.startedAt })
    })

    test('on another machine is listed as unknown, and keeps its lease until it lapses [T12] [E2]', async () => {
      const { env, store } = await engine.open({ background: false })
      const unknown = { liveness: 'unknown', evidence: 'it runs elsewhere' } as const
      const place = machine(env, { hostName: 'elsewhere' }).process(101)
      const here = machine(env).process(102)
      const judging = { ...here, host: { ...here.host, judge: () => unknown } }
      const remote = await store.open({
        agent: 'remote',
        environment: place,
        leaseMs: 60_000,
        recovery: false,
      })
      const hf = await store.open({ agent: 'local', environment: judging, background: false })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await remote.tasks.claimTaskForAgent('T-1')

      const { cleaned } = await hf.tasks.cleanupDeadAgentLocks()
      const listed = await hf.agents.list()

      expect(cleaned).toBe(0)
      expect(listed).toMatchObject([{ agent: 'remote', hostName: 'elsewhere', ...unknown }])
    })
  })

  describe('a worker that keeps crashing', () => {
    const crash = async (setup: Awaited<ReturnType<typeof openFleet>>, times: number) => {
      for (let number = 0; number < times; number++) {
        await setup.hf.queue('jobs').add(null)
        await claimed(setup.hf.queue('jobs').next({ agent: 'shaky', leaseMs: 1_000 }))
        await setup.env.advance(1_001)
        await setup.hf.recovery.detectAndRecoverStale()
      }
    }

    test('shows a pattern after three crashes in an hour, and no longer an hour later [T10]', async () => {
      const setup = await openFleet()
      const { hf, env } = setup
      await crash(setup, 2)
      const two = await hf.tasks.detectStaleLocks()
      await crash(setup, 1)
      const three = await hf.tasks.detectStaleLocks()
      await env.advance(3_600_000)
      const later = await hf.tasks.detectStaleLocks()

      expect(two.crashPatterns).toEqual([])
      expect(three.crashPatterns).toMatchObject([{ agent: 'shaky', crashes: 3, lastAt: expect.any(Number) }])
      expect(later.crashPatterns).toEqual([])
    })

    test('is suspect when its last three grants all crashed, and cleared by one that did not [T10]', async () => {
      const setup = await openFleet()
      const { hf } = setup
      await hf.agents.register({ agent: 'shaky' })
      await crash(setup, 3)
      const suspected = await hf.tasks.detectStaleLocks()
      const listed = await hf.agents.list()
      const { item } = await claimed(hf.queue('jobs').next({ agent: 'shaky' }))
      await hf.queue('jobs').complete(item.id, { agent: 'shaky' })
      const cleared = await hf.tasks.detectStaleLocks()

      expect(suspected.suspectAgents).toEqual(['shaky'])
      expect(listed).toMatchObject([{ agent: 'shaky', suspect: true, crashes: 3 }])
      expect(cleared.suspectAgents).toEqual([])
    })

    test('is not blamed for what an operator took, what it released or what it still works on [T10]', async () => {
      const setup = await openFleet()
      const { hf, env } = setup
      await crash(setup, 2)
      await hf.queue('jobs').next({ agent: 'shaky' })
      await env.advance(1)
      await hf.queue('jobs').reclaimStale({ thresholdMs: 0 })
      await hf.queue('jobs').next({ agent: 'shaky' })

      const { suspectAgents, crashPatterns } = await hf.tasks.detectStaleLocks()

      expect([suspectAgents, crashPatterns]).toEqual([[], []])
    })

    describe('is recognized by anything it lost', () => {
      type Lose = (
        fleet: { hf: Holdfast; shaky: Holdfast; env: MovableEnvironment },
        number: number,
      ) => Promise<unknown>
      const losses: Record<string, Lose> = {
        'locks that lapsed': async ({ hf, env }, number) => {
          await take(hf, `lock-${number}`, { agent: 'shaky', leaseMs: 1_000 })
          await env.advance(1_001)
          await hf.recovery.detectAndRecoverStale()
        },
        'locks with a delay, each once however long the delay': async ({ hf, env }, number) => {
          await take(hf, `lock-${number}`, { agent: 'shaky', leaseMs: 1_000, delayMs: 5_000 })
          await env.advance(1_001)
          await hf.recovery.detectAndRecoverStale()
          await env.advance(5_001)
          await hf.recovery.detectAndRecoverStale()
        },
        'locks with a delay that began when another asked': async ({ hf, env }, number) => {
          await take(hf, `lock-${number}`, { agent: 'shaky', leaseMs: 1_000, delayMs: 5_000 })
          await env.advance(1_001)
          await hf.locks.acquireLock(`lock-${number}`, { agent: 'other' })
        },
        'locks that another took over': async ({ hf, env }, number) => {
          await take(hf, `lock-${number}`, { agent: 'shaky', leaseMs: 1_000 })
          await env.advance(1_001)
          await take(hf, `lock-${number}`, { agent: 'other' })
        },
        'deliveries it was sending': async ({ hf, shaky, env }, number) => {
          await hf.messages.register(`bob-${number}`, { adapter: 'pigeon' })
          await hf.messages.sendWithAck(`bob-${number}`, { content: 'hello' })
          await shaky.execute('messages.claimDue', { adapters: ['pigeon'], limit: 1, leaseMs: 1_000 })
          await env.advance(1_001)
          await hf.recovery.detectAndRecoverStale()
        },
      }

      test.each(Object.entries(losses))('%s [T10] [L17]', async (_what, lose) => {
        const { hf, env, store } = await engine.open({ background: false, agent: 'watcher', recovery: false })
        const shaky = await store.open({ background: false, agent: 'shaky', recovery: false })
        for (let number = 0; number < 3; number++) await lose({ hf, shaky, env }, number)

        const { crashPatterns, suspectAgents } = await hf.recovery.detectStaleLocks()

        expect(crashPatterns).toMatchObject([{ agent: 'shaky', crashes: 3 }])
        expect(suspectAgents).toEqual(['shaky'])
      })
    })

    test('is blamed once per loss, and not for what was taken from it by force [T10] [L14]', async () => {
      const { hf, env } = await engine.open({ background: false, agent: 'watcher', recovery: false })
      for (const name of ['one', 'two', 'three']) {
        await take(hf, name, { agent: 'steady', delayMs: 5_000 })
        await hf.locks.forceRelease(name, { reason: 'maintenance' })
      }
      await take(hf, 'four', { agent: 'once', leaseMs: 1_000, delayMs: 5_000 })
      await env.advance(1_001)
      await hf.recovery.detectAndRecoverStale()
      await env.advance(5_001)
      await hf.recovery.detectAndRecoverStale()
      await hf.agents.register({ agent: 'once' })
      await hf.agents.register({ agent: 'steady' })

      const listed = await hf.agents.list()

      expect(Object.fromEntries(listed.map(({ agent, crashes }) => [agent, crashes]))).toEqual({
        once: 1,
        steady: 0,
      })
    })

    test('is cleared by a delivery it sent [T10]', async () => {
      const { hf, env, store } = await engine.open({ background: false, agent: 'watcher', recovery: false })
      const shaky = await store.open({ background: false, agent: 'shaky', recovery: false })
      for (let number = 0; number < 3; number++) {
        await take(hf, 'lock', { agent: 'shaky', leaseMs: 0 })
        await env.advance(1)
        await hf.recovery.detectAndRecoverStale()
      }
      const before = await hf.recovery.detectStaleLocks()
      await hf.messages.register('bob', { adapter: 'pigeon' })
      await hf.messages.sendWithAck('bob', { content: 'hello' })

      const due = { adapters: ['pigeon'], leaseMs: 1_000 }
      const [sent = expect.fail('one is due')] = (await shaky.execute('messages.claimDue', due)).claims
      await shaky.execute('messages.record', { delivery: sent.id, token: sent.token, outcome: 'sent' })

      expect(before.suspectAgents).toEqual(['shaky'])
      expect((await hf.recovery.detectStaleLocks()).suspectAgents).toEqual([])
    })

    async function openFleet() {
      return engine.open({ background: false, agent: 'watcher' })
    }
  })

  describe('a process taken for dead by mistake', () => {
    test('loses what it held and continues as a new instance whose death is noticed [T12] [X1]', async () => {
      const { env, store } = await engine.open({ background: false })
      const { logger, named } = collectLogs()
      const host = machine(env)
      const victim = await store.open({ agent: 'victim', environment: host.process(101), logger })
      const witness = await store.open({ agent: 'witness', environment: host.process(102) })
      await witness.tasks.addTask('one', { key: 'T-1' })
      await witness.tasks.addTask('two', { key: 'T-2' })
      const first = await claimedTask(victim.tasks.claimTaskForAgent('T-1', { leaseMs: 3_600_000 }))
      const instance = first.task.lease?.instance as string

      host.kill(101)
      await witness.recovery.detectAndRecoverStale()
      host.revive(101)
      await env.advance(1_000)
      const second = await claimedTask(victim.tasks.claimTaskForAgent('T-2', { leaseMs: 3_600_000 }))
      const lost = first.lease?.isHeld
      const rejoined = named('process.rejoined')
      host.kill(101)
      await env.advance(1_000)

      expect(lost).toBe(false)
      expect(second.task.lease?.instance).not.toBe(instance)
      expect(rejoined).toMatchObject([
        { level: 'warn', facts: { former: instance, instance: second.task.lease?.instance } },
      ])
      expect(await witness.tasks.getTask('T-2')).toMatchObject({ status: 'Todo', assignee: null })
    })

    test('leaves the fleet under its new instance when it closes [T12]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const victim = await store.open({ agent: 'victim', environment: host.process(101) })
      const witness = await store.open({ agent: 'witness', environment: host.process(102) })
      const [before] = (await witness.agents.list()).filter(({ agent }) => agent === 'victim')
      await witness.execute(
        'instance.end',
        { id: before?.id as string, reason: 'by mistake' },
        { agent: 'victim' },
      )
      await env.advance(1_000)
      const [during] = (await witness.agents.list()).filter(({ agent }) => agent === 'victim')

      await victim.close()

      expect(during).toMatchObject({ agent: 'victim', liveness: 'alive' })
      expect(during?.id).not.toBe(before?.id)
      expect((await witness.agents.list()).map(({ agent }) => agent)).toEqual(['witness'])
    })
  })
})
