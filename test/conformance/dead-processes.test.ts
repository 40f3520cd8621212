/** Processes that died: all of them are healed, each ends once it holds nothing, and the unknown do not pile up. */
import type { Holdfast } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { present } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

const minuteMs = 60_000

interface Place {
  readonly hostName?: string
  readonly bootId?: string
  readonly pidNamespace?: string
}

/** Processes that joined and say nothing any more. */
async function joinMany(hf: Holdfast, env: MovableEnvironment, pids: readonly number[], place: Place = {}) {
  const { bootId, hostName, pidNamespace } = { ...env.host.identity, ...place }
  const join = async (pid: number) => {
    const id = env.id()
    const identity = { bootId, hostName, pidNamespace, pid, startTime: `start of ${pid}` }
    await hf.execute('instance.start', { id, ...identity }, { agent: `agent-${pid}` })
    return id
  }
  return Promise.all(pids.map(join))
}

/** Hundreds of containers that say nothing any more and hold an item each. */
async function joinBusy(hf: Holdfast, env: MovableEnvironment) {
  const ids = await joinMany(hf, env, range(1_000, 510), container)
  await hf.queue('jobs').addMany(ids.map((payload) => ({ payload })))
  const long = { queue: 'jobs', leaseMs: 40 * minuteMs }
  await Promise.all(ids.map((instance) => hf.execute('queue.next', long, { agent: 'x', instance })))
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, index) => from + index)
const container = { hostName: 'container', pidNamespace: 'pid:[9]' }

