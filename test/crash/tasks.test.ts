/** Tasks and real processes: killed, frozen and racing holders. */
import type { Task, TaskClaim } from 'holdfast'
import { expect, test } from 'vitest'
import { present } from '../support/outcomes.ts'
import {
  type Actor,
  audit,
  expectSound,
  expectSoundAndFree,
  newStore,
  openActor,
  openHere,
  print,
  reclaimOf,
  until,
  warmUp,
} from './support.ts'

/** The goal is one second; on a machine with other things to do it may take longer, but never the lease. */
const promptMs = 3000

const ask = <Result>(actor: Actor, method: string, ...args: unknown[]) =>
  actor.ask<Result>('call', { noun: 'tasks', method, args })

async function claimBy(actor: Actor, ref: string, options: object = {}): Promise<Task> {
  const claim = await ask<TaskClaim>(actor, 'claimTaskForAgent', ref, options)
  expect(claim).toMatchObject({ outcome: 'claimed' })
  return (claim as { task: Task }).task
}

// First, since those that come through it serve the tests that follow.
test('of 8 processes that claim one task at once, exactly one wins, round after round [X6] [T3] [T22]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false, durability: 'normal' })
  const { id } = await hf.tasks.addTask('one')
  const racers = await Promise.all(
    Array.from({ length: 8 }, (_, number) =>
      openActor(store, { agent: `racer-${number}`, background: false, durability: 'normal' }),
    ),
  )
  const rounds = 40

  for (let round = 0; round < rounds; round++) {
    const claims = await Promise.all(racers.map((racer) => ask<TaskClaim>(racer, 'claimTaskForAgent', id)))

    const winner = claims.findIndex(({ outcome }) => outcome === 'claimed')
    expect(claims.map(({ outcome }) => outcome).sort()).toEqual(['claimed', ...Array(7).fill('held')])
    expect(new Set(claims.flatMap((claim) => (claim.outcome === 'held' ? [claim.holder] : [])))).toEqual(
      new Set([`racer-${winner}`]),
    )
    expect(await ask<boolean>(racers[winner] as Actor, 'releaseTask', id)).toBe(true)
  }

  const events = (await audit(hf)).filter((event) => event.id === id)
  const tokens = events.filter(({ kind }) => kind === 'item.claimed').map(({ token }) => token as number)
  expect(tokens).toHaveLength(rounds)
  expect(tokens).toEqual([...new Set(tokens)].sort((left, right) => left - right))
  expectSoundAndFree(store)
})

test('the task of a killed holder is in Todo within a second, with its notes and progress [X6] [T12] [T13] [E11]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const { id } = await hf.tasks.addTask('one', { owner: 'olga', labels: ['docs'], metadata: { n: 1 } })
  const holder = await openActor(store, { agent: 'holder' })
  await claimBy(holder, id)
  await ask(holder, 'updateTask', id, { note: 'chapter one is written', progress: { chapters: 1 } })

  const killedAt = performance.now()
  holder.kill()
  const { seenAt, detail } = await reclaimOf(hf, id)

  print(`a task was given back ${Math.round(seenAt - killedAt)} ms after its holder was killed`)
  expect(seenAt - killedAt).toBeLessThan(promptMs)
  expect(detail).toMatchObject({ holder: 'holder' })
  expect(await hf.tasks.getTask(id)).toMatchObject({
    status: 'Todo',
    assignee: null,
    owner: 'olga',
    labels: ['docs'],
    metadata: { n: 1 },
    progress: { chapters: 1 },
    notes: [{ by: 'holder', text: 'chapter one is written' }],
  })
  expectSoundAndFree(store)
})

test('an agent whose own process is killed loses its tasks, though helpers claimed them; a helper’s exit loses nothing [X6] [T12] [E2]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const { id } = await hf.tasks.addTask('one')
  const agent = await openActor(store, { agent: 'bystander', background: false })
  const helper = await openActor(store, { agent: 'helper', background: false })
  await helper.ask('call', { noun: 'agents', method: 'register', args: [{ agent: 'coder', pid: agent.pid }] })
  const task = await claimBy(helper, id, { agent: 'coder' })
  helper.kill()
  await helper.ended()
  const after = await hf.tasks.cleanupDeadAgentLocks()
  const kept = await present(hf.tasks.getTask(id))

  agent.kill()
  const { detail } = await reclaimOf(hf, id)

  expect(after.cleaned).toBe(0)
  expect(kept).toMatchObject({ assignee: 'coder', token: task.token, lease: { leaseMs: 1_800_000 } })
  expect(detail).toMatchObject({ holder: 'coder', evidence: expect.stringContaining(`process ${agent.pid}`) })
  expect(await hf.tasks.getTask(id)).toMatchObject({ status: 'Todo' })
})

