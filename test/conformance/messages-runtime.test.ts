/** Background redelivery: in any open process, when something is due, beside retention and replay. */
import { getEventListeners } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { command, type Event, type OpenOptions, webhook } from 'holdfast'
import { type Replica, renewalFields, replay } from 'holdfast/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { openPost, type Post, passAfter, reachBob, recorder } from '../support/messages.ts'
import { dayMs, hourMs, retainFor } from '../support/retention.ts'
import { forEachEngine } from '../support/stores.ts'
import { neverLooks, untilWoken, whileTimePasses } from '../support/wake.ts'

forEachEngine((engine) => {
  test('an open process sends due messages in the background, and sleeps until then [A12]', async () => {
    const post = await openPost(engine, { background: true })
    const pigeon = await reachBob(post)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    await post.env.advance(100)
    const first = pigeon.heard.length
    await post.env.advance(29_000)
    const early = pigeon.heard.length
    await post.env.advance(5_000)

    expect([first, early, pigeon.heard.length]).toEqual([1, 1, 2])
    expect(pigeon.heard[1]).toMatchObject({ id: message.id, marker: '[RETRY-1]' })
  })

  test('another process retries inbox deliveries although the sender is gone [A12]', async () => {
    const post = await openPost(engine)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    await post.store.open({ agent: 'bystander' })

    await post.env.advance(45_000)

    expect(await post.messages.get(message.id)).toMatchObject({ deliveries: [{ attempts: 2 }] })
    expect((await post.messages.timeline(message.id)).at(-1)).toMatchObject({ agent: 'bystander' })
  })

  /** A process with nothing but its inbox, told of something or asleep; alice's sends no second time. */
  async function openReader(recipient: object = {}) {
    const post = await openPost(engine)
    await post.messages.register('bob', recipient)
    const bob = await post.store.open({ agent: 'bob', environment: neverLooks(post.env, 5_000) })
    await post.env.advance(1_000)
    return { ...post, bob }
  }

  test('a process that only reads its inbox learns at once of a message that its limit let through [S5c-12]', async () => {
    const { messages, env, bob } = await openReader({ deliveriesPerMinute: 60 })

    await messages.sendWithAck('bob', { content: 1 })
    await untilWoken(env, async () => (await bob.messages.inbox()).messages.length === 1)

    expect((await bob.messages.inbox()).messages).toMatchObject([{ content: 1 }])
  })

  test('a process that only reads its inbox learns at once of retries that are due soon [S5c-12]', async () => {
    const { messages, env } = await openReader()

    const { message } = await messages.sendWithAck('bob', { content: 1, timeoutMs: 2_000 })
    const attempts = async () => (await messages.get(message.id))?.deliveries[0]?.attempts
    await untilWoken(env, async () => (await attempts()) === 2)

    expect(await attempts()).toBe(2)
  })

  test('a process that only reads its inbox looks a few times per second, however often its bell rings [S5c-12]', async () => {
    // Whatever looks asks for random numbers; what else does so does the same without redelivery.
    const countRandom = async (redelivery: boolean) => {
      const post = await openPost(engine)
      await post.messages.register('bob')
      let asked = 0
      const random = () => {
        asked++
        return 0.5
      }
      const environment = { ...neverLooks(post.env, 5_000), random }
      const bob = await post.store.open({ agent: 'bob', environment, redelivery })
      const feed = bob.events({ kinds: ['message.created'] })
      await post.env.advance(1_000)
      asked = 0
      const startedAt = post.env.now()
      for (let step = 0; step < 20; step++) {
        await post.messages.sendWithAck('bob', { content: step })
        // The bell of the feed is rung together with that of the inbox, so bob has heard both.
        await whileTimePasses(post.env, feed.next())
      }
      return { asked, seconds: (post.env.now() - startedAt) / 1_000 }
    }

    const looking = await countRandom(true)
    const looks = looking.asked - (await countRandom(false)).asked

    expect(looks).toBeGreaterThan(2)
    expect(looks / looking.seconds).toBeLessThanOrEqual(12)
  })

  test('escalations and dead letters happen in the background too [A4] [A12]', async () => {
    const post = await openPost(engine, { background: true })
    const { message } = await post.messages.sendWithAck('bob', {
      content: 1,
      delaysMs: [1_000],
      ladder: [{ to: ['carol'], waitMs: 5_000 }],
    })

    for (let step = 0; step < 20; step++) await post.env.advance(1_000)

    expect(await post.messages.get(message.id)).toMatchObject({ state: 'dead' })
  })

  test.each<[string, OpenOptions]>([
    ['turned off', { redelivery: false }],
    ['without a background', { background: false }],
  ])('redelivery %s sends nothing by itself [A12]', async (_, options) => {
    const post = await openPost(engine, { background: true, ...options })
    const pigeon = await reachBob(post)
    await post.messages.sendWithAck('bob', { content: 1 })

    await post.env.advance(60_000)

    expect(pigeon.heard).toEqual([])
    expect(await post.messages.processRetries()).toMatchObject({ retried: 1 })
  })

  test('constant rings do not keep redelivery from its work [A12]', async () => {
    const post = await openPost(engine, { background: true })
    const pigeon = await reachBob(post)
    const other = await post.store.open({ agent: 'other', redelivery: false })
    await other.messages.sendWithAck('bob', { content: 1 })

    for (let step = 0; step < 10; step++) {
      await post.hf.queue('jobs').add(step)
      await post.env.advance(10)
    }

    expect(pigeon.heard).toHaveLength(1)
  })

  test('a failure of redelivery is logged and does not stop it [A12]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { background: true, logger })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    const mend = await post.store.damage.failDeliveries()
    await post.env.advance(45_000)
    const failures = named('redelivery.failed').length

    await mend()
    await post.env.advance(45_000)

    expect(failures).toBeGreaterThan(0)
    expect(failures).toBeLessThan(20)
    expect(await post.messages.get(message.id)).toMatchObject({ deliveries: [{ attempts: 2 }] })
  })

  test('a failure of one adapter is retried no sooner because another has nothing to send [A12]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { background: true, logger })
    post.messages.adapter('pigeon', recorder())
    await post.messages.sendWithAck('bob', { content: 1 })
    const mend = await post.store.damage.failDeliveries()

    await post.env.advance(45_000)
    await mend()

    const failures = named('redelivery.failed').length
    expect(failures).toBeGreaterThan(0)
    expect(failures).toBeLessThan(20)
  })

  test.each([
    ['nothing', undefined],
    ['a word', 'ok'],
    ['an outcome nobody knows', { outcome: 'sent' }],
    ['a failure without a reason', { outcome: 'failed' }],
  ])('an adapter that returns %s has failed, and affects nothing else [A8]', async (_, answer) => {
    const post = await openPost(engine)
    const { message: settled } = await post.messages.sendWithAck('carol', {
      content: 1,
      delaysMs: [1_000],
      ladder: [],
    })
    await reachBob(post, () => answer as never)
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    await post.env.advance(1_000)

    const counts = await post.messages.processRetries()
    await passAfter(post, 1_000)

    expect(counts).toMatchObject({ failed: 1 })
    expect(await post.messages.get(message.id)).toMatchObject({
      deliveries: [{ error: expect.stringContaining('adapter') }],
    })
    expect(await post.messages.get(settled.id)).toMatchObject({ state: 'dead' })
  })

  test('a last attempt cut short by closing the store is not a failed one: it is repeated [A8]', async () => {
    const post = await openPost(engine)
    const leaving = await post.store.open({ agent: 'leaving', redelivery: false })
    let tries = 0
    leaving.messages.adapter('pigeon', {
      send: () => {
        tries++
        if (tries < 3) throw new Error('not now')
        return new Promise(() => {})
      },
    })
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })
    const passing = leaving.messages.processRetries()
    await post.env.advance(2_000)

    await leaving.close()
    await passing
    const pigeon = await reachBob(post)
    await post.messages.processRetries()

    expect(tries).toBe(3)
    expect(pigeon.heard).toMatchObject([{ id: message.id, attempt: 1 }])
  })

  test('an attempt that takes long makes neither its retry nor an escalation late [A4] [A12]', async () => {
    const post = await openPost(engine, { background: true })
    const { env, messages } = post
    const pigeon = await reachBob(post, async () => {
      await new Promise<void>((arrived) => env.timer(1_000, arrived))
      return { outcome: 'delivered' }
    })
    const { message } = await messages.sendWithAck('bob', { content: 1, delaysMs: [1_000], ladder: [] })

    for (let step = 0; step < 25; step++) await env.advance(100)
    const attempts = pigeon.heard.length
    for (let step = 0; step < 35; step++) await env.advance(100)

    expect(attempts).toBe(2)
    expect(await messages.get(message.id)).toMatchObject({ state: 'dead', deliveries: [{ attempts: 2 }] })
  })

  describe('while one recipient does not answer', () => {
    /** Erin's adapter is the same as bob's, and bob's never answers. */
    async function openHanging() {
      const post = await openPost(engine, { background: true })
      const pigeon = recorder(({ recipient }) =>
        recipient === 'bob' ? new Promise<never>(() => {}) : { outcome: 'delivered' },
      )
      post.messages.adapter('pigeon', { ...pigeon, timeoutMs: 600_000 })
      for (const agent of ['bob', 'erin']) await post.messages.register(agent, { adapter: 'pigeon', agent })
      return { ...post, heard: () => pigeon.heard.map(({ recipient }) => recipient) }
    }

    test('others are sent to by the same adapter, again and again [A12]', async () => {
      const { messages, env, heard } = await openHanging()
      await messages.sendWithAck('bob', { content: 1 })
      await env.advance(1_000)

      await messages.sendWithAck('erin', { content: 2, delaysMs: [5_000], ladder: [] })
      await env.advance(1_000)
      const soon = heard()
      for (let step = 0; step < 10; step++) await env.advance(1_000)

      expect(soon).toEqual(['bob', 'erin'])
      expect(heard()).toEqual(['bob', 'erin', 'erin'])
    })

    test('inboxes are reached again and messages escalate on time [A4] [A12]', async () => {
      const { messages, env } = await openHanging()
      await messages.sendWithAck('bob', { content: 1 })
      await env.advance(1_000)

      const ladder = [{ to: ['dave'], waitMs: 5_000 }]
      const { message } = await messages.sendWithAck('carol', { content: 2, delaysMs: [5_000], ladder })
      for (let step = 0; step < 20; step++) await env.advance(1_000)

      expect(await messages.get(message.id)).toMatchObject({
        state: 'dead',
        deliveries: [{ attempts: 2 }, {}],
      })
    })

    test('no more than ten attempts of an adapter run at once', async () => {
      const { messages, env, heard } = await openHanging()

      for (let step = 0; step < 25; step++) {
        await messages.sendWithAck('bob', { content: step, agent: 'alice' })
        await env.advance(1_000)
      }

      expect(heard()).toHaveLength(10)
    })
  })

  test('a process with many adapters sends through each of them [A12]', async () => {
    const adapters = Object.fromEntries(Array.from({ length: 60 }, (_, number) => [`a${number}`, recorder()]))
    const post = await openPost(engine, { background: true, adapters })
    await post.messages.register('bob', { adapter: 'a59', agent: 'bob' })

    await post.messages.sendWithAck(['bob', 'carol'], { content: 1 })
    await post.env.advance(100)

    expect(adapters.a59?.heard).toHaveLength(1)
    expect((await post.messages.inbox({ agent: 'carol' })).messages).toHaveLength(1)
  })

  test('a finished attempt leaves no listener behind [A12]', async () => {
    const post = await openPost(engine)
    const signals: AbortSignal[] = []
    post.messages.adapter('pigeon', {
      async send(_, signal) {
        signals.push(signal)
        return { outcome: 'delivered' }
      },
    })
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    await post.messages.sendWithAck('bob', { content: 1 })

    await passAfter(post, 30_000)

    expect(signals.length).toBeGreaterThan(0)
    expect(signals.map((signal) => getEventListeners(signal, 'abort').length)).toEqual(signals.map(() => 0))
  })

  test('a webhook gets each attempt with the message id and its own key; 2xx means delivered, not acknowledged [A13]', async () => {
    const seen: { id: unknown; key: unknown; attempt: unknown; body: { content?: unknown; id?: string } }[] =
      []
    const answers = [500, 200, 404, 302]
    const server = createServer((request, response) => {
      let text = ''
      request.on('data', (chunk) => {
        text += chunk
      })
      request.on('end', () => {
        const {
          'holdfast-message': id,
          'idempotency-key': key,
          'holdfast-attempt': attempt,
        } = request.headers
        seen.push({ id, key, attempt, body: JSON.parse(text) })
        response.writeHead(answers[seen.length - 1] ?? 200, { location: '/elsewhere' }).end('thanks')
      })
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', () => listening()))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const { hf } = await engine.openInRealTime({
      agent: 'alice',
      redelivery: false,
      adapters: { hook: webhook({ url: `http://127.0.0.1:${port}/`, headers: { 'x-team': 'one' } }) },
    })
    await hf.messages.register('bob', { adapter: 'hook' })

    const { message } = await hf.messages.sendWithAck('bob', { content: { build: 7 } })
    const delivered = await hf.messages.processRetries()
    const after = await hf.messages.get(message.id)
    await hf.messages.nack(message.id, { agent: 'bob', retry: true })
    const refused = await hf.messages.processRetries()
    await hf.messages.nack(message.id, { agent: 'bob', retry: true })
    const redirected = await hf.messages.processRetries()

    expect(delivered).toMatchObject({ retried: 1, failed: 0 })
    expect(after).toMatchObject({
      state: 'sent',
      deliveries: [{ state: 'sent', attempts: 1, ackedAt: null }],
    })
    expect(refused).toMatchObject({ failed: 1 })
    expect(redirected).toMatchObject({ failed: 1 })
    expect(seen.map(({ id, key, attempt }) => ({ id, key, attempt }))).toEqual([
      { id: message.id, key: `${message.id}.1.0.bob`, attempt: '1' },
      { id: message.id, key: `${message.id}.1.0.bob`, attempt: '1' },
      { id: message.id, key: `${message.id}.2.0.bob`, attempt: '2' },
      { id: message.id, key: `${message.id}.3.0.bob`, attempt: '3' },
    ])
    expect(seen[0]?.body).toMatchObject({ id: message.id, content: { build: 7 } })
    expect(await hf.messages.get(message.id)).toMatchObject({ deliveries: [{ error: 'HTTP 302' }] })
  })

  test('an unreachable webhook leaves the message pending, with the reason [A13]', async () => {
    const { hf } = await engine.openInRealTime({
      agent: 'alice',
      redelivery: false,
      adapters: { hook: webhook({ url: 'http://127.0.0.1:9/', timeoutMs: 2_000 }) },
    })
    await hf.messages.register('bob', { adapter: 'hook' })
    const { message } = await hf.messages.sendWithAck('bob', { content: 1 })

    expect(await hf.messages.processRetries()).toMatchObject({ failed: 1 })
    expect((await hf.messages.get(message.id))?.deliveries[0]?.error).toContain('fetch failed')
  })

  test('a command gets the message on stdin, no shell interprets it, and its exit code decides [A13]', async () => {
    const program = `
      let text = ''
      process.stdin.on('data', (chunk) => { text += chunk }).on('end', () => {
        const { content, address } = JSON.parse(text)
        process.stderr.write(process.argv[1] + ' ' + content + ' ' + address)
        process.exit(content === 'well' ? 0 : 3)
      })`
    const { hf } = await engine.openInRealTime({
      agent: 'alice',
      redelivery: false,
      adapters: {
        run: command({
          argv: ({ address }) => [process.execPath, '-e', program, `$(touch x); ${address}`],
        }),
        missing: command({ argv: ['./no-such-program'] }),
        slow: command({ argv: [process.execPath, '-e', 'setInterval(() => {}, 1000)'], timeoutMs: 300 }),
        nothing: command({ argv: [] }),
      },
    })
    await hf.messages.register('bob', { adapter: 'run', address: 'pane 4' })
    for (const name of ['missing', 'slow', 'nothing']) await hf.messages.register(name, { adapter: name })
    const well = await hf.messages.sendWithAck('bob', { content: 'well' })
    const badly = await hf.messages.sendWithAck('bob', { content: 'badly' })
    const others = await hf.messages.sendWithAck(['missing', 'slow', 'nothing'], { content: 1 })

    await hf.messages.processRetries()

    const errors = async (id: string) => (await hf.messages.get(id))?.deliveries.map(({ error }) => error)
    expect(await hf.messages.get(well.message.id)).toMatchObject({ state: 'sent' })
    expect(await errors(badly.message.id)).toEqual([
      `${process.execPath} exited with code 3: $(touch x); pane 4 badly pane 4`,
    ])
    expect(await errors(others.message.id)).toEqual([
      expect.stringContaining('ENOENT'),
      expect.stringContaining('no answer within 300 ms'),
      'no command was given',
    ])
  })

  test('a command that exits with success has delivered, whatever it left running [A13]', async () => {
    const leavesOneBehind = command({ argv: ['sh', '-c', 'sleep 10 & exit 0'], timeoutMs: 5_000 })
    const { hf } = await engine.openInRealTime({
      agent: 'alice',
      redelivery: false,
      adapters: { run: leavesOneBehind },
    })
    await hf.messages.register('bob', { adapter: 'run' })
    await hf.messages.sendWithAck('bob', { content: 1 })

    expect(await hf.messages.processRetries()).toMatchObject({ retried: 1, failed: 0 })
  })

  test('replaying the events rebuilds messages, deliveries and recipients except renewal times [X2] [A1]', async () => {
    const post = await openPost(engine)
    await busyDay(post)

    const replica: Replica = new Map()
    for (const event of await readFeed(post.hf)) replay(replica, event as Parameters<typeof replay>[1])

    const rows = [...(await post.store.readTables())].filter(([key]) =>
      /^(message|delivery|recipient):/.test(key),
    )
    expect(rows.length).toBeGreaterThan(12)
    for (const [key, row] of rows) {
      const image = replica.get(key) ?? {}
      for (const [field, value] of Object.entries(row))
        if (!renewalFields.has(field)) expect([key, field, image[field] ?? null]).toEqual([key, field, value])
    }
    const rebuilt = [...replica.keys()].filter((key) => /^(message|delivery|recipient):/.test(key))
    expect(rebuilt.toSorted()).toEqual(rows.map(([key]) => key).toSorted())
  })

  test('versions of a message and of its deliveries increase by one with each event [X2]', async () => {
    const post = await openPost(engine)
    await busyDay(post)

    const versions = new Map<string, number[]>()
    for (const { subject, id, version } of (await readFeed(post.hf)) as Event[]) {
      if (version === null || !['message', 'delivery', 'recipient'].includes(subject)) continue
      versions.set(`${subject} ${id}`, [...(versions.get(`${subject} ${id}`) ?? []), version])
    }

    for (const [thing, each] of versions)
      expect([thing, each]).toEqual([thing, each.map((_, index) => index + 1)])
  })

  test('finished messages are removed after seven days with their deliveries, open ones never [A1] [X2]', async () => {
    const { hf, messages, env } = await openPost(engine, { redelivery: false })
    const open = await messages.sendWithAck('bob', { content: 'open', delaysMs: [dayMs], ladder: [] })
    const done = await messages.sendWithAck('bob', { content: 'done' })
    await messages.receiveAck(done.message.id, { agent: 'bob' })

    await env.advance(7 * dayMs - 2 * hourMs)
    await retainFor(2, { hf, env })
    const within = await messages.get(done.message.id)
    await retainFor(2, { hf, env })

    expect(within).toMatchObject({ state: 'acked' })
    expect(await messages.get(done.message.id)).toBeNull()
    expect((await messages.inbox({ agent: 'bob', all: true })).messages.map(({ id }) => id)).toEqual([
      open.message.id,
    ])
    expect(await messages.get(open.message.id)).toMatchObject({ state: 'sent' })
  })

  test('a message is invisible in every other namespace', async () => {
    const { messages, store } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { content: 1 })
    const elsewhere = await store.open({ agent: 'bob', namespace: 'elsewhere', redelivery: false })

    expect(await elsewhere.messages.get(message.id)).toBeNull()
    expect((await elsewhere.messages.inbox()).messages).toEqual([])
    expect((await elsewhere.messages.receiveAck(message.id)).outcome).toBe('not_found')
    expect(await elsewhere.messages.getPendingCount()).toBe(0)
  })

  test('setting the date forward or back sends nothing early and nothing late [A12] [S9]', async () => {
    const post = await openPost(engine)
    await post.messages.sendWithAck('bob', { content: 1 })

    post.env.setWall(post.env.now() + 10 * dayMs)
    const forward = await passAfter(post, 29_000)
    post.env.setWall(post.env.now() - 20 * dayMs)
    const back = await passAfter(post, 1_000)

    expect(forward.processed).toBe(0)
    expect(back.retried).toBe(1)
  })
})