forEachEngine((engine) => {
  test('one recovery reclaims everything that 150 dead processes held [S5c-1]', async () => {
    const { hf, env, store } = await engine.open({ background: false, recovery: false, agent: 'ada' })
    const host = machine(env)
    const pids = range(1_000, 150)
    const ids = await joinMany(hf, env, pids)
    await hf.queue('jobs').addMany(pids.map((payload) => ({ payload })))
    await Promise.all(
      ids.map((instance) => hf.execute('queue.next', { queue: 'jobs' }, { agent: 'dead', instance })),
    )
    for (const pid of pids) host.kill(pid)
    const survivor = await store.open({
      recovery: false,
      background: false,
      environment: host.process(1),
      agent: 'zoe',
    })

    const tried = await survivor.recovery.detectAndRecoverStale({ dryRun: true })
    const stats = await survivor.recovery.getRecoveryStats()
    const done = await survivor.recovery.detectAndRecoverStale()

    expect([tried.entriesReclaimed, stats.entriesReclaimed, done.entriesReclaimed]).toEqual([150, 150, 150])
    expect(done).toMatchObject({ instancesEnded: 150, more: false })
    expect(await survivor.queue('jobs').stats()).toMatchObject({ pending: 150, processing: 0 })
  })

  test('one recovery reclaims everything held by 120 processes that have since ended [S5c-1]', async () => {
    const { hf, env } = await engine.open({ background: false, recovery: false, agent: 'ada' })
    const pids = range(1_000, 120)
    const ids = await joinMany(hf, env, pids)
    await hf.queue('jobs').addMany(pids.map((payload) => ({ payload })))
    // Claimed by another agent, so they do not give it back themselves.
    await Promise.all(
      ids.map((instance) => hf.execute('queue.next', { queue: 'jobs' }, { agent: 'other', instance })),
    )
    await Promise.all(
      ids.map((id, index) =>
        hf.execute('instance.end', { id, reason: 'over' }, { agent: `agent-${pids[index]}` }),
      ),
    )

    const tried = await hf.recovery.detectAndRecoverStale({ dryRun: true })
    const done = await hf.recovery.detectAndRecoverStale()

    expect([tried.entriesReclaimed, done.entriesReclaimed, done.more]).toEqual([120, 120, false])
    expect(await hf.queue('jobs').stats()).toMatchObject({ pending: 120, processing: 0 })
  })

  test('a process is ended once it holds nothing of its own, whatever others claimed in its name [S5c-1]', async () => {
    const { hf, env } = await engine.open({ background: false, recovery: false, agent: 'ada' })
    const [id = ''] = await joinMany(hf, env, [7])
    await hf.queue('jobs').addMany(range(0, 250).map((payload) => ({ payload })))
    const claim = async (agent: string, limit: number) =>
      hf.execute('queue.claimMany', { queue: 'jobs', limit }, { agent, instance: id })
    await claim('other', 100)
    await claim('agent-7', 100)
    await claim('agent-7', 20)
    const end = () => hf.execute('instance.end', { id, reason: 'over' }, { agent: 'agent-7' })

    const answers = [await end(), await end()]

    expect(answers).toEqual([
      { released: 100, more: true },
      { released: 20, more: false },
    ])
    expect(await hf.queue('jobs').stats()).toMatchObject({ pending: 150, processing: 100 })
    expect((await hf.agents.list()).map((each) => each.id)).not.toContain(id)
  })

  describe('processes that cannot be judged', () => {
    test('do not hide a dead process of this machine, however many they are [S5c-1]', async () => {
      const { hf, env, store } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      await joinMany(hf, env, range(1_000, 510), container)
      const host = machine(env)
      const victim = await store.open({ agent: 'victim', environment: host.process(101), leaseMs: 3_600_000 })
      const survivor = await store.open({ agent: 'survivor', environment: host.process(102) })
      await survivor.queue('jobs').add('p')
      await victim.queue('jobs').next()

      host.kill(101)
      await env.advance(1_000)

      expect(await survivor.queue('jobs').stats()).toMatchObject({ pending: 1, processing: 0 })
    })

    test('are ended after ten minutes of silence if they hold nothing [S5c-1]', async () => {
      const { hf, env } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      const [idle = '', busy = ''] = await joinMany(hf, env, [7, 8], container)
      await hf.queue('jobs').add('p')
      await hf.execute(
        'queue.next',
        { queue: 'jobs', leaseMs: 40 * minuteMs },
        { agent: 'x', instance: busy },
      )

      await env.advance(10 * minuteMs)
      const inTime = await hf.recovery.detectAndRecoverStale()
      await env.advance(1)
      const over = await hf.recovery.detectAndRecoverStale()
      await env.advance(31 * minuteMs)
      await hf.recovery.detectAndRecoverStale()
      const lapsed = await hf.recovery.detectAndRecoverStale()

      expect([inTime.instancesEnded, over.instancesEnded]).toEqual([0, 1])
      const { events } = (await hf.execute('events.list', { subject: 'instance', id: idle })) as {
        events: object[]
      }
      expect(events.at(-1)).toMatchObject({
        kind: 'instance.ended',
        detail: { evidence: expect.stringMatching(/^no beat for \d+ ms/) },
      })
      expect(lapsed.instancesEnded).toBe(0)
      expect((await hf.agents.list()).map(({ id }) => id)).not.toContain(busy)
    })

    test('are all ended by one recovery, however many there are, whatever other silent ones hold [S5c-1]', async () => {
      const { hf, env } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      await joinBusy(hf, env)
      // Later than those that hold something: whoever looks for the longest silence finds these last.
      await env.advance(1)
      await joinMany(hf, env, range(2_000, 510), container)

      await env.advance(11 * minuteMs)
      const { instancesEnded } = await hf.recovery.detectAndRecoverStale()

      expect(instancesEnded).toBe(510)
    })

    test('are ended in the background although hundreds of equally silent ones hold something [S5c-1]', async () => {
      const { hf, env, store } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      await joinBusy(hf, env)
      await env.advance(1)
      const [idle = ''] = await joinMany(hf, env, [7], container)
      await env.advance(11 * minuteMs)

      await store.open({ agent: 'zoe', environment: unknowing(machine(env).process(1)) })
      await env.advance(minuteMs)

      const { events } = (await hf.execute('events.list', { subject: 'instance', id: idle })) as {
        events: object[]
      }
      expect(events.at(-1)).toMatchObject({ kind: 'instance.ended', agent: 'zoe' })
    })

    test('are kept while they are registered or named by a claim: those send no heartbeats [S5c-1]', async () => {
      const { hf, env, store } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      const identity = { ...env.host.identity, ...container, pid: 9, startTime: 'then' }
      const inside = await store.open({
        background: false,
        recovery: false,
        environment: machine(env, container).process(9),
      })
      await inside.agents.register({ agent: 'registered' })
      await hf.execute('instance.join', { ...identity, pid: 10 }, { agent: 'named' })

      await env.advance(60 * minuteMs)
      const { instancesEnded } = await hf.recovery.detectAndRecoverStale()

      expect(instancesEnded).toBe(0)
      expect((await hf.agents.list()).map(({ agent }) => agent).sort()).toEqual(['named', 'registered'])
    })

    test('are kept while this machine sees them alive, even if they are silent [S5c-1]', async () => {
      const { hf, env, store } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      await joinMany(hf, env, [7])
      const judge = await store.open({
        background: false,
        recovery: false,
        environment: machine(env).process(1),
        agent: 'zoe',
      })

      await env.advance(60 * minuteMs)

      expect((await judge.recovery.detectAndRecoverStale()).instancesEnded).toBe(0)
    })

    test('no longer receive broadcasts [S5c-1]', async () => {
      const { hf, env } = await engine.open({ background: false, recovery: false, agent: 'ada' })
      await joinMany(hf, env, [7, 8], container)
      await hf.messages.register('bob')
      const recipients = async () => {
        const { message } = await hf.messages.sendWithAck('*', { content: 1, quorum: 'all' })
        return { names: message.deliveries.map(({ recipient }) => recipient).sort(), quorum: message.quorum }
      }
      const before = await recipients()
      await env.advance(10 * minuteMs + 1)
      await hf.recovery.detectAndRecoverStale()

      expect(before).toEqual({ names: ['agent-7', 'agent-8', 'bob'], quorum: 3 })
      expect(await recipients()).toEqual({ names: ['bob'], quorum: 1 })
      expect(await hf.agents.list()).toEqual([])
    })
  })

  test('a process that wakes after a long silence joins again and carries on [S5c-1]', async () => {
    const { env, store } = await engine.open({ background: false, recovery: false })
    const [here, elsewhere] = [machine(env), machine(env, container)]
    const sleeper = await store.open({ agent: 'sleeper', environment: elsewhere.process(5), ...rareProbes })
    const peer = await store.open({ agent: 'peer', environment: unknowing(here.process(1)), ...rareProbes })
    elsewhere.freeze(5)
    await env.advance(11 * minuteMs)
    const gone = (await peer.agents.list()).map(({ agent }) => agent)

    elsewhere.thaw(5)
    await env.advance(minuteMs)
    await peer.queue('jobs').add('p')
    await sleeper.queue('jobs').next()

    expect(gone).toEqual(['peer'])
    expect((await peer.agents.list()).map(({ agent }) => agent).sort()).toEqual(['peer', 'sleeper'])
    expect(
      await present(
        peer
          .queue('jobs')
          .peek()
          .then(() => peer.queue('jobs').stats()),
      ),
    ).toMatchObject({
      processing: 1,
    })
  })
})

/** It can judge nobody but itself. */
function unknowing(environment: ReturnType<ReturnType<typeof machine>['process']>): typeof environment {
  const { host } = environment
  return {
    ...environment,
    host: {
      ...host,
      judge: (other, isLocal) =>
        other.hostName === host.identity.hostName
          ? host.judge(other, isLocal)
          : { liveness: 'unknown', evidence: 'it runs elsewhere' },
    },
  }
}
