/** Sending: stored first, known recipients only, one id for life. */
import { describe, expect, test } from 'vitest'
import { openPost } from '../support/messages.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a message is pending under one full id until it is answered [A1] [A2] [A3] [S11]', async () => {
    const { messages } = await openPost(engine)

    const { message, deferredMs } = await messages.sendWithAck('bob', {
      type: 'QUESTION',
      content: 'May I deploy?',
      context: 'release 7',
    })

    expect(message).toMatchObject({
      sender: 'alice',
      type: 'QUESTION',
      content: 'May I deploy?',
      context: 'release 7',
      state: 'sent',
      quorum: 1,
      deliveries: [{ recipient: 'bob', state: 'sent', attempts: 1, dueInMs: 30_000 }],
    })
    expect(message.id).toMatch(/^[A-Za-z0-9_-]{36}$/)
    expect(deferredMs).toBe(0)
    expect(await messages.getPendingCount()).toBe(1)
    expect((await messages.inbox({ agent: 'bob' })).messages).toMatchObject([
      { id: message.id, sender: 'alice', marker: '[REQUIRES-ACK]', attempt: 1, readAt: null },
    ])
  })

  test('the whole cycle: sent, read, acknowledged, and the row stays as history [A1] [A6] [A11]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { content: 'hello' })

    const read = await messages.markAsRead(message.id, { agent: 'bob' })
    const stillPending = await messages.getPendingCount()
    const unread = await messages.inbox({ agent: 'bob', unread: true })
    const { outcome } = await messages.receiveAck(message.id, { agent: 'bob' })

    expect({ read, stillPending, unread: unread.messages, outcome }).toEqual({
      read: true,
      stillPending: 1,
      unread: [],
      outcome: 'acked',
    })
    expect(await messages.get(message.id)).toMatchObject({
      state: 'acked',
      deliveries: [{ state: 'acked', readAt: expect.any(Number), ackedAt: expect.any(Number) }],
    })
    expect((await messages.timeline(message.id)).map(({ kind }) => kind)).toEqual([
      'message.created',
      'delivery.created',
      'delivery.read',
      'message.acked',
      'delivery.acked',
    ])
    expect((await messages.inbox({ agent: 'bob' })).messages).toEqual([])
    expect((await messages.inbox({ agent: 'bob', all: true })).messages).toHaveLength(1)
  })

  test('an agent that has opened the store can be sent messages without being registered [A13]', async () => {
    const { messages, store } = await openPost(engine)
    const erin = await store.open({ agent: 'erin', redelivery: false })

    const { message } = await messages.sendWithAck('erin', { content: 1 })

    expect((await erin.messages.inbox()).messages).toMatchObject([{ id: message.id }])
    expect((await erin.messages.receiveAck(message.id)).outcome).toBe('acked')
  })

  test('so can an agent whose process was registered for it [A13]', async () => {
    const { hf, messages } = await openPost(engine)
    await hf.agents.register({ agent: 'frank' })

    const { message } = await messages.sendWithAck('frank', { content: 1 })

    expect((await messages.inbox({ agent: 'frank' })).messages).toMatchObject([{ id: message.id }])
  })

  test('an unknown recipient is an error that suggests the nearest name, and nothing is stored [A2] [A13]', async () => {
    const { messages } = await openPost(engine)

    const error = await refusal(() => messages.sendWithAck('bbo', { content: 1 }))
    const onTheLadder = await refusalCode(() =>
      messages.sendWithAck('bob', { content: 1, ladder: [{ to: ['nobody'], waitMs: 1 }] }),
    )

    expect(error).toMatchObject({
      code: 'UNKNOWN_RECIPIENT',
      facts: { recipient: 'bbo', nearest: ['bob', 'carol', 'dave'] },
    })
    expect(error.message).toContain('"bob"')
    expect(onTheLadder).toBe('UNKNOWN_RECIPIENT')
    expect(await messages.getPendingCount()).toBe(0)
  })

  test('an id may be shortened to a unique prefix, or be that of an attempt [A3] [S7] [S11]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { content: 1 })
    const { message: other } = await messages.sendWithAck('bob', { content: 2 })
    const shared = sharedBeginning(message.id, other.id)

    const ambiguous = await refusal(() => messages.receiveAck(shared, { agent: 'bob' }))
    const unique = message.id.slice(0, shared.length + 1)
    const byPrefix = await messages.receiveAck(unique, { agent: 'bob' })
    const byAttempt = await messages.receiveAck(`${other.id}.3`, { agent: 'bob' })

    expect(ambiguous).toMatchObject({ code: 'INVALID', facts: { ids: [message.id, other.id] } })
    expect(byPrefix).toMatchObject({ outcome: 'acked', message: { id: message.id } })
    expect(byAttempt).toMatchObject({ outcome: 'acked', message: { id: other.id } })
  })

  test('a reply acknowledges the message it replies to [A3]', async () => {
    const { messages } = await openPost(engine)
    const { message } = await messages.sendWithAck('bob', { type: 'QUESTION', content: 'why?' })

    const { message: reply } = await messages.sendWithAck('alice', {
      agent: 'bob',
      content: 'because',
      parent: message.id,
    })

    expect(reply.parent).toBe(message.id)
    expect(await messages.get(message.id)).toMatchObject({ state: 'acked' })
    expect(
      await refusalCode(() => messages.sendWithAck('bob', { content: 1, parent: 'no-such-message' })),
    ).toBe('NOT_FOUND')
  })

  test('a message repeated under its idempotency key is one message', async () => {
    const { messages } = await openPost(engine)

    const first = await messages.sendWithAck('bob', { content: 1, idempotencyKey: 'k' })
    const again = await messages.sendWithAck('bob', { content: 1, idempotencyKey: 'k' })
    const another = await refusalCode(() => messages.sendWithAck('bob', { content: 2, idempotencyKey: 'k' }))

    expect(again).toEqual(first)
    expect(another).toBe('IDEMPOTENCY_MISMATCH')
    expect(await messages.getPendingCount()).toBe(1)
  })

  test('pending messages can be listed, counted and cleared, by sender or all; clearing is audited [A11]', async () => {
    const { messages, hf } = await openPost(engine)
    await messages.register('carol', { sendsPerMinute: 0 })
    const ofAlice = await messages.sendWithAck('bob', { content: 1 })
    for (let number = 0; number < 45; number++)
      await messages.sendWithAck('bob', { agent: 'carol', content: number })

    const counts = [await messages.getPendingCount(), await messages.getPendingCount({ sender: 'carol' })]
    const page = await messages.checkPendingAcks({ sender: 'carol', limit: 40 })
    const rest = await messages.checkPendingAcks({ sender: 'carol', limit: 40, after: page.next ?? '' })
    const cleared = await messages.clearPendingAcks({ sender: 'carol', reason: 'carol left' })
    const left = await messages.checkPendingAcks()

    expect(counts).toEqual([46, 45])
    expect([...page.messages, ...rest.messages].map(({ content }) => content)).toEqual(
      Array.from({ length: 45 }, (_, number) => number),
    )
    expect(cleared).toBe(45)
    expect(left.messages.map(({ id }) => id)).toEqual([ofAlice.message.id])
    expect(await messages.get(page.messages[0]?.id as string)).toMatchObject({
      state: 'cancelled',
      note: 'carol left',
      deliveries: [{ state: 'cancelled' }],
    })
    expect(await messages.receiveAck(page.messages[0]?.id as string, { agent: 'bob' })).toMatchObject({
      outcome: 'cancelled',
    })
    const events = await messages.timeline(page.messages[0]?.id as string)
    expect(events.find(({ kind }) => kind === 'message.cancelled')).toMatchObject({
      agent: hf.agent,
      detail: { reason: 'carol left' },
    })
    expect(await messages.clearPendingAcks()).toBe(1)
    expect(await messages.getPendingCount()).toBe(0)
  })

  test('clearing that was interrupted goes on under its idempotency key, and then repeats its answer [A11]', async () => {
    const { messages, hf } = await openPost(engine)
    await messages.register('carol', { sendsPerMinute: 0 })
    for (let number = 0; number < 30; number++)
      await messages.sendWithAck('bob', { agent: 'carol', content: number })
    const key = { idempotencyKey: 'clear-1' }
    await hf.execute('messages.clearPendingAcks', {}, key)

    const cleared = await messages.clearPendingAcks(key)
    const left = await messages.getPendingCount()
    const { message } = await messages.sendWithAck('bob', { content: 'later' })

    expect([cleared, left, await messages.clearPendingAcks(key)]).toEqual([30, 0, 30])
    expect(await messages.get(message.id)).toMatchObject({ state: 'sent' })
  })

  test('an inbox is sorted by urgency, then age, and read page by page [A11]', async () => {
    const { messages } = await openPost(engine)
    for (const [content, priority] of [
      ['third', 7],
      ['first', 1],
      ['second', 5],
      ['fourth', 7],
    ] as const)
      await messages.sendWithAck('bob', { content, priority })

    const page = await messages.inbox({ agent: 'bob', limit: 3 })
    const rest = await messages.inbox({ agent: 'bob', limit: 3, after: page.next as string })

    expect([...page.messages, ...rest.messages].map(({ content }) => content)).toEqual([
      'first',
      'second',
      'third',
      'fourth',
    ])
    expect(rest.next).toBeNull()
    expect(await refusalCode(() => messages.inbox({ agent: 'bob', after: 'nonsense' }))).toBe('INVALID')
  })

  test('ten concurrent senders create ten pending messages [A10]', async () => {
    const { messages } = await openPost(engine)

    await Promise.all(
      Array.from({ length: 10 }, (_, number) => messages.sendWithAck('bob', { content: number })),
    )

    expect(await messages.getPendingCount()).toBe(10)
  })

  test('a message whose adapter is missing here is queued, visible to its recipient, and throws nothing [A2] [A13]', async () => {
    const { messages } = await openPost(engine)
    await messages.register('bob', { adapter: 'pigeon', agent: 'bob' })

    const { message } = await messages.sendWithAck('bob', { content: 1 })

    expect(message).toMatchObject({ state: 'queued', deliveries: [{ attempts: 0, adapter: 'pigeon' }] })
    expect(await messages.processRetries()).toMatchObject({ processed: 0 })
    expect((await messages.inbox({ agent: 'bob' })).messages).toMatchObject([{ id: message.id }])
  })

  describe('bad input', () => {
    const options = {
      'content beyond 10 KB': { content: 'x'.repeat(10_241) },
      'a timeout below a second': { content: 1, timeoutMs: 999 },
      'a timeout above 300 s': { content: 1, timeoutMs: 300_001 },
      'a type with spaces': { content: 1, type: 'two words' },
      'a quorum above the recipients': { content: 1, quorum: 2 },
      'a negative delay': { content: 1, delaysMs: [-1] },
      'a ladder that asks nobody': { content: 1, ladder: [{ to: [], waitMs: 1 }] },
      'an unknown option': { content: 1, timeout: 5 },
      'a priority that is no number': { content: 1, priority: 'high' },
    }

    test.each(Object.entries(options))('%s is refused and stores nothing [A2]', async (_, given) => {
      const { messages } = await openPost(engine)

      const code = await refusalCode(() => messages.sendWithAck('bob', given as never))

      expect(code).toBe('INVALID')
      expect(await messages.getPendingCount()).toBe(0)
    })

    test('to every other operation is refused with an explanation', async () => {
      const { messages, hf } = await openPost(engine)

      const calls = [
        () => messages.sendWithAck([], { content: 1 }),
        () =>
          messages.sendWithAck(
            Array.from({ length: 101 }, (_, number) => `r${number}`),
            { content: 1 },
          ),
        () => messages.sendWithAck('-bob', { content: 1 }),
        () => messages.sendWithAck('bob', { content: 1, agent: '' }),
        () => messages.receiveAck('no id!'),
        () => messages.receiveAck('x'.repeat(65)),
        () => messages.nack('x', { retryAfterMs: -1 }),
        () => messages.nack('x', { reason: 'x'.repeat(2_001) }),
        () => messages.progressAck('x', { extendMs: 3_600_001 }),
        () => messages.markAsRead(''),
        () => messages.get('../etc'),
        () => messages.inbox({ limit: 0 }),
        () => messages.checkPendingAcks({ limit: 1001 }),
        () => messages.getPendingCount({ sender: ' ' }),
        () => messages.clearPendingAcks({ sender: '..' }),
        () => messages.listDeadLetters({ limit: -1 }),
        () => messages.redrive('%'),
        () => messages.register(''),
        () => messages.register('bob', { adapter: '-rf' }),
        () => messages.register('bob', { address: '--option' }),
        () => messages.register('bob', { sendsPerMinute: -1 }),
        () => messages.adapter('pigeon', {} as never),
        () => messages.adapter('', { send: async () => ({ outcome: 'delivered' }) }),
        () => hf.execute('messages.record', { delivery: 'x', token: -1, outcome: 'sent' }),
        () => hf.execute('messages.claimDue', { adapters: ['inbox'], leaseMs: -1 }),
        () => hf.execute('messages.import', { entries: [{ id: 'a b' } as never] }),
      ]

      for (const call of calls) expect(await refusalCode(call)).toBe('INVALID')
      expect(await refusalCode(() => messages.redrive('nope'))).toBe('NOT_FOUND')
      expect(
        await refusalCode(() =>
          hf.execute('messages.record', { delivery: 'x/0', token: 1, outcome: 'sent' }),
        ),
      ).toBe('NOT_FOUND')
    })

    test('a misspelt option is refused with the right name', async () => {
      const { messages } = await openPost(engine)

      const error = await refusal(() =>
        messages.sendWithAck('bob', { content: 1, escalateImediately: true } as never),
      )

      expect(error.message).toContain('did you mean "escalateImmediately"?')
    })

    test('an adapter that cannot send is refused when the store is opened', async () => {
      const { store } = await openPost(engine)

      expect(await refusalCode(() => store.open({ adapters: { pigeon: {} as never } }))).toBe('INVALID')
    })
  })
})

function sharedBeginning(one: string, other: string): string {
  let length = 0
  while (one[length] === other[length]) length++
  return one.slice(0, length)
}
