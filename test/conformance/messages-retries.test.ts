/** Retries: on schedule, under the same id, one lease and one send a row; an answer wins over a retry under way. */
import type { Adapter, Delivered } from 'holdfast'
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs, type LogLine } from '../support/logs.ts'
import { gate, openPost, passAfter, reachBob, recorder } from '../support/messages.ts'
import { refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

const down: Delivered = { outcome: 'failed', error: 'nobody at home', transient: false }

forEachEngine((engine) => {
  test('retries follow after 30, 60 and 120 s, are marked, and keep the id [A3] [S7]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    const { message } = await post.messages.sendWithAck('bob', { content: 'hi' })
    const sentAfter: number[] = []
    const start = post.env.now()

    await post.messages.processRetries()
    for (let step = 1; step <= 22; step++) {
      const { retried } = await passAfter(post, 10_000)
      if (retried > 0) sentAfter.push((post.env.now() - start) / 1000)
    }

    expect(sentAfter).toEqual([30, 90, 210])
    expect(pigeon.heard.map(({ id, attemptId, marker }) => ({ id, attemptId, marker }))).toEqual([
      { id: message.id, attemptId: `${message.id}.1`, marker: '[REQUIRES-ACK]' },
      { id: message.id, attemptId: `${message.id}.2`, marker: '[RETRY-1]' },
      { id: message.id, attemptId: `${message.id}.3`, marker: '[RETRY-2]' },
      { id: message.id, attemptId: `${message.id}.4`, marker: '[RETRY-3]' },
    ])
    expect(pigeon.heard[1]?.text).toBe('[RETRY-1] INFO from alice: hi')
    expect(await post.messages.get(message.id)).toMatchObject({ state: 'sent' })
  })

  test('a retry gives no adapter the address that the recipient registered with another one since [A13]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    await post.messages.register('bob', { address: 'loft 3', agent: 'bob' })
    await post.messages.sendWithAck('bob', { content: 1 })
    await post.messages.processRetries()
    await post.messages.register('bob', { adapter: 'raven', address: 'tower 1', agent: 'bob' })
    await passAfter(post, 30_000)

    expect(pigeon.heard.map(({ address }) => address)).toEqual(['loft 3', null])
  })

  test('nothing is sent before its time, and after one retry the next is 60 s away [A3] [A8]', async () => {
    const post = await openPost(engine)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    const early = await passAfter(post, 29_999)
    const due = await passAfter(post, 1)

    expect(early).toEqual({
      processed: 0,
      retried: 0,
      failed: 0,
      escalated: 0,
      dead: 0,
      deferred: 0,
      superseded: 0,
    })
    expect(due).toMatchObject({ processed: 1, retried: 1 })
    expect(await post.messages.get(message.id)).toMatchObject({
      deliveries: [{ attempts: 2, dueInMs: 60_000 }],
    })
    expect((await post.messages.inbox({ agent: 'bob' })).messages).toMatchObject([{ marker: '[RETRY-1]' }])
  })

  test('each message may have its own timeout and delays [A2] [A3]', async () => {
    const post = await openPost(engine)
    const first = await post.messages.sendWithAck('bob', { content: 1, timeoutMs: 5_000 })
    const second = await post.messages.sendWithAck('bob', { content: 2, delaysMs: [1_000, 2_000] })

    expect(first.message.policy).toMatchObject({ delaysMs: [5_000, 60_000, 120_000], lastWaitMs: 120_000 })
    expect(second.message.policy).toMatchObject({ delaysMs: [1_000, 2_000], lastWaitMs: 2_000 })
    expect(await passAfter(post, 1_000)).toMatchObject({ retried: 1 })
    expect(await passAfter(post, 4_000)).toMatchObject({ retried: 2 })
  })

  test('one failing delivery does not stop the others and is counted [A8] [S3]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { logger })
    const pigeon = await reachBob(post, ({ content }) => {
      if (content === 'throws') throw new Error('no such pane')
      return content === 'fails' ? down : { outcome: 'delivered' }
    })
    const contents = ['one', 'throws', 'two', 'fails', 'three']
    for (const content of contents) await post.messages.sendWithAck('bob', { content })
    await post.messages.sendWithAck('carol', { content: 'by inbox' })

    const passing = post.messages.processRetries()
    await post.env.advance(5_000)
    const counts = await passing

    expect(counts).toMatchObject({ processed: 5, retried: 3, failed: 2 })
    expect(pigeon.heard.filter(({ content }) => content === 'throws')).toHaveLength(3)
    expect(pigeon.heard.filter(({ content }) => content === 'fails')).toHaveLength(1)
    const { messages } = await post.messages.checkPendingAcks()
    expect(messages.map(({ deliveries }) => deliveries[0]?.error ?? null)).toEqual([
      null,
      'Error: no such pane',
      null,
      'nobody at home',
      null,
      null,
    ])
    expect(named('delivery.failed').map(({ facts }) => facts.error)).toEqual(
      expect.arrayContaining(['Error: no such pane', 'nobody at home']),
    )
  })

  test('an unreachable recipient stays pending, is retried on schedule, and throws nothing [A13] [S3]', async () => {
    const post = await openPost(engine)
    await reachBob(post, () => down)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    const counts = [await post.messages.processRetries(), await passAfter(post, 30_000)]

    expect(counts.map(({ failed, retried }) => ({ failed, retried }))).toEqual([
      { failed: 1, retried: 0 },
      { failed: 1, retried: 0 },
    ])
    expect(await post.messages.get(message.id)).toMatchObject({
      state: 'queued',
      deliveries: [{ state: 'failed', attempts: 2, error: 'nobody at home', dueInMs: 60_000 }],
    })
    expect((await post.messages.inbox({ agent: 'bob' })).messages).toHaveLength(1)
  })

  test('an adapter that does not return is abandoned when its time is up [A13]', async () => {
    const post = await openPost(engine)
    const silent = { timeoutMs: 2_000, send: () => new Promise<Delivered>(() => {}) }
    post.messages.adapter('pigeon', silent)
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    const passing = post.messages.processRetries()
    await post.env.advance(8_000)

    expect(await passing).toMatchObject({ failed: 1 })
    expect(await post.messages.get(message.id)).toMatchObject({
      deliveries: [{ state: 'failed', error: 'no answer within 2000 ms' }],
    })
  })

  test.each<[string, Partial<Adapter>, string | string[], number]>([
    ['to one', {}, 'bob', 10_000],
    ['to many', {}, ['bob', 'erin'], 5_000],
    ['to many by a slow adapter', { timeoutMs: 20_000 }, ['bob', 'erin'], 20_000],
    ['to many by its own time', { timeoutMs: 20_000, broadcastTimeoutMs: 1_000 }, ['bob', 'erin'], 1_000],
    ['to one by its own time', { timeoutMs: 20_000, broadcastTimeoutMs: 1_000 }, 'bob', 20_000],
  ])('an attempt %s has %j, to %j: %d ms [A13]', async (_what, times, to, timeoutMs) => {
    const post = await openPost(engine)
    post.messages.adapter('pigeon', { ...times, send: () => new Promise<Delivered>(() => {}) })
    for (const name of ['bob', 'erin']) await post.messages.register(name, { adapter: 'pigeon', agent: name })
    const { message } = await post.messages.sendWithAck(to, { content: 1 })

    const passing = post.messages.processRetries()
    await post.env.advance(3 * timeoutMs + 3_000)

    const count = [to].flat().length
    expect(await passing).toMatchObject({ failed: count })
    expect((await post.messages.get(message.id))?.deliveries.map(({ error }) => error)).toEqual(
      Array(count).fill(`no answer within ${timeoutMs} ms`),
    )
  })

  test('an agent an escalation goes to learns that it is a broadcast, if there are several [A13]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    const ladder = [
      { to: ['bob'], waitMs: 1_000 },
      { to: ['bob', 'dave'], waitMs: 1_000 },
      { to: '*' as const, waitMs: 1_000 },
    ]
    await post.messages.sendWithAck('carol', { content: 1, delaysMs: [], ladder })
    for (let level = 0; level < 4; level++) await passAfter(post, 1_000)

    expect(pigeon.heard.map(({ level, broadcast }) => [level, broadcast])).toEqual([
      [1, false],
      [2, true],
      [3, true],
    ])
  })

  test('transient errors are retried three times before the attempt counts as failed [A13]', async () => {
    const post = await openPost(engine)
    let left = 2
    const pigeon = await reachBob(post, () =>
      left-- > 0 ? { outcome: 'failed', error: 'busy', transient: true } : { outcome: 'delivered' },
    )
    await post.messages.sendWithAck('bob', { content: 1 })

    const passing = post.messages.processRetries()
    await post.env.advance(3_000)

    expect(await passing).toMatchObject({ retried: 1, failed: 0 })
    expect(pigeon.heard.map(({ attempt }) => attempt)).toEqual([1, 1, 1])
  })

  test('the race of A, B and C: an answer to B during a slow retry of A counts, and each was sent once [A9] [S1] [S8]', async () => {
    const post = await openPost(engine)
    const slow = gate()
    const begun = gate()
    const pigeon = await reachBob(post, async ({ content, attempt }) => {
      if (content === 'A' && attempt === 2) {
        begun.open()
        await slow.opened
      }
      return { outcome: 'delivered' }
    })
    const ids: string[] = []
    for (const content of ['A', 'B', 'C'])
      ids.push((await post.messages.sendWithAck('bob', { content })).message.id)
    const [a, b, c] = ids as [string, string, string]
    await post.messages.processRetries()
    await post.env.advance(30_000)

    const passing = post.messages.processRetries()
    await begun.opened
    const { outcome } = await post.messages.receiveAck(b, { agent: 'bob' })
    slow.open()
    const counts = await passing

    expect(outcome).toBe('acked')
    expect(counts.retried + counts.superseded).toBe(3)
    expect(await post.messages.get(a)).toMatchObject({ state: 'sent', deliveries: [{ attempts: 2 }] })
    expect(await post.messages.get(b)).toMatchObject({ state: 'acked' })
    expect(await post.messages.get(c)).toMatchObject({ state: 'sent', deliveries: [{ attempts: 2 }] })
    expect(pigeon.heard.filter(({ attempt }) => attempt === 2).map(({ content }) => content)).toEqual([
      'A',
      'B',
      'C',
    ])
    expect(await post.messages.processRetries()).toMatchObject({ processed: 0 })
  })

  test.each([
    ['an acknowledgement', 'acked'],
    ['a refusal', 'escalated'],
    ['a sign of progress', 'sent'],
    ['clearing', 'cancelled'],
  ] as const)(
    '%s during the retry wins, and the retry’s record is dropped and logged with both versions [A9] [S5-18]',
    async (what, state) => {
      const logs = collectLogs()
      const post = await openPost(engine, { logger: logs.logger })
      const { messages } = post
      let id = ''
      const answers = {
        'an acknowledgement': () => messages.receiveAck(id, { agent: 'bob' }),
        'a refusal': () => messages.nack(id, { agent: 'bob' }),
        'a sign of progress': () => messages.progressAck(id, { agent: 'bob' }),
        clearing: () => messages.clearPendingAcks(),
      }
      const answering = recorder(async ({ attempt }) => {
        if (attempt === 2) await answers[what]()
        return { outcome: 'delivered' }
      })
      messages.adapter('pigeon', answering)
      await messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
      const sent = await messages.sendWithAck('bob', { content: 1, ladder: [{ to: ['carol'], waitMs: 1 }] })
      id = sent.message.id
      await messages.processRetries()
      await post.env.advance(30_000)

      const counts = await messages.processRetries()

      expect(counts).toMatchObject({ superseded: 1 })
      const [conflict] = logs.named('message.conflict')
      expect(conflict).toMatchObject({ level: 'info', facts: { delivery: expect.stringContaining(id) } })
      const { expected, found } = (conflict as LogLine).facts as { expected: number; found: number }
      expect(found).toBeGreaterThan(expected)
      expect(answering.heard.map(({ attempt }) => attempt)).toEqual([1, 2])
      expect(await messages.get(id)).toMatchObject({
        state,
        deliveries: expect.arrayContaining([expect.objectContaining({ recipient: 'bob', attempts: 1 })]),
      })
    },
  )

  test('two concurrent processes send each due message once [A8] [A12] [S8]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    const other = await post.store.open({ agent: 'other', redelivery: false, adapters: { pigeon } })
    for (let number = 0; number < 30; number++) await post.messages.sendWithAck('bob', { content: number })

    const counts = await Promise.all([post.messages.processRetries(), other.messages.processRetries()])

    expect(pigeon.heard.map(({ content }) => content).toSorted(byNumber)).toEqual(
      Array.from({ length: 30 }, (_, number) => number),
    )
    expect(counts[0].retried + counts[1].retried).toBe(30)
  })

  test('a message that could not be sent says so when it becomes a dead letter [S5c-47]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { logger })
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    await post.messages.register('carol', { adapter: 'owl', agent: 'carol' })
    const { message } = await post.messages.sendWithAck('bob', {
      content: 1,
      delaysMs: [1_000],
      ladder: [{ to: ['carol'], waitMs: 1_000 }],
    })
    await passAfter(post, 2_000)

    await passAfter(post, 1_000)

    const reason = 'it was never sent: no open process had the adapter'
    expect(await post.messages.get(message.id)).toMatchObject({
      state: 'dead',
      note: `${reason} "pigeon" or "owl"`,
      deliveries: [
        { recipient: 'bob', attempts: 0, error: `${reason} "pigeon"` },
        { recipient: 'carol', attempts: 0, error: `${reason} "owl"` },
      ],
    })
    expect(named('message.dead')).toMatchObject([
      { facts: { id: message.id, reason: `${reason} "pigeon" or "owl"` } },
    ])
  })

  test('a message that waits for an adapter that no open process has is reported [S5c-47]', async () => {
    const post = await openPost(engine)
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    await post.messages.sendWithAck('bob', { content: 1, timeoutMs: 300_000 })
    await post.messages.sendWithAck('carol', { content: 1, timeoutMs: 300_000 })
    const findings = async () =>
      (await post.hf.fleet.doctor()).findings.filter(({ check }) => check === 'messages_unsent')
    await post.env.advance(60_000)
    const early = await findings()
    await post.env.advance(1)

    expect(early).toEqual([])
    expect(await findings()).toMatchObject([
      {
        level: 'warning',
        what: expect.stringContaining('"pigeon"'),
        remedy: expect.stringContaining('pigeon'),
      },
    ])
    expect((await post.hf.fleet.status()).alerts).toMatchObject([{ code: 'messages_unsent' }])
  })

  test('a process claims only what it has an adapter for [A12]', async () => {
    const post = await openPost(engine)
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const carrier = await post.store.open({
      agent: 'carrier',
      redelivery: false,
      adapters: { pigeon: recorder() },
    })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    const without = await post.messages.processRetries()
    const before = await post.messages.get(message.id)
    const having = await carrier.messages.processRetries()

    expect(without.processed).toBe(0)
    expect(before).toMatchObject({ state: 'queued', deliveries: [{ attempts: 0, holder: null }] })
    expect(having.retried).toBe(1)
  })

  test('a claim whose sender never came back is sent again, as the same attempt, when its lease lapses [A8] [X1] [X3]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    const { claims } = (await post.hf.execute('messages.claimDue', {
      adapters: ['pigeon'],
      leaseMs: 10_000,
    })) as { claims: { id: string; token: number }[] }

    const held = await post.messages.get(message.id)
    const meanwhile = await passAfter(post, 10_000)
    await post.env.advance(1)
    const lapsed = await post.messages.get(message.id)
    const stats = await post.hf.recovery.getRecoveryStats()
    const stale = await post.hf.recovery.detectStaleLocks()
    const after = await post.messages.processRetries()
    const late = await refusalCode(() =>
      post.hf.execute('messages.record', {
        delivery: claims[0]?.id as string,
        token: claims[0]?.token as number,
        outcome: 'sent',
      }),
    )

    expect(held?.deliveries).toMatchObject([{ holder: 'alice', dueInMs: null }])
    expect(meanwhile.processed).toBe(0)
    expect(lapsed?.deliveries).toMatchObject([{ holder: null }])
    expect(stats).toMatchObject({ messagesReclaimed: 1, entriesReclaimed: 0 })
    expect(stale).toMatchObject({
      total: 1,
      expiredCount: 1,
      locks: [{ kind: 'delivery', title: 'bob', assignee: 'alice', isExpired: true }],
    })
    expect(after.retried).toBe(1)
    expect(pigeon.heard.map(({ attemptId }) => attemptId)).toEqual([`${message.id}.1`])
    expect(late).toBe('LEASE_LOST')
    expect(await post.messages.get(message.id)).toMatchObject({ deliveries: [{ attempts: 1 }] })
    expect(await post.hf.recovery.getRecoveryStats()).toMatchObject({
      messagesReclaimed: 0,
      totals: { messagesReclaimed: 1 },
    })
  })

  test('messages that a process proven dead was sending are due again at once, and the report counts them [A8] [X1]', async () => {
    const post = await openPost(engine)
    const { process, kill } = machine(post.env)
    const victim = await post.store.open({ agent: 'victim', environment: process(7), redelivery: false })
    const judge = await post.store.open({
      agent: 'judge',
      environment: process(8),
      recovery: false,
      redelivery: false,
    })
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    await victim.execute('messages.claimDue', { adapters: ['pigeon'], leaseMs: 60_000 })

    kill(7)
    const report = await judge.recovery.detectAndRecoverStale()

    expect(report).toMatchObject({
      messagesReclaimed: 1,
      entriesReclaimed: 0,
      reclaimed: [{ kind: 'delivery', id: `${message.id}/0`, holder: 'victim' }],
    })
    expect(await post.messages.get(message.id)).toMatchObject({ deliveries: [{ dueInMs: 0, attempts: 0 }] })
  })

  test('a message whose senders are lost three times counts as a failed attempt and causes no storm [A8] [S1]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    for (let crash = 0; crash < 3; crash++) {
      await post.hf.execute('messages.claimDue', { adapters: ['pigeon'], leaseMs: 0 })
      await post.env.advance(1)
      await post.hf.recovery.detectAndRecoverStale()
    }

    const counts = await post.messages.processRetries()

    expect(counts).toMatchObject({ failed: 1, retried: 0 })
    expect(pigeon.heard).toEqual([])
    expect(await post.messages.get(message.id)).toMatchObject({
      deliveries: [{ state: 'failed', attempts: 1, error: 'its sender was lost 3 times', dueInMs: 30_000 }],
    })
  })

  test('a sender that was frozen past its lease sends nothing and releases the claim [A8]', async () => {
    const post = await openPost(engine)
    let frozenMs = 0
    const pigeon = recorder(() => {
      if (frozenMs > 0) return { outcome: 'delivered' }
      frozenMs = 40_000
      return { outcome: 'failed', error: 'thawed', transient: true }
    })
    const frozen = await post.store.open({
      agent: 'frozen',
      background: false,
      adapters: { pigeon },
      environment: { ...machine(post.env).process(7), monotonic: () => post.env.monotonic() + frozenMs },
    })
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    const passing = frozen.messages.processRetries()
    await post.env.advance(3_000)

    expect(await passing).toMatchObject({ retried: 1, failed: 0 })
    expect(pigeon.heard).toHaveLength(2)
    expect((await post.messages.timeline(message.id)).map(({ kind }) => kind).slice(2)).toEqual([
      'delivery.claimed',
      'delivery.released',
      'delivery.claimed',
      'delivery.sent',
    ])
  })

  test('closing a process releases at once what it was sending [A8]', async () => {
    const post = await openPost(engine)
    const begun = gate()
    const stuck = {
      send: () => {
        begun.open()
        return new Promise<Delivered>(() => {})
      },
    }
    const leaving = await post.store.open({
      agent: 'leaving',
      redelivery: false,
      adapters: { pigeon: stuck },
    })
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    const passing = leaving.messages.processRetries()
    await begun.opened

    await leaving.close()
    await Promise.allSettled([passing])

    expect(await post.messages.get(message.id)).toMatchObject({
      deliveries: [{ attempts: 0, holder: null, dueInMs: 0 }],
    })
  })

  test('a record that cannot be written is an error, never a success [A10] [S4]', async () => {
    const post = await openPost(engine)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    await post.env.advance(30_000)
    const mend = await post.store.damage.failDeliveries()

    const pass = refusalCode(() => post.messages.processRetries())
    const ack = refusalCode(() => post.messages.receiveAck(message.id, { agent: 'bob' }))
    const clear = refusalCode(() => post.messages.clearPendingAcks())

    expect(await Promise.all([pass, ack, clear])).toEqual(['INTERNAL', 'INTERNAL', 'INTERNAL'])
    await mend()
    expect(await post.messages.getPendingCount()).toBe(1)
    expect(await post.messages.receiveAck(message.id, { agent: 'bob' })).toMatchObject({ outcome: 'acked' })
  })

  test('hundreds of due messages are each claimed, sent and recorded once [A8]', async () => {
    const post = await openPost(engine)
    const sends = Array.from({ length: 250 }, (_, content) => post.messages.sendWithAck('bob', { content }))
    await Promise.all(sends)

    const counts = await passAfter(post, 30_000)

    const kinds = (await readFeed(post.hf)).map(({ kind }) => kind)
    expect(counts).toMatchObject({ processed: 250, retried: 250, superseded: 0 })
    expect(kinds.filter((kind) => kind === 'delivery.claimed')).toHaveLength(250)
    expect(kinds.filter((kind) => kind === 'delivery.sent')).toHaveLength(250)
    expect(await post.messages.processRetries()).toMatchObject({ processed: 0 })
  })
})

function byNumber(left: unknown, right: unknown): number {
  return Number(left) - Number(right)
}