/** One of everything that changes a row. */
async function busyDay(post: Post): Promise<void> {
  const { messages, hf, env } = post
  const pigeon = recorder(({ content }) =>
    content === 'fails' ? { outcome: 'failed', error: 'no', transient: false } : { outcome: 'delivered' },
  )
  messages.adapter('pigeon', pigeon)
  await messages.register('erin', { adapter: 'pigeon', deliveriesPerMinute: 2 })
  const send = async (to: string | string[], content: string) => {
    const options = { content, delaysMs: [1_000], ladder: [{ to: ['carol'], waitMs: 5_000 }] }
    return (await messages.sendWithAck(to, options)).message.id
  }
  const acked = await send(['bob', 'dave'], 'acked')
  await messages.markAsRead(acked, { agent: 'bob' })
  await messages.receiveAck(acked, { agent: 'bob' })
  await messages.receiveAck(acked, { agent: 'carol' })
  await messages.receiveAck(acked, { agent: 'dave' })
  const refused = await send('bob', 'refused')
  await messages.nack(refused, { agent: 'bob', reason: 'no' })
  const working = await send('bob', 'working')
  await messages.progressAck(working, { agent: 'bob', note: 'half' })
  await messages.nack(working, { agent: 'bob', retry: true })
  for (const content of ['fails', 'two', 'three']) await send('erin', content)
  await hf.execute('messages.claimDue', { adapters: ['pigeon'], limit: 1, leaseMs: 0 })
  await env.advance(1)
  await messages.processRetries()
  for (const ms of [1_000, 1_000, 5_000, 60_000, 60_000, 60_000]) await passAfter(post, ms)
  const [dead] = (await messages.listDeadLetters()).messages
  await messages.redrive(dead?.id as string)
  await send('bob', 'cleared')
  await messages.clearPendingAcks({ reason: 'over' })
  await messages.sendWithAck('bob', { content: 'open' })
}
