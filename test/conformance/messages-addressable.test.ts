/** Who can be sent messages: any agent that has done something here, until its name is no longer used. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimed, refusal, refusalCode } from '../support/outcomes.ts'
import { dayMs, retainFor } from '../support/retention.ts'
import { type Engine, forEachEngine, type Store } from '../support/stores.ts'

const note = { content: 'hello' }

forEachEngine((engine) => {
  test('a reply reaches a sender that only opened the store briefly [S5c-42]', async () => {
    const { as } = await openCommands(engine)
    const bob = await as('bob')
    await bob.messages.inbox()
    const { message } = await (await as('alice')).messages.sendWithAck('bob', note)

    const reply = await bob.messages.sendWithAck('alice', { content: 'yes', parent: message.id })

    expect(reply.message).toMatchObject({ deliveries: [{ recipient: 'alice' }], parent: message.id })
    expect((await (await as('alice')).messages.inbox()).messages).toMatchObject([{ sender: 'bob' }])
  })

  test.each<[string, (hf: Holdfast) => Promise<unknown>]>([
    ['sent a message', (hf) => hf.messages.sendWithAck('known', note)],
    ['claimed an item', async (hf) => claimed(hf.queue('jobs').next())],
    ['claimed several items', (hf) => hf.queue('jobs').claimMany(2)],
    ['claimed under the processing lock', async (hf) => claimed(hf.queue('jobs').nextWithLock())],
    ['taken a processing lock', (hf) => hf.queue('jobs').acquireProcessingLock()],
    ['claimed the next task', (hf) => hf.tasks.claimNext()],
    ['claimed a task by name', (hf) => hf.tasks.claimTaskForAgent('T-1')],
    ['claimed tasks together', (hf) => hf.tasks.batchClaim(['T-1'])],
    ['taken a lock', (hf) => hf.locks.acquireLock('deploy')],
    ['reserved paths', (hf) => hf.locks.reserve('src/**')],
    ['read its inbox', (hf) => hf.messages.inbox()],
    ['read the page an agent starts with', (hf) => hf.fleet.prime()],
    ['registered its process', (hf) => hf.agents.register()],
  ])('who has %s can be written to [S5c-42]', async (_, act) => {
    const { as, first } = await openCommands(engine)
    await first.messages.register('known')
    await first.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
    await first.tasks.addTask('Write it', { key: 'T-1' })
    const before = await refusalCode(() => first.messages.sendWithAck('ada', note))

    await act(await as('ada'))

    expect(before).toBe('UNKNOWN_RECIPIENT')
    expect(await first.messages.sendWithAck('ada', note)).toMatchObject({ deferredMs: 0 })
  })

  test.each<[string, (hf: Holdfast, message: string) => Promise<unknown>]>([
    ['acknowledged', (hf, message) => hf.messages.receiveAck(message)],
    ['refused', (hf, message) => hf.messages.nack(message)],
    ['is at work on', (hf, message) => hf.messages.progressAck(message)],
    ['has read', (hf, message) => hf.messages.markAsRead(message)],
  ])('a name that %s a message stays known when its registration is not [S5c-42]', async (_, act) => {
    const { as, first, store } = await openCommands(engine)
    await first.messages.register('ada')
    const { message } = await first.messages.sendWithAck('ada', note)

    await act(await as('ada'), message.id)

    expect((await store.countRows()).addressable).toBe(2)
  })

  test('an agent that asked for work and got none, or was refused, is still unknown [S5c-42]', async () => {
    const { as, first } = await openCommands(engine)
    await first.queue('jobs').add(1)
    await first.queue('jobs').next()
    await first.locks.acquireLock('deploy')
    const ada = await as('ada')

    await ada.queue('jobs').next()
    await ada.queue('nothing').next()
    await ada.locks.acquireLock('deploy')
    await ada.messages.receiveAck('00000000')
    await refusal(() => ada.messages.sendWithAck('nobody', note))

    expect(await refusalCode(() => first.messages.sendWithAck('ada', note))).toBe('UNKNOWN_RECIPIENT')
  })

  test('the sender of a message can be replied to whatever is known about it [S5c-42]', async () => {
    const { first, as, env } = await openCommands(engine)
    await first.messages.inbox()
    const { message } = await (await as('alice')).messages.sendWithAck('first', note)
    await env.advance(6 * dayMs)
    await first.messages.receiveAck(message.id)
    await env.advance(2 * dayMs)
    await retainFor(3, { hf: first, env })
    const unasked = await refusalCode(() => first.messages.sendWithAck('alice', note))

    const reply = await first.messages.sendWithAck('alice', { content: 'yes', parent: message.id })

    expect(unasked).toBe('UNKNOWN_RECIPIENT')
    expect(reply.message.deliveries).toMatchObject([{ recipient: 'alice' }])
  })

  describe('everybody', () => {
    test('means agents that are registered or running, not every known name [S5c-42]', async () => {
      const { as, first, store } = await openCommands(engine)
      await (await as('passing')).messages.inbox()
      await first.messages.register('known')
      await store.open({ agent: 'running', recovery: false })

      const { message } = await first.messages.sendWithAck('*', { ...note, quorum: 'all' })

      expect(message.deliveries.map(({ recipient }) => recipient)).toEqual(['known', 'running'])
      expect(message.quorum).toBe(2)
    })
  })

  test('an escalation goes to agents that are registered or running too [S5c-42]', async () => {
    const { as, first, env } = await openCommands(engine)
    await (await as('passing')).messages.inbox()
    for (const name of ['bob', 'carol']) await first.messages.register(name)
    const { message } = await first.messages.sendWithAck('bob', { ...note, delaysMs: [1_000] })

    for (let round = 0; round < 3; round++) {
      await env.advance(1_001)
      await first.messages.processRetries()
    }

    const { deliveries = [] } = (await first.messages.get(message.id)) ?? {}
    const told = new Set(deliveries.map(({ recipient }) => recipient))
    expect(told.has('carol')).toBe(true)
    expect(told.has('passing')).toBe(false)
  })

  test('concurrent commands under a new name all succeed [S5c-42]', async () => {
    const { as, first, store } = await openCommands(engine)
    await first.queue('jobs').addMany(Array.from({ length: 4 }, (_, payload) => ({ payload })))
    const commands = await Promise.all(Array.from({ length: 8 }, () => as('ada')))

    const answers = await Promise.all(
      commands.map((ada, number) =>
        number % 2 === 0 ? ada.queue('jobs').next() : ada.locks.acquireLock(`lock-${number}`),
      ),
    )

    expect(answers.map(({ outcome }) => outcome)).toEqual(
      answers.map((_, number) => (number % 2 === 0 ? 'claimed' : 'acquired')),
    )
    expect((await store.countRows()).addressable).toBe(1)
  })

  test('an unknown name is refused with the nearest known one [S5c-42]', async () => {
    const { as, first } = await openCommands(engine)
    await (await as('alexandra')).messages.inbox()

    expect(await refusal(() => first.messages.sendWithAck('alexandr', note))).toMatchObject({
      facts: { nearest: ['alexandra'] },
    })
  })

  test('a name is recorded once, and removed with its last message [S5c-42]', async () => {
    const { as, first, env, store } = await openCommands(engine)
    const ada = await as('ada')
    for (let round = 0; round < 3; round++) {
      await first.queue('jobs').add(round)
      await ada.queue('jobs').next()
      await ada.messages.inbox()
    }
    await (await as('bob')).messages.inbox()
    const { message } = await first.messages.sendWithAck('bob', { ...note, delaysMs: [dayMs] })
    const known = (await store.countRows()).addressable
    await env.advance(8 * dayMs)
    await retainFor(3, { hf: first, env })
    const used = (await store.countRows()).addressable
    await first.messages.receiveAck(message.id, { agent: 'bob' })
    await env.advance(8 * dayMs)
    await retainFor(3, { hf: first, env })

    // The sender is one of them.
    expect([known, used, (await store.countRows()).addressable]).toEqual([3, 2, 0])
  })
})

/** Handles that come and go without a process behind them, as commands do; one of them stays. */
async function openCommands(engine: Engine) {
  const { hf: first, env, store } = await engine.open({ ...command, agent: 'first' })
  const as = (agent: string) => (store as Store).open({ ...command, agent })
  return { first, as, env, store }
}

const command = { background: false, recovery: false } as const
