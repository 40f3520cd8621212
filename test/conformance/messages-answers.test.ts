/** Answers: who may give them, what each does, and what several of them add up to. */
import { describe, expect, test } from 'vitest'
import { openPost, passAfter, reachBob } from '../support/messages.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('only a recipient can acknowledge; anyone else is audited and the message stays pending [A6]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { content: 1 })

    const { outcome } = await messages.receiveAck(message.id, { agent: 'carol' })

    expect(outcome).toBe('not_recipient')
    expect(await messages.getPendingCount()).toBe(1)
    expect((await messages.timeline(message.id)).at(-1)).toMatchObject({
      kind: 'message.refused',
      agent: 'carol',
      detail: { act: 'ack' },
      version: null,
    })
    expect((await messages.nack(message.id, { agent: 'carol' })).outcome).toBe('not_recipient')
    expect((await messages.progressAck(message.id, { agent: 'carol' })).outcome).toBe('not_recipient')
    expect(await messages.markAsRead(message.id, { agent: 'carol' })).toBe(false)
  })

  test('an answer to a missing message says so and changes nothing [A6]', async () => {
    const { messages } = await openPost(engine)

    expect(await messages.receiveAck('nothing')).toEqual({
      outcome: 'not_found',
      message: null,
      retryAfterMs: 0,
    })
    expect((await messages.nack('nothing')).outcome).toBe('not_found')
    expect((await messages.progressAck('nothing')).outcome).toBe('not_found')
    expect(await messages.markAsRead('nothing')).toBe(false)
    expect(await messages.get('nothing')).toBeNull()
    expect(await messages.timeline('nothing')).toEqual([])
  })

  test('a stream of acknowledgements does not delay claims [A6]', async () => {
    const { hf, messages } = await openPost(engine)
    await hf.queue('q').add('work')
    const ids: string[] = []
    for (let number = 0; number < 15; number++)
      ids.push((await messages.sendWithAck('bob', { content: `message ${number}` })).message.id)
    const answered: string[] = []
    const acknowledging = async () => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop())
        answered.push((await messages.receiveAck(id, { agent: 'bob' })).outcome)
    }
    const claiming = async () => answered.push((await hf.queue('q').next()).outcome)

    await Promise.all([claiming(), acknowledging(), acknowledging(), acknowledging()])

    expect(answered.toSorted()).toEqual([...Array(15).fill('acked'), 'claimed'])
    expect(answered.indexOf('claimed')).toBeLessThan(8)
  })

  test('a second acknowledgement is reported as a repeat and writes nothing [A6]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { content: 1 })
    await messages.receiveAck(message.id, { agent: 'bob' })
    const before = await messages.timeline(message.id)

    const again = await messages.receiveAck(message.id, { agent: 'bob' })

    expect(again.outcome).toBe('already_acked')
    expect(await messages.timeline(message.id)).toEqual(before)
    expect((await messages.nack(message.id, { agent: 'bob' })).outcome).toBe('closed')
    expect((await messages.progressAck(message.id, { agent: 'bob' })).outcome).toBe('closed')
  })

  test('reading is separate from acknowledging, and counts once [A11]', async () => {
    const { messages, env } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { content: 1 })

    const first = await messages.markAsRead(message.id, { agent: 'bob' })
    const readAt = (await messages.get(message.id))?.deliveries[0]?.readAt
    await env.advance(1_000)
    const second = await messages.markAsRead(message.id, { agent: 'bob' })

    expect([first, second]).toEqual([true, false])
    expect(await messages.get(message.id)).toMatchObject({
      state: 'sent',
      deliveries: [{ readAt, ackedAt: null }],
    })
  })

  describe('to several recipients', () => {
    test('all must answer by default, and each answer is tracked [A14]', async () => {
      const { messages } = await openPost(engine)
      const { message } = await messages.sendWithAck(['bob', 'carol', 'bob'], { content: 1 })

      await messages.receiveAck(message.id, { agent: 'bob' })
      const half = await messages.get(message.id)
      await messages.receiveAck(message.id, { agent: 'carol' })

      expect(half).toMatchObject({
        state: 'sent',
        quorum: 2,
        deliveries: [
          { recipient: 'bob', state: 'acked' },
          { recipient: 'carol', state: 'sent' },
        ],
      })
      expect(await messages.get(message.id)).toMatchObject({ state: 'acked' })
    })

    test.each([
      ['any', 1],
      [2, 2],
    ] as const)(
      'a quorum of %s is met by %i answers and stops asking the others [A14]',
      async (quorum, enough) => {
        const post = await openPost(engine)
        const { messages } = post
        const { message } = await messages.sendWithAck(['bob', 'carol', 'dave'], { content: 1, quorum })

        for (const agent of ['carol', 'dave'].slice(0, enough))
          await messages.receiveAck(message.id, { agent })
        const settled = await messages.get(message.id)
        const counts = await passAfter(post, 31_000)
        const late = await messages.receiveAck(message.id, { agent: 'bob' })

        expect(settled).toMatchObject({
          state: 'acked',
          deliveries: [{ recipient: 'bob', state: 'cancelled' }, {}, {}],
        })
        expect(counts.processed).toBe(0)
        expect(late).toMatchObject({ outcome: 'acked', message: { state: 'acked' } })
      },
    )

    test('a broadcast reaches everyone known except its sender [A14]', async () => {
      const { messages, store } = await openPost(engine)
      await store.open({ agent: 'erin', redelivery: false })

      const { message } = await messages.sendWithAck('*', { content: 'all hands', quorum: 'any' })

      expect(message.deliveries.map(({ recipient }) => recipient)).toEqual(['bob', 'carol', 'dave', 'erin'])
    })
  })

  test('a refusal with its reason stops the retries and escalates at once [A6]', async () => {
    const post = await openPost(engine)
    const { messages } = post
    const { message } = await messages.sendWithAck('bob', {
      content: 1,
      ladder: [{ to: ['carol'], waitMs: 60_000 }],
    })

    const answer = await messages.nack(message.id, { agent: 'bob', reason: 'not my job' })
    const counts = await messages.processRetries()

    expect(answer).toMatchObject({
      outcome: 'answered',
      message: { deliveries: [{ state: 'refused', note: 'not my job' }] },
    })
    expect(counts).toMatchObject({ escalated: 1, retried: 1 })
    expect(await messages.get(message.id)).toMatchObject({
      state: 'escalated',
      deliveries: [
        { recipient: 'bob', state: 'refused' },
        { recipient: 'carol', level: 1, state: 'sent' },
      ],
    })
  })

  test('a refusal that leaves the quorum within reach does not escalate [A6] [A14]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck(['bob', 'carol'], { content: 1, quorum: 'any' })

    await messages.nack(message.id, { agent: 'bob' })

    expect(await messages.processRetries()).toMatchObject({ escalated: 0 })
    expect(await messages.get(message.id)).toMatchObject({ state: 'sent' })
    await messages.receiveAck(message.id, { agent: 'carol' })
    expect(await messages.get(message.id)).toMatchObject({ state: 'acked' })
  })

  test('a refusal withdrawn before it escalated settles the message instead [A6]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck(['bob', 'carol'], { content: 1 })
    await messages.nack(message.id, { agent: 'bob' })
    await messages.receiveAck(message.id, { agent: 'bob' })

    expect(await messages.processRetries()).toMatchObject({ escalated: 0 })
    expect(await messages.processRetries()).toMatchObject({ processed: 0 })
    await messages.receiveAck(message.id, { agent: 'carol' })

    expect(await messages.get(message.id)).toMatchObject({ state: 'acked' })
  })

  test('a nack may ask for another attempt, now or later, within the allowed attempts [A6]', async () => {
    const post = await openPost(engine)
    const { messages } = post
    const pigeon = await reachBob(post)
    const { message } = await messages.sendWithAck('bob', { content: 1 })
    await messages.processRetries()

    await messages.nack(message.id, { agent: 'bob', retry: true, reason: 'garbled' })
    await messages.processRetries()
    await messages.nack(message.id, { agent: 'bob', retry: true, retryAfterMs: 5_000 })
    const tooEarly = await passAfter(post, 4_999)
    await passAfter(post, 1)
    for (let more = 0; more < 5; more++) {
      await messages.nack(message.id, { agent: 'bob', retry: true })
      await messages.processRetries()
    }

    expect(tooEarly.processed).toBe(0)
    expect(pigeon.heard.map(({ marker }) => marker)).toEqual([
      '[REQUIRES-ACK]',
      '[RETRY-1]',
      '[RETRY-2]',
      '[RETRY-3]',
    ])
    expect(new Set(pigeon.heard.map(({ id }) => id))).toEqual(new Set([message.id]))
    expect(await messages.get(message.id)).toMatchObject({ state: 'sent', deliveries: [{ note: 'garbled' }] })
  })

  test('a progress answer postpones the next attempt and the escalation [A6]', async () => {
    const post = await openPost(engine)
    const { messages, env } = post
    const { message } = await messages.sendWithAck('bob', {
      content: 1,
      delaysMs: [30_000],
      ladder: [{ to: ['carol'], waitMs: 60_000 }],
    })
    await env.advance(29_000)

    await messages.progressAck(message.id, { agent: 'bob', note: 'half done', extendMs: 100_000 })
    const meanwhile = await passAfter(post, 99_999)
    const then = await passAfter(post, 1)
    const last = await messages.progressAck(message.id, { agent: 'bob', extendMs: 50_000 })
    const quiet = await passAfter(post, 79_999)
    const over = await passAfter(post, 1)

    expect(meanwhile.processed).toBe(0)
    expect(then).toMatchObject({ retried: 1, escalated: 0 })
    expect(last.message?.deliveries).toMatchObject([
      { note: 'half done', dueInMs: null, givesUpInMs: 80_000 },
    ])
    expect(quiet.processed).toBe(0)
    expect(over).toMatchObject({ escalated: 1 })
  })
})
