/** kill -9 at every step of an item's way through a process: what was acknowledged stays, the rest is done by others. */
import type { Event, Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import {
  type Actor,
  audit,
  auditUntil,
  claimBy,
  countById,
  expectCompletedOnce,
  expectSoundAndFree,
  newStore,
  numbered,
  openActor,
  openHere,
  print,
  query,
} from './support.ts'

interface Step {
  readonly step: string
  /** Makes the process take the first item up to the step, where it kills itself. */
  readonly walk: (actor: Actor) => Promise<unknown>
  /** What the audit must know of the dead process: how many claims, how many completions. */
  readonly claims: 0 | 1
  readonly completions: 0 | 1
}

const dieAt = (actor: Actor, point: string) => actor.ask('set', { point, signal: 'SIGKILL' })

function duringClaim(point: string, claims: 0 | 1): Step {
  return {
    step: `in the transaction of the claim, ${point}`,
    claims,
    completions: 0,
    async walk(actor) {
      await dieAt(actor, `transaction.${point}`)
      actor.send('next', { queue: 'q' })
    },
  }
}

function duringCompletion(point: string, completions: 0 | 1): Step {
  return {
    step: `in the transaction of the completion, ${point}`,
    claims: 1,
    completions,
    async walk(actor) {
      const { id } = await claimBy(actor, 'q')
      await dieAt(actor, `transaction.${point}`)
      actor.send('complete', { queue: 'q', item: id })
    },
  }
}

const steps: Step[] = [
  { step: 'before the claim', claims: 0, completions: 0, walk: async (actor) => actor.send('die') },
  duringClaim('begun', 0),
  duringClaim('applied', 0),
  duringClaim('committed', 1),
  {
    step: 'after the answer to the claim',
    claims: 1,
    completions: 0,
    async walk(actor) {
      await claimBy(actor, 'q')
      actor.send('die')
    },
  },
  {
    step: 'in the handler of a worker',
    claims: 1,
    completions: 0,
    walk: async (actor) => actor.send('work', { queue: 'q', each: 'die' }),
  },
  {
    step: 'after the answer to its progress',
    claims: 1,
    completions: 0,
    async walk(actor) {
      const { id } = await claimBy(actor, 'q')
      await actor.ask('progress', { queue: 'q', item: id, progress: { half: true } })
      actor.send('die')
    },
  },
  duringCompletion('begun', 0),
  duringCompletion('applied', 0),
  duringCompletion('committed', 1),
  {
    step: 'after the answer to the completion',
    claims: 1,
    completions: 1,
    async walk(actor) {
      const { id } = await claimBy(actor, 'q')
      await actor.ask('complete', { queue: 'q', item: id })
      actor.send('die')
    },
  },
]

for (const { step, walk, claims, completions } of steps) {
  test(`a process killed ${step} loses nothing and repeats nothing acknowledged [X6] [Q13] [Z2]`, async () => {
    const store = newStore()
    const hf = await openHere(store)
    const { ids } = await hf.queue('q').addMany(numbered(3))
    const victim = await openActor(store, { agent: 'victim' })

    await walk(victim)
    expect(await victim.ended()).toBe('SIGKILL')
    const diedAt = performance.now()
    const events = await finishAll(hf, ids)
    print(`killed ${step}: all done after ${Math.round(performance.now() - diedAt)} ms`)

    const of = (kind: string, agent: string) =>
      events.filter((event) => event.kind === kind && event.agent === agent).length
    expectCompletedOnce(events, ids)
    expect({
      claimsOfTheDead: of('item.claimed', 'victim'),
      completionsOfTheDead: of('item.completed', 'victim'),
      completionsOfTheHeir: of('item.completed', 'test'),
      reclaimed: of('item.reclaimed', 'test'),
      died: of('instance.died', 'test'),
    }).toEqual({
      claimsOfTheDead: claims,
      completionsOfTheDead: completions,
      completionsOfTheHeir: 3 - completions,
      reclaimed: claims - completions,
      died: 1,
    })
    await hf.close()
    expectSoundAndFree(store)
  })
}

for (const [when, heal] of [
  ['a claim', (hf: Holdfast) => hf.queue('q').next({ renew: false })],
  ['recovery', (hf: Holdfast) => hf.recovery.detectAndRecoverStale()],
] as const) {
  test(`items that a process killed after a completion left waiting are freed by ${when} [S5e-11]`, async () => {
    const store = newStore()
    const hf = await openHere(store, { background: false, recovery: false })
    const { item: gate } = await hf.queue('q').add('gate', { priority: 0 })
    const behind = { blockers: [gate.id] }
    await Promise.all(numbered(150).map(({ payload }) => hf.queue('q').add(payload, behind)))
    const victim = await openActor(store, { agent: 'victim', recovery: false })
    await claimBy(victim, 'q')

    await dieAt(victim, 'transaction.committed')
    victim.send('complete', { queue: 'q', item: gate.id })
    expect(await victim.ended()).toBe('SIGKILL')
    const left = await hf.queue('q').stats()
    await heal(hf)

    expect(left).toMatchObject({ completed: 1, pending: 100, blocked: 50 })
    expect((await hf.queue('q').stats()).blocked).toBe(0)
    expect(query(store, 'select blocker from blocker')).toEqual([])
    await hf.close()
  })
}

test('items that a process killed after dropping a task left waiting are freed by recovery [S5e-11] [S5c-48]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false, recovery: false })
  const { id: gate } = await hf.tasks.addTask('gate')
  await Promise.all(numbered(150).map(() => hf.tasks.addTask('behind', { dependsOn: [gate] })))
  const victim = await openActor(store, { agent: 'victim', recovery: false })

  await dieAt(victim, 'transaction.committed')
  const dropped = [gate, { reason: 'not needed', dependents: 'release' }]
  victim.send('call', { noun: 'tasks', method: 'removeTask', args: dropped })
  expect(await victim.ended()).toBe('SIGKILL')
  const left = await hf.queue('tasks').stats()
  await hf.recovery.detectAndRecoverStale()

  expect(left).toMatchObject({ total: 150, pending: 100, blocked: 50 })
  expect(await hf.queue('tasks').stats()).toMatchObject({ total: 150, pending: 150, blocked: 0 })
  expect(query(store, 'select blocker from blocker union all select blocker from cascade')).toEqual([])
  await hf.close()
})

/** Another process, here the test's own, works until all is done and the dead one is known to be dead. */
async function finishAll(hf: Holdfast, ids: readonly string[]): Promise<Event[]> {
  const worker = hf.work('q', () => {})
  await auditUntil(hf, 'the completion of all items and the death in the audit', (events) => {
    const done = countById(events, 'item.completed')
    return ids.every((id) => done.has(id)) && events.some(({ kind }) => kind === 'instance.died')
  })
  await worker.stop()
  return audit(hf)
}
