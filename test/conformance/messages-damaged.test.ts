/** An unreadable or missing message is set aside and reported; all others continue. */
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { openPost, passAfter, reachBob } from '../support/messages.ts'
import { refusal } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test.each(['policy', 'content'] as const)(
    'a message whose %s cannot be read becomes a dead letter that says so, and the others are sent [S3] [A8]',
    async (part) => {
      const { logger, named } = collectLogs()
      const post = await openPost(engine, { logger })
      const pigeon = await reachBob(post)
      const broken = await post.messages.sendWithAck('bob', { content: 'broken' })
      const sound = await post.messages.sendWithAck(['bob', 'carol'], { content: 'sound' })
      await post.store.damage.garbleMessage(broken.message.id, part)

      const counts = await post.messages.processRetries()
      const again = await passAfter(post, 30_000)

      expect(counts).toMatchObject({ retried: 1, failed: 1, dead: 1 })
      expect(again).toMatchObject({ retried: 2, failed: 0 })
      expect(pigeon.heard.map(({ id }) => id)).toEqual([sound.message.id, sound.message.id])
      expect((await post.messages.listDeadLetters()).messages).toMatchObject([
        { id: broken.message.id, note: `its ${part} cannot be read` },
      ])
      expect(named('message.dead').map(({ facts }) => facts)).toEqual([
        { id: broken.message.id, reason: `its ${part} cannot be read` },
      ])
    },
  )

  test('a message whose escalation record cannot be read continues without it', async () => {
    const post = await openPost(engine)
    const ladder = [
      { to: ['carol'], waitMs: 5_000 },
      { to: ['dave'], waitMs: 5_000 },
    ]
    const { message } = await post.messages.sendWithAck('bob', { content: 1, delaysMs: [1_000], ladder })
    for (const ms of [1_000, 1_000]) await passAfter(post, ms)
    await post.store.damage.garbleMessage(message.id, 'escalation')

    const counts = await passAfter(post, 5_000)

    expect(counts).toMatchObject({ escalated: 1, dead: 0 })
    expect((await post.messages.inbox({ agent: 'dave' })).messages).toMatchObject([
      { id: message.id, level: 2, escalation: { unanswered: [{ recipient: 'bob' }] } },
    ])
  })

  test('a damaged message that waits for its next level is closed, and the others escalate [S3] [A5]', async () => {
    const post = await openPost(engine)
    const send = async (content: string) => {
      const ladder = [
        { to: ['carol'], waitMs: 5_000 },
        { to: ['dave'], waitMs: 5_000 },
      ]
      return (await post.messages.sendWithAck('bob', { content, delaysMs: [1_000], ladder })).message.id
    }
    const [broken, sound] = [await send('broken'), await send('sound')]
    for (const ms of [1_000, 1_000]) await passAfter(post, ms)
    await post.store.damage.garbleMessage(broken, 'policy')

    const counts = await passAfter(post, 5_000)

    expect(counts).toMatchObject({ escalated: 1, dead: 1 })
    expect(await post.messages.get(sound)).toMatchObject({ state: 'escalated', level: 2 })
    expect(await post.messages.get(broken)).toMatchObject({
      state: 'dead',
      note: 'its policy cannot be read',
      policy: { delaysMs: [], ladder: [] },
    })
  })

  test('a message damaged while it is being sent is recorded, and closed', async () => {
    const post = await openPost(engine)
    const broken = await post.messages.sendWithAck('carol', { content: 'x' })
    await reachBob(post, async () => {
      await post.store.damage.garbleMessage(onItsWay.message.id, 'policy')
      return { outcome: 'delivered' }
    })
    const onItsWay = await post.messages.sendWithAck('bob', { content: 'y' })

    expect(await post.messages.processRetries()).toMatchObject({ failed: 0, dead: 1 })
    expect(await post.messages.get(onItsWay.message.id)).toMatchObject({
      state: 'dead',
      deliveries: [{ attempts: 1, state: 'cancelled' }],
    })
    expect(await post.messages.get(broken.message.id)).toMatchObject({ state: 'sent' })
  })

  test('operations that still work on a damaged message succeed, and others are refused with an explanation', async () => {
    const post = await openPost(engine)
    const send = async () => (await post.messages.sendWithAck('bob', { content: 1 })).message.id
    const [acked, refused, asked, dead] = [await send(), await send(), await send(), await send()]
    for (const id of [acked, refused, asked, dead]) await post.store.damage.garbleMessage(id, 'policy')

    const outcomes = [
      await post.messages.receiveAck(acked, { agent: 'bob' }),
      await post.messages.nack(refused, { agent: 'bob', reason: 'no' }),
      await post.messages.nack(asked, { agent: 'bob', retry: true }),
      await post.messages.progressAck(asked, { agent: 'bob' }),
    ].map(({ outcome }) => outcome)
    await passAfter(post, 30_000)

    expect(outcomes).toEqual(['acked', 'answered', 'answered', 'answered'])
    expect(await refusal(() => post.messages.redrive(dead))).toMatchObject({
      code: 'ILLEGAL_MOVE',
      facts: { from: 'dead', to: 'pending' },
      message: expect.stringContaining('its policy cannot be read'),
    })
    expect((await post.messages.inbox({ agent: 'bob', all: true })).messages).toHaveLength(4)
  })

  test('deliveries whose message is gone are closed and reported, and the others are sent [S3]', async () => {
    const { logger, named } = collectLogs()
    const post = await openPost(engine, { logger })
    const pigeon = await reachBob(post)
    const lost = await post.messages.sendWithAck(['bob', 'carol'], { content: 'lost' })
    const sound = await post.messages.sendWithAck('bob', { content: 'sound' })
    await post.store.damage.loseMessage(lost.message.id)

    await post.messages.processRetries()
    await passAfter(post, 30_000)

    expect(pigeon.heard.map(({ id }) => id)).toEqual([sound.message.id, sound.message.id])
    expect(named('delivery.failed').map(({ facts }) => facts.error)).toEqual([
      'its message is gone',
      'its message is gone',
    ])
    const closed = (await readFeed(post.hf)).filter(({ kind }) => kind === 'delivery.cancelled')
    expect(closed.map(({ detail }) => detail?.reason)).toEqual(['its message is gone', 'its message is gone'])
  })

  test.each(['due', 'unanswered'])(
    'a delivery that is %s and has lost its message does not wake a process over and over [A12]',
    async (when) => {
      const post = await openPost(engine)
      if (when === 'due') await reachBob(post)
      const { message } = await post.messages.sendWithAck('bob', { content: 1, delaysMs: [], ladder: [] })
      await post.store.damage.loseMessage(message.id)
      let transactions = 0
      const environment = {
        ...machine(post.env).process(7),
        reached(point: string) {
          if (point === 'transaction.begun') transactions++
        },
      }
      const { messages } = await post.store.open({ agent: 'awake', environment })
      if (when === 'due') messages.adapter('pigeon', { send: async () => ({ outcome: 'delivered' }) })
      await post.env.advance(5_000)
      transactions = 0

      await post.env.advance(20_000)

      expect(transactions).toBeLessThan(40)
    },
  )

  test('a limit whose count cannot be read starts over', async () => {
    const post = await openPost(engine)
    await post.messages.register('alice', { sendsPerMinute: 1 })
    await post.messages.sendWithAck('bob', { content: 1 })
    await post.store.damage.garbleAllowance('send:alice')

    const { deferredMs } = await post.messages.sendWithAck('bob', { content: 2 })
    const { deferredMs: counted } = await post.messages.sendWithAck('bob', { content: 3 })

    expect([deferredMs, counted]).toEqual([0, 60_000])
  })
})
