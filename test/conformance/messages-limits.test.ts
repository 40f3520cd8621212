/** Limits a minute: counted in the store; what goes beyond waits and is never dropped. */
import { expect, test } from 'vitest'
import { openPost, passAfter, reachBob } from '../support/messages.ts'
import { refusalCode } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('an agent may acknowledge 100 times per minute and is told when to retry; mistakes do not count [A7]', async () => {
    const post = await openPost(engine)
    const { messages } = post
    const sends = Array.from({ length: 105 }, (_, content) => messages.sendWithAck('bob', { content }))
    const ids = (await Promise.all(sends)).map(({ message }) => message.id)

    const ack = (id: string) => messages.receiveAck(id, { agent: 'bob' })
    const outcomes: string[] = []
    for (const id of ids.slice(0, 5)) outcomes.push((await ack(id)).outcome)
    for (let mistake = 0; mistake < 10; mistake++) await ack('not-there')
    for (const id of ids.slice(0, 5)) await ack(id)
    for (const id of ids.slice(5, 104)) outcomes.push((await ack(id)).outcome)
    await post.env.advance(1_000)
    const refused = await ack(ids[104] as string)
    const other = await messages.receiveAck(ids[104] as string, { agent: 'carol' })
    await post.env.advance(59_000)

    expect(outcomes.filter((outcome) => outcome === 'acked')).toHaveLength(100)
    expect(outcomes.slice(100)).toEqual(['rate_limited', 'rate_limited', 'rate_limited', 'rate_limited'])
    expect(refused).toMatchObject({
      outcome: 'rate_limited',
      retryAfterMs: 59_000,
      message: { state: 'sent' },
    })
    expect(other.outcome).toBe('not_recipient')
    expect((await ack(ids[104] as string)).outcome).toBe('acked')
  })

  test('one agent’s limit does not affect another [A7]', async () => {
    const { messages } = await openPost(engine)
    await messages.register('bob', { acksPerMinute: 1 })
    const first = await messages.sendWithAck(['bob', 'carol'], { content: 1 })
    const second = await messages.sendWithAck(['bob', 'carol'], { content: 2 })

    const outcomes = []
    for (const agent of ['bob', 'carol'])
      for (const { message } of [first, second])
        outcomes.push((await messages.receiveAck(message.id, { agent })).outcome)

    expect(outcomes).toEqual(['acked', 'rate_limited', 'acked', 'acked'])
  })

  test('the eleventh message in a minute is accepted and deferred; retries are exempt [A7] [S2]', async () => {
    const post = await openPost(engine)
    const { messages } = post
    const sent = []
    for (let number = 0; number < 23; number++)
      sent.push(await messages.sendWithAck('bob', { agent: 'carol', content: number }))

    const visible = async () => (await messages.inbox({ agent: 'bob' })).messages.length
    const atOnce = await visible()
    const retries = await passAfter(post, 30_000)
    await passAfter(post, 30_000)
    const afterAMinute = await visible()
    await passAfter(post, 60_000)

    expect(sent.map(({ deferredMs }) => deferredMs)).toEqual([
      ...Array(10).fill(0),
      ...Array(10).fill(60_000),
      ...Array(3).fill(120_000),
    ])
    expect(sent[10]?.message).toMatchObject({ state: 'queued', deliveries: [{ dueInMs: 60_000 }] })
    expect(atOnce).toBe(10)
    expect(retries).toMatchObject({ retried: 10 })
    expect(afterAMinute).toBe(20)
    expect(await visible()).toBe(23)
  })

  test('deliveries to a recipient beyond its limit are deferred, even across processes, and all arrive [A5] [A7] [S2] [S8]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    await post.messages.register('bob', { deliveriesPerMinute: 5 })
    const other = await post.store.open({
      agent: 'other',
      redelivery: false,
      adapters: { pigeon },
      ...rareProbes,
    })
    for (let number = 0; number < 12; number++)
      await post.messages.sendWithAck('bob', { content: number, timeoutMs: 300_000 })

    const first = await post.messages.processRetries()
    const second = await other.messages.processRetries()
    const heard = [pigeon.heard.length]
    for (const ms of [59_999, 1, 60_000]) {
      await passAfter(post, ms)
      heard.push(pigeon.heard.length)
    }

    expect(first).toMatchObject({ retried: 5, deferred: 7 })
    expect(second).toMatchObject({ processed: 0 })
    expect(heard).toEqual([5, 5, 10, 12])
    expect(new Set(pigeon.heard.map(({ content }) => content)).size).toBe(12)
  })

  test('hundreds of messages beyond a limit are each deferred once, to a time of their own [A5] [A7]', async () => {
    const post = await openPost(engine)
    await reachBob(post)
    await post.messages.register('bob', { deliveriesPerMinute: 1 })
    const sends = Array.from({ length: 120 }, (_, content) =>
      post.messages.sendWithAck('bob', { content, timeoutMs: 300_000 }),
    )
    await Promise.all(sends)

    const first = await post.messages.processRetries()
    const rest = []
    for (let minute = 1; minute <= 4; minute++) rest.push(await passAfter(post, 60_000))

    expect(first).toMatchObject({ retried: 1, deferred: 119 })
    for (const counts of rest) expect(counts).toMatchObject({ retried: 1, deferred: 0 })
  })

  test('a limited inbox gets its messages in order', async () => {
    const post = await openPost(engine)
    await post.messages.register('bob', { deliveriesPerMinute: 2 })
    for (let number = 0; number < 3; number++)
      await post.messages.sendWithAck('bob', { content: number, timeoutMs: 300_000 })

    await post.messages.processRetries()
    const first = (await post.messages.inbox({ agent: 'bob' })).messages.length
    await passAfter(post, 60_000)

    expect(first).toBe(2)
    expect((await post.messages.inbox({ agent: 'bob' })).messages).toHaveLength(3)
  })

  test('only a recipient changes how it is reached, even one that was never registered [S5d-12]', async () => {
    const { messages, store } = await openPost(engine)
    const frank = await store.open({ agent: 'frank', background: false })
    await frank.messages.inbox()
    const aside = { adapter: 'pigeon', address: 'the loft of eve' }

    const codes = [
      await refusalCode(() => messages.register('bob', { ...aside, agent: 'eve' })),
      await refusalCode(() => messages.register('frank', { ...aside, agent: 'eve' })),
    ]
    const limited = await messages.register('frank', { acksPerMinute: 7, agent: 'eve' })
    const own = await messages.register('frank', { adapter: 'pigeon', address: 'loft 3', agent: 'frank' })
    codes.push(await refusalCode(() => messages.register('frank', { adapter: 'inbox', agent: 'eve' })))
    const fresh = await messages.register('grace', { ...aside, agent: 'eve' })

    expect(codes).toEqual(['FORBIDDEN', 'FORBIDDEN', 'FORBIDDEN'])
    expect(limited).toMatchObject({ adapter: 'inbox', address: null, acksPerMinute: 7 })
    expect(own).toMatchObject({ adapter: 'pigeon', address: 'loft 3' })
    expect(fresh).toMatchObject(aside)
  })

  test('registering again changes only what is given, and nothing if it is the same', async () => {
    const { messages, hf } = await openPost(engine)
    await messages.register('erin', { adapter: 'pigeon', address: 'loft 3' })

    const changed = await messages.register('erin', { acksPerMinute: 7 })
    const same = await messages.register('erin', { acksPerMinute: 7 })

    expect(changed).toEqual({
      name: 'erin',
      adapter: 'pigeon',
      address: 'loft 3',
      sendsPerMinute: 10,
      acksPerMinute: 7,
      deliveriesPerMinute: 0,
    })
    expect(same).toEqual(changed)
    expect(await hf.execute('events.list', { subject: 'recipient', id: 'erin' })).toHaveProperty(
      'events.length',
      2,
    )
  })
})
