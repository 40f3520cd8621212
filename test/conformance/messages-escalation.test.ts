/** Escalation: once, after the last wait, level by level, never dropped; then a dead letter that can be sent again. */
import { describe, expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { openPost, type Post, passAfter, reachBob, recorder } from '../support/messages.ts'
import { refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

/** Through all retries of the default schedule, to the end of the last wait. */
async function exhaust(post: Post): Promise<number> {
  let escalated = 0
  for (const ms of [30_000, 60_000, 120_000, 120_000]) escalated += (await passAfter(post, ms)).escalated
  return escalated
}

const short = { delaysMs: [1_000], ladder: [{ to: ['carol'], waitMs: 5_000 }] }

forEachEngine((engine) => {
  test('three retries, one more wait, then one escalation with recipient, attempts and original message [A4] [S6]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { logger })
    const pigeon = recorder()
    post.messages.adapter('pigeon', pigeon)
    await post.messages.register('carol', { adapter: 'pigeon', agent: 'carol' })
    const { message } = await post.messages.sendWithAck('bob', { type: 'BLOCKED', content: 'help' })
    const before: number[] = []

    for (const ms of [30_000, 60_000, 120_000, 119_999]) before.push((await passAfter(post, ms)).escalated)
    const after = await passAfter(post, 1)
    const again = await passAfter(post, 1)

    expect(before).toEqual([0, 0, 0, 0])
    expect(after).toMatchObject({ escalated: 1 })
    expect(again).toMatchObject({ escalated: 0 })
    expect(pigeon.heard).toMatchObject([
      {
        id: message.id,
        marker: '[UNACKNOWLEDGED]',
        level: 1,
        escalation: { unanswered: [{ recipient: 'bob', attempts: 4 }] },
        text: '[UNACKNOWLEDGED] BLOCKED from alice, not answered by bob (4 attempts): help',
      },
    ])
    expect(await post.messages.get(message.id)).toMatchObject({ state: 'escalated', level: 1 })
    const told = (await post.messages.get(message.id))?.deliveries.filter(({ level }) => level === 1)
    expect(told?.map(({ recipient }) => recipient)).toEqual(['alice', 'bob', 'carol', 'dave'])
    expect(named('message.escalated')).toMatchObject([
      { level: 'warn', facts: { id: message.id, level: 1, unanswered: ['bob'] } },
    ])
  })

  test('an option escalates with the last retry instead [A4]', async () => {
    const post = await openPost(engine)
    await post.messages.sendWithAck('bob', { content: 1, escalateImmediately: true })
    await passAfter(post, 30_000)
    await passAfter(post, 60_000)

    expect(await passAfter(post, 120_000)).toMatchObject({ escalated: 1 })
  })

  test('many processes escalate a message once [A4] [S8]', async () => {
    const post = await openPost(engine)
    const others = await Promise.all(
      ['p1', 'p2', 'p3'].map((agent) => post.store.open({ agent, redelivery: false })),
    )
    const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short })
    await passAfter(post, 1_000)
    await post.env.advance(1_000)

    const counts = await Promise.all([post.hf, ...others].map((hf) => hf.messages.processRetries()))

    expect(counts.map(({ escalated }) => escalated).reduce((sum, each) => sum + each)).toBe(1)
    const kinds = (await post.messages.timeline(message.id)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'message.escalated')).toHaveLength(1)
  })

  test('more than five per minute are deferred and none is dropped [A5] [S2]', async () => {
    const post = await openPost(engine)
    for (let number = 0; number < 8; number++)
      await post.messages.sendWithAck('bob', { content: number, ...short })
    await passAfter(post, 1_000)

    const first = await passAfter(post, 1_000)
    const meanwhile = await passAfter(post, 4_000)
    const states = (await post.messages.checkPendingAcks()).messages.map(({ state }) => state)
    const later = await passAfter(post, 56_000)

    expect(first).toMatchObject({ escalated: 5, deferred: 3 })
    expect(meanwhile).toMatchObject({ escalated: 0 })
    expect(states.filter((state) => state === 'sent')).toHaveLength(3)
    expect(states.filter((state) => state === 'escalated')).toHaveLength(5)
    expect(later).toMatchObject({ escalated: 3 })
  })

  test('levels have their own times, and after the last the message is a dead letter [A5] [S9]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { logger })
    const { message } = await post.messages.sendWithAck('bob', {
      content: 1,
      delaysMs: [1_000],
      ladder: [
        { to: ['carol'], waitMs: 5_000 },
        { to: ['dave'], waitMs: 7_000 },
      ],
    })
    await passAfter(post, 1_000)

    const steps = []
    for (const ms of [1_000, 4_999, 1, 6_999, 1]) {
      const { escalated, dead } = await passAfter(post, ms)
      steps.push({ escalated, dead })
    }

    expect(steps).toEqual([
      { escalated: 1, dead: 0 },
      { escalated: 0, dead: 0 },
      { escalated: 1, dead: 0 },
      { escalated: 0, dead: 0 },
      { escalated: 0, dead: 1 },
    ])
    expect(await post.messages.get(message.id)).toMatchObject({
      state: 'dead',
      level: 2,
      deliveries: [
        { recipient: 'bob', level: 0, state: 'unanswered' },
        { recipient: 'carol', level: 1, state: 'unanswered' },
        { recipient: 'dave', level: 2, state: 'unanswered' },
      ],
    })
    expect((await post.messages.listDeadLetters()).messages.map(({ id }) => id)).toEqual([message.id])
    expect(await post.messages.getPendingCount()).toBe(0)
    expect(named('message.dead')).toMatchObject([{ facts: { id: message.id } }])
  })

  test('a message with nobody to escalate to becomes a dead letter directly [A5]', async () => {
    const post = await openPost(engine)
    const { message } = await post.messages.sendWithAck('bob', { content: 1, delaysMs: [1_000], ladder: [] })
    await passAfter(post, 1_000)

    expect(await passAfter(post, 1_000)).toMatchObject({ escalated: 0, dead: 1 })
    expect(await post.messages.get(message.id)).toMatchObject({ state: 'dead' })
  })

  describe('after escalation', () => {
    test('anyone it escalated to may answer, which settles it [A6] [S9]', async () => {
      const post = await openPost(engine)
      const { message } = await post.messages.sendWithAck('bob', { content: 1 })
      await exhaust(post)

      const answer = await post.messages.receiveAck(message.id, { agent: 'dave' })

      expect(answer).toMatchObject({ outcome: 'acked', message: { state: 'acked_late' } })
      expect(await passAfter(post, 600_000)).toMatchObject({ processed: 0 })
    })

    test('the recipient may still answer late, even a dead letter [A6] [S9]', async () => {
      const post = await openPost(engine)
      const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)
      await passAfter(post, 5_000)
      const before = await post.messages.get(message.id)

      const answer = await post.messages.receiveAck(message.id, { agent: 'bob' })

      expect(before).toMatchObject({ state: 'dead' })
      expect(answer).toMatchObject({ outcome: 'acked', message: { state: 'acked_late' } })
      expect((await post.messages.listDeadLetters()).messages).toEqual([])
    })

    test('what can still be answered stays in the inbox, marked, once [S5c-47]', async () => {
      const post = await openPost(engine)
      const inbox = async (agent: string, options = {}) =>
        (await post.messages.inbox({ agent, ...options })).messages.map(({ id, marker }) => `${id} ${marker}`)
      const ladder = [{ to: ['bob', 'carol'], waitMs: 5_000 }]
      const { message: other } = await post.messages.sendWithAck('bob', { content: 2, priority: 9 })
      const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short })
      const { message: told } = await post.messages.sendWithAck('bob', { content: 3, ...short, ladder })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)
      const escalated = await inbox('bob')
      await passAfter(post, 5_000)
      const dead = await inbox('bob')
      const pages = await post.messages.inbox({ agent: 'bob', limit: 2 })
      const rest = await post.messages.inbox({ agent: 'bob', limit: 2, after: pages.next as string })
      await post.messages.markAsRead(message.id, { agent: 'bob' })
      const unread = await inbox('bob', { unread: true })
      await post.messages.receiveAck(message.id, { agent: 'bob' })

      expect(escalated).toEqual([
        `${message.id} [ESCALATED]`,
        `${told.id} [UNACKNOWLEDGED]`,
        `${other.id} [REQUIRES-ACK]`,
      ])
      expect(dead).toEqual([`${message.id} [DEAD]`, `${told.id} [DEAD]`, `${other.id} [REQUIRES-ACK]`])
      expect([...pages.messages, ...rest.messages].map(({ id }) => id)).toEqual([
        message.id,
        told.id,
        other.id,
      ])
      expect(unread).toEqual([`${told.id} [DEAD]`, `${other.id} [REQUIRES-ACK]`])
      expect(await inbox('bob')).toEqual([`${told.id} [DEAD]`, `${other.id} [REQUIRES-ACK]`])
      expect(await inbox('carol')).toEqual([`${told.id} [DEAD]`])
    })

    test('messages that others answered in sufficient number, or that were cancelled, leave the inbox [S5c-47]', async () => {
      const post = await openPost(engine)
      await post.messages.sendWithAck(['bob', 'carol'], { content: 1, quorum: 'any', ...short })
      await post.messages.sendWithAck('bob', { content: 2, ...short })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)
      for (const { id } of (await post.messages.inbox({ agent: 'carol' })).messages)
        await post.messages.receiveAck(id, { agent: 'carol' })
      await post.messages.clearPendingAcks()

      expect((await post.messages.inbox({ agent: 'bob' })).messages).toEqual([])
    })

    test('an agent it did not escalate to may not answer [A6]', async () => {
      const post = await openPost(engine)
      const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)

      expect((await post.messages.receiveAck(message.id, { agent: 'dave' })).outcome).toBe('not_recipient')
    })

    test('a progress answer by an agent it escalated to postpones the next level [A5] [A6]', async () => {
      const post = await openPost(engine)
      const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)

      await post.messages.progressAck(message.id, { agent: 'carol', extendMs: 60_000 })

      expect(await passAfter(post, 59_999)).toMatchObject({ dead: 0 })
      expect(await passAfter(post, 1)).toMatchObject({ dead: 1 })
    })

    test('a progress answer does not take away the time that another agent asked for [A5] [A6]', async () => {
      const post = await openPost(engine)
      const ladder = [{ to: ['carol', 'dave'], waitMs: 5_000 }]
      const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short, ladder })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)

      await post.messages.progressAck(message.id, { agent: 'carol', extendMs: 60_000 })
      await post.messages.progressAck(message.id, { agent: 'dave', extendMs: 1_000 })

      expect(await passAfter(post, 59_999)).toMatchObject({ dead: 0 })
      expect(await passAfter(post, 1)).toMatchObject({ dead: 1 })
    })

    test('a sender is told by its own adapter, even if there are more agents than one level tells [A5]', async () => {
      const post = await openPost(engine)
      const pigeon = recorder()
      post.messages.adapter('pigeon', pigeon)
      await post.messages.register('alice', { adapter: 'pigeon' })
      for (let number = 0; number < 100; number++) await post.messages.register(`a-${number}`)
      const { message } = await post.messages.sendWithAck('bob', { content: 1, delaysMs: [1_000] })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)

      expect(pigeon.heard).toMatchObject([{ id: message.id, recipient: 'alice', level: 1 }])
    })

    test('a sender whose process is running is told, wherever its name stands among all others [A5]', async () => {
      const post = await openPost(engine)
      await post.hf.agents.register({ agent: 'alice' })
      for (let number = 0; number < 100; number++) await post.messages.register(`a-${number}`)
      const { message } = await post.messages.sendWithAck('bob', { content: 1, delaysMs: [1_000] })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)

      expect((await post.messages.inbox({ agent: 'alice' })).messages).toMatchObject([{ id: message.id }])
    })

    test('an agent that is named twice on a level is told once [A5]', async () => {
      const post = await openPost(engine)
      const ladder = [{ to: ['carol', 'dave', 'carol'], waitMs: 5_000 }]
      await post.messages.sendWithAck('bob', { content: 1, ...short, ladder })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)

      expect((await post.messages.inbox({ agent: 'carol' })).messages).toHaveLength(1)
    })

    test('an agent that could not be reached by the escalation is retried on schedule [A5] [A13]', async () => {
      const post = await openPost(engine)
      let isDown = true
      const pigeon = recorder(() =>
        isDown ? { outcome: 'failed', error: 'down', transient: false } : { outcome: 'delivered' },
      )
      post.messages.adapter('pigeon', pigeon)
      await post.messages.register('carol', { adapter: 'pigeon', agent: 'carol' })
      await post.messages.sendWithAck('bob', {
        content: 1,
        delaysMs: [1_000],
        ladder: [{ to: ['carol'], waitMs: 60_000 }],
      })
      await passAfter(post, 1_000)
      await passAfter(post, 1_000)
      isDown = false
      await passAfter(post, 1_000)
      await passAfter(post, 10_000)

      expect(pigeon.heard.map(({ attempt }) => attempt)).toEqual([1, 2])
    })
  })

  test('with several recipients, the first that can no longer answer escalates for all [A14]', async () => {
    const post = await openPost(engine)
    const { message } = await post.messages.sendWithAck(['bob', 'dave'], { content: 1, ...short })
    await post.messages.receiveAck(message.id, { agent: 'dave' })
    await passAfter(post, 1_000)

    const counts = await passAfter(post, 1_000)

    expect(counts).toMatchObject({ escalated: 1 })
    expect(await post.messages.get(message.id)).toMatchObject({
      escalation: { unanswered: [{ recipient: 'bob', attempts: 2 }] },
    })
  })

  test('a message that no process can send still escalates when its time is up [A12] [A13]', async () => {
    const post = await openPost(engine)
    await post.messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1, ...short })

    const early = await passAfter(post, 1_999)
    const then = await passAfter(post, 1)

    expect(early).toMatchObject({ processed: 0 })
    expect(then).toMatchObject({ escalated: 1 })
    expect(await post.messages.get(message.id)).toMatchObject({
      escalation: { unanswered: [{ recipient: 'bob', attempts: 0 }] },
    })
  })

  test('a dead letter that is sent again starts with the first attempt and may escalate again [A5]', async () => {
    const post = await openPost(engine)
    const pigeon = await reachBob(post)
    const { message } = await post.messages.sendWithAck(['bob', 'dave'], { content: 1, ...short })
    await post.messages.receiveAck(message.id, { agent: 'dave' })
    await post.messages.processRetries()
    await passAfter(post, 1_000)
    await passAfter(post, 1_000)
    await passAfter(post, 5_000)
    const dead = await post.messages.get(message.id)

    const driven = await post.messages.redrive(message.id, { reason: 'bob is back' })
    const twice = await refusalCode(() => post.messages.redrive(message.id))
    await post.messages.processRetries()
    const heard = pigeon.heard.map(({ marker }) => marker)
    await passAfter(post, 1_000)
    const escalation = await passAfter(post, 1_000)

    expect(dead).toMatchObject({ state: 'dead' })
    expect(driven).toMatchObject({ state: 'sent', level: 0, note: 'bob is back' })
    expect(driven.deliveries).toMatchObject([
      { recipient: 'bob', state: 'queued', attempts: 0 },
      { recipient: 'dave', state: 'acked' },
      { recipient: 'carol', state: 'unanswered' },
    ])
    expect(twice).toBe('ILLEGAL_MOVE')
    expect(heard).toEqual(['[REQUIRES-ACK]', '[RETRY-1]', '[REQUIRES-ACK]'])
    expect(escalation).toMatchObject({ escalated: 1 })
  })
})
