/** The stack of an error names the line of the program that called, however the call was executed. */
import type { Holdfast } from 'holdfast'
import { beforeAll, expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

type Act = (hf: Holdfast) => Promise<unknown>

/** One refused call for each noun; each way in which a method may hand the answer on is among them. */
const refused: Record<string, Act> = {
  'queue.add': (hf) => hf.queue('jobs').add(null, { key: 'taken' }),
  'queue.addMany': (hf) => hf.queue('jobs').addMany([{ payload: 1, priority: 0.5 }]),
  'queue.complete': (hf) => hf.queue('jobs').complete('taken', { token: 1 }),
  'queue.next': (hf) => hf.queue('jobs').next({ leaseMs: -1 }),
  'queue.claimMany': (hf) => hf.queue('jobs').claimMany(10_000),
  'queue.cancel': (hf) => hf.queue('jobs').cancel('nothing'),
  'queue.position': (hf) => hf.queue('jobs').position('nothing'),
  'a queue with settings': (hf) => hf.queue('jobs', { maxAttempts: 2 }).add(null, { key: 'taken' }),
  'tasks.updateTask': (hf) => hf.tasks.updateTask('nothing', { title: 'a' }),
  'tasks.claimTaskForAgent': (hf) => hf.tasks.claimTaskForAgent('nothing'),
  'locks.acquireLock': (hf) => hf.locks.acquireLock('deploy', { leaseMs: -1 }),
  'locks.renewLock': (hf) => hf.locks.renewLock('deploy', { token: 1 }),
  'state.set': (hf) => hf.state('plan').set(1, { expectedVersion: 7 }),
  'state.update': (hf) => hf.state('plan').update(() => 'x'.repeat(300_000)),
  'messages.sendWithAck': (hf) =>
    hf.messages.sendWithAck('nobody', { type: 'question', content: 'hi' } as never),
  'fleet.explain': (hf) => hf.fleet.explain('nothing'),
  'agents.register': (hf) => hf.agents.register({ agent: 'ada', pid: -1 } as never),
  execute: (hf) => hf.execute('queue.cancel', { queue: 'jobs', ref: 'nothing' }),
}

forEachEngine((engine) => {
  let hf: Holdfast
  beforeAll(async () => {
    // In real time: on PostgreSQL the engine is in its thread then.
    hf = (await engine.openInRealTimeForAll()).hf
    await hf.queue('jobs').add(null, { key: 'taken' })
  })

  test.each(Object.entries(refused))('[S5-6] %s', async (_, act) => {
    async function theProgram() {
      await act(hf)
    }

    const { stack = '' } = await refusal(theProgram)

    expect(stack).toMatch(/at (async )?theProgram .*caller-stacks\.test/)
    expect(stack.match(/theProgram/g)).toHaveLength(1)
  })

  test('[S5-6] callers whose calls are refused together each see their own line in the stack', async () => {
    async function first() {
      await hf.queue('jobs').add(null, { key: 'taken' })
    }
    async function second() {
      await hf.queue('jobs').add(null, { key: 'taken' })
    }

    const [one, other] = await Promise.all([refusal(first), refusal(second)])

    expect(one.stack).toContain(' first ')
    expect(one.stack).not.toContain(' second ')
    expect(other.stack).toContain(' second ')
    expect(other.stack).not.toContain(' first ')
  })

  test('[S5-6] one error for a whole batch becomes one error per caller, with the same facts', async () => {
    const { hf: own, store } = await engine.open({ busyTimeoutMs: 10 })
    const letGo = await store.damage.holdUpWriters()
    async function first() {
      await own.queue('jobs').add(1)
    }
    async function second() {
      await own.queue('jobs').add(2)
    }

    const both = Promise.all([refusal(first), refusal(second)])
    for (let round = 0; round < 300; round++) await store.env.advance(100)
    const [one, other] = await both
    await letGo()

    expect(one.stack).toContain(' first ')
    expect(one.stack).not.toContain(' second ')
    expect(other.stack).toContain(' second ')
    expect(other.stack).not.toContain(' first ')
    expect([other.code, other.message, other.name]).toEqual([one.code, one.message, one.name])
  })
})
