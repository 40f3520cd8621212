/** A task that is handed over is kept for its new owner for a while. */
import type { OpenOptions } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { present, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const tenMinutes = 10 * 60_000

forEachEngine((engine) => {
  describe('[S5-8] a task handed to an agent', () => {
    test('goes only to that agent for a time, and then to anyone', async () => {
      // Nobody heals meanwhile: the claim itself must see whether the offer is over.
      const { hf, env, bob, cy } = await handedOver(engine, {}, { background: false })

      const early = await cy.tasks.claimNext()
      await env.advance(tenMinutes - 1_000)
      const justBefore = await cy.tasks.claimNext()
      await env.advance(2_000)
      const afterwards = await cy.tasks.claimNext()

      expect([early.outcome, justBefore.outcome]).toEqual(['empty', 'empty'])
      expect(afterwards).toMatchObject({ outcome: 'claimed', task: { key: 'T-1', offeredTo: null } })
      expect((await bob.tasks.claimNext()).outcome).toBe('empty')
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ owner: 'bob', assignee: 'cy' })
    })

    test('is the next task of that agent, in order with all others, and shown as offered', async () => {
      const { hf, bob } = await handedOver(engine)
      await hf.tasks.addTask('urgent', { key: 'T-0', priority: 0 })
      await hf.tasks.addTask('later', { key: 'T-2' })
      const offered = await present(hf.tasks.getTask('T-1'))

      const claims = [await bob.tasks.claimNext(), await bob.tasks.claimNext(), await bob.tasks.claimNext()]

      expect(offered).toMatchObject({ status: 'Todo', offeredTo: 'bob', offeredUntil: expect.any(Number) })
      expect(claims.map((claim) => claim.outcome === 'claimed' && claim.task.key)).toEqual([
        'T-0',
        'T-1',
        'T-2',
      ])
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ offeredTo: null, offeredUntil: null })
    })

    test('is refused to another agent that names it, with the offer; not to an operator with force', async () => {
      const { hf, env, cy } = await handedOver(engine)

      const one = await cy.tasks.claimTaskForAgent('T-1')
      const several = await cy.tasks.batchClaim(['T-1'])
      const forced = await cy.tasks.claimTaskForAgent('T-1', { force: true })

      const until = env.now() + tenMinutes
      expect(one).toEqual({ outcome: 'offered', to: 'bob', until })
      expect(several).toMatchObject({
        outcome: 'refused',
        failed: [{ ref: 'T-1', outcome: 'offered', to: 'bob', until }],
      })
      expect(forced).toMatchObject({ outcome: 'claimed', task: { assignee: 'cy', owner: 'bob' } })
      const events = await hf.queue('tasks').events('T-1')
      expect(events.at(-1)).toMatchObject({ kind: 'item.claimed', detail: { offeredTo: 'bob' } })
    })

    test('can be claimed by name by that agent, even among several', async () => {
      const { hf, bob } = await handedOver(engine)
      await hf.tasks.addTask('other', { key: 'T-2' })

      expect(await bob.tasks.batchClaim(['T-1', 'T-2'])).toMatchObject({
        outcome: 'claimed',
        tasks: [{ task: { key: 'T-1' } }, { task: { key: 'T-2' } }],
      })
    })

    test('wakes that agent while it waits for work, and no other', async () => {
      const { hf, env, bob, cy } = await openThree(engine)
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1')
      const waiting = [cy, bob].map((handle) => handle.tasks.claimNext({ waitMs: 3_000 }))
      await env.advance(100)

      await hf.tasks.handoff({ to: 'bob' })
      await env.advance(1_500)
      const soon = await present(hf.tasks.getTask('T-1'))
      await env.advance(2_000)

      expect(soon.assignee).toBe('bob')
      expect((await Promise.all(waiting)).map(({ outcome }) => outcome)).toEqual(['empty', 'claimed'])
    })

    test('is open to all at once with an offer of 0, and after that agent was lost', async () => {
      const { hf, env, bob, cy } = await handedOver(engine, { offerMs: 0 })
      const atOnce = await cy.tasks.claimNext()
      await cy.tasks.handoff({ to: 'bob', offerMs: 60_000 })
      await bob.tasks.claimNext({ renew: false, leaseMs: 1_000 })
      await env.advance(7_000)

      expect(atOnce.outcome).toBe('claimed')
      expect(await cy.tasks.claimNext()).toMatchObject({ outcome: 'claimed', task: { key: 'T-1' } })
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ offeredTo: null })
    })

    test('waits for what it depends on, whoever it is offered to', async () => {
      const { hf, bob } = await openThree(engine)
      await hf.tasks.addTask('first', { key: 'T-0' })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1')
      await hf.tasks.updateTask('T-1', { dependsOn: ['T-0'] })
      await hf.tasks.handoff({ to: 'bob' })

      const named = await bob.tasks.claimTaskForAgent('T-1')
      const next = await bob.tasks.claimNext()
      await bob.tasks.completeTask('T-0')

      expect(named.outcome).toBe('blocked')
      expect(next).toMatchObject({ outcome: 'claimed', task: { key: 'T-0' } })
      expect(await bob.tasks.claimNext()).toMatchObject({ outcome: 'claimed', task: { key: 'T-1' } })
    })

    test('several for one agent, claimed at the same time, are different tasks', async () => {
      const { hf, bob } = await openThree(engine)
      const keys = ['T-1', 'T-2', 'T-3', 'T-4']
      for (const key of keys) {
        await hf.tasks.addTask(key, { key })
        await hf.tasks.claimTaskForAgent(key)
      }
      await hf.tasks.handoff({ to: 'bob' })

      const claims = await Promise.all([...keys, 'one more'].map(() => bob.tasks.claimNext()))

      const got = claims.map((claim) => (claim.outcome === 'claimed' ? claim.task.key : claim.outcome))
      expect(got.toSorted()).toEqual([...keys, 'empty'].toSorted())
    })

    test('is explained as offered, and an offer that is not a duration is refused', async () => {
      const { hf } = await handedOver(engine)

      const explained = await hf.fleet.explain('T-1')
      const codes = await Promise.all(
        [-1, 0.5, Number.NaN, 25 * 3_600_000].map((offerMs) =>
          refusalCode(() => hf.tasks.handoff({ to: 'bob', offerMs })),
        ),
      )

      expect(JSON.stringify(explained)).toContain('offered to bob alone')
      expect(codes).toEqual(codes.map(() => 'INVALID'))
    })
  })

  test('[S5-8] mine asks for tasks owned by the caller or by nobody', async () => {
    const { hf, bob } = await openThree(engine)
    const owners = { 'T-1': 'cy', 'T-2': 'bob', 'T-3': null }
    for (const [key, owner] of Object.entries(owners)) {
      await hf.tasks.addTask(key, { key, ...(owner === null ? {} : { owner }) })
    }

    const listed = (await bob.tasks.listTasks({ mine: true })).tasks.map(({ key }) => key)
    const claims = [1, 2, 3].map(() => bob.tasks.claimNext({ mine: true }))

    expect(listed).toEqual(['T-2', 'T-3'])
    const got = (await Promise.all(claims)).map((claim) =>
      claim.outcome === 'claimed' ? claim.task.key : claim.outcome,
    )
    expect(got.toSorted()).toEqual(['T-2', 'T-3', 'empty'])
    expect((await bob.tasks.claimNext()).outcome).toBe('claimed')
  })
})

async function openThree(engine: Engine, options: OpenOptions = {}) {
  const { hf, env, store } = await engine.open({ ...options, agent: 'ada' })
  const [bob, cy] = [
    await store.open({ ...options, agent: 'bob' }),
    await store.open({ ...options, agent: 'cy' }),
  ]
  return { hf, env, bob, cy }
}

async function handedOver(engine: Engine, options: { offerMs?: number } = {}, opening: OpenOptions = {}) {
  const opened = await openThree(engine, opening)
  await opened.hf.tasks.addTask('one', { key: 'T-1' })
  await opened.hf.tasks.claimTaskForAgent('T-1')
  await opened.hf.tasks.handoff({ to: 'bob', note: 'yours now', ...options })
  return opened
}