test('a frozen holder keeps its task until its lease lapses, and is refused when it wakes [X6] [T6] [T22] [E8]', async () => {
  const store = newStore()
  const leaseMs = 2000
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const holder = await openActor(store, { agent: 'frozen', leaseMs, recovery: false })
  await warmUp(hf, holder)
  const { id } = await hf.tasks.addTask('one')
  const task = await claimBy(holder, id)
  const renewedAt = async () => (await hf.tasks.getTask(id))?.lease?.renewedAt
  const before = await renewedAt()
  await until('its lease was renewed', async () => (await renewedAt()) !== before)

  holder.kill('SIGSTOP')
  const meanwhile = await hf.tasks.claimTaskForAgent(id)
  await reclaimOf(hf, id)
  const heir = await hf.tasks.claimTaskForAgent(id)
  const late = ['completeTask', 'updateTask', 'renewLease'].map((method) =>
    holder.askRefusal('call', { noun: 'tasks', method, args: [id, { token: task.token }] }),
  )
  holder.kill('SIGCONT')

  expect(meanwhile).toMatchObject({ outcome: 'held', holder: 'frozen' })
  expect(heir).toMatchObject({ outcome: 'claimed', task: { assignee: 'test' } })
  expect((await Promise.all(late)).map(({ code }) => code)).toEqual([
    'LEASE_LOST',
    'LEASE_LOST',
    'LEASE_LOST',
  ])
  expect(await holder.told('aborted', ({ item }) => item === id)).toMatchObject({ code: 'LEASE_LOST' })
  expect(await hf.tasks.completeTask(id)).toMatchObject({ status: 'Done' })
  expectSound(store)
})

test('a process taken for dead by mistake joins again, and its real death is noticed at once [X6] [T12]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const { id } = await hf.tasks.addTask('one')
  const victim = await openActor(store, { agent: 'victim', leaseMs: 3_600_000 })
  const instances = async () => (await hf.agents.list()).filter(({ agent }) => agent === 'victim')
  const [before] = await instances()

  await hf.execute('instance.end', { id: before?.id as string, reason: 'by mistake' }, { agent: 'victim' })
  await until('it has joined again', async () => (await instances()).length > 0)
  const [after] = await instances()
  // The thread has joined; its process learns of it by a message.
  await until('its claims belong to the new instance', async () => {
    const task = await claimBy(victim, id)
    const isNew = task.lease?.instance === after?.id
    if (!isNew) await ask(victim, 'releaseTask', id)
    return isNew
  })
  const killedAt = performance.now()
  victim.kill()
  const { seenAt } = await reclaimOf(hf, id)

  expect(after?.id).not.toBe(before?.id)
  expect(seenAt - killedAt).toBeLessThan(promptMs)
})

test('8 processes that wait for a label each get their own task, once, while others are added [X6] [S5e-8]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false, durability: 'normal' })
  await hf
    .queue('tasks', { workflow: 'task' })
    .addMany(Array.from({ length: 1_000 }, () => ({ payload: null })))
  const waiters = await Promise.all(
    Array.from({ length: 8 }, (_, number) =>
      openActor(store, { agent: `racer-${number}`, background: false, durability: 'normal' }),
    ),
  )
  const rounds = 5

  for (let round = 0; round < rounds; round++) {
    // Two of them want the same, and there is one of it for each.
    const waiting = waiters.map((waiter, number) =>
      ask<TaskClaim>(waiter, 'claimNext', { labels: ['own', `own-${number >> 1}`], waitMs: 15_000 }),
    )
    const added: string[] = []
    for (const number of waiters.keys()) {
      await hf.tasks.addTask('common', { labels: ['common'] })
      const { id } = await hf.tasks.addTask('own', { labels: ['own', `own-${number >> 1}`], priority: 9 })
      added.push(id)
    }

    const claims = await Promise.all(waiting)

    const ids = claims.flatMap((claim) => (claim.outcome === 'claimed' ? [claim.task.id] : []))
    expect(ids.sort()).toEqual(added.sort())
  }
  expectSound(store)
})
