/** Dependencies never form a cycle, even when two processes change them at the same time. */
import { randomUUID } from 'node:crypto'
import type { Holdfast, Workflow } from 'holdfast'
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const rounds = Array.from({ length: 10 }, (_, round) => round)

forEachEngine((engine) => {
  test('two concurrent updates cannot create a cycle between them [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const other = await store.open()
    const { tasks } = hf
    await Promise.all(
      rounds.map(async (round) => {
        await Promise.all(['b', 'd'].map((name) => tasks.addTask(name, { key: name + round })))
        await tasks.addTask('a', { key: `a${round}`, dependsOn: [`b${round}`] })
        await tasks.addTask('c', { key: `c${round}`, dependsOn: [`d${round}`] })
      }),
    )
    const wellDone: number[] = []

    for (const round of rounds) {
      const both = await Promise.allSettled([
        tasks.updateTask(`b${round}`, { dependsOn: [`c${round}`] }),
        other.tasks.updateTask(`d${round}`, { dependsOn: [`a${round}`] }),
      ])
      wellDone.push(both.filter(({ status }) => status === 'fulfilled').length)
    }

    expect(wellDone).toEqual(rounds.map(() => 1))
  })

  test('nor can two resubmitted changes [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const q = hf.queue('main', { workflow: 'merge' })
    const other = (await store.open()).queue('main')
    const behind = new Map<string, string>()
    const prepare = async (key: string) => {
      const { item } = await q.submit(key, { headSha: 'abcd' })
      await q.cancel(key)
      behind.set(key, (await q.add(null, { blockers: [item.id] })).item.id)
    }
    await Promise.all(rounds.flatMap((round) => [`x${round}`, `y${round}`]).map(prepare))
    const wellDone: number[] = []

    for (const round of rounds) {
      const both = await Promise.allSettled([
        q.submit(`x${round}`, { headSha: 'abcd', blockers: [behind.get(`y${round}`) as string] }),
        other.submit(`y${round}`, { headSha: 'abcd', blockers: [behind.get(`x${round}`) as string] }),
      ])
      wellDone.push(both.filter(({ status }) => status === 'fulfilled').length)
    }

    expect(wellDone).toEqual(rounds.map(() => 1))
  })

  test('nor can two open changes that get new blockers or a new parent [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const q = hf.queue('main', { workflow: 'merge' })
    const other = (await store.open()).queue('main')
    const behind = new Map<string, string>()
    const prepare = async (key: string) => {
      const { item } = await q.submit(key, { headSha: 'abcd' })
      behind.set(key, (await q.add(null, { blockers: [item.id] })).item.id)
    }
    await Promise.all(rounds.flatMap((round) => [`x${round}`, `y${round}`]).map(prepare))
    const wellDone: number[] = []

    for (const round of rounds) {
      const [behindX, behindY] = [`x${round}`, `y${round}`].map((key) => behind.get(key) as string)
      const both = await Promise.allSettled([
        q.submit(`x${round}`, { headSha: 'abcd', blockers: [behindY as string] }),
        other.submit(`y${round}`, { headSha: 'abcd', parent: behindX as string }),
      ])
      wellDone.push(both.filter(({ status }) => status === 'fulfilled').length)
    }

    expect(wellDone).toEqual(rounds.map(() => 1))
  })

  test('nor can an update of a task and a resubmitted change [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const q = hf.queue('tasks', { workflow: 'task' })
    const other = await store.open()
    const wellDone: number[] = []

    for (const round of rounds) {
      const dedupeKey = `change:${round}`
      const submit = (key: string, options = {}) => q.submit(key, { headSha: 'abcd', dedupeKey, ...options })
      const { item } = await submit(`x${round}`)
      const behind = await hf.tasks.addTask('behind', { dependsOn: [item.id] })
      const task = await hf.tasks.addTask('task')
      const last = await hf.tasks.addTask('last', { dependsOn: [task.id] })
      const both = await Promise.allSettled([
        submit(`x${round}`, { blockers: [last.id] }),
        other.tasks.updateTask(task.id, { dependsOn: [behind.id] }),
      ])
      wellDone.push(both.filter(({ status }) => status === 'fulfilled').length)
    }

    expect(wellDone).toEqual(rounds.map(() => 1))
  })

  test('a cancelled item that is reopened cannot wait for what waits for it by then [S5c-2]', async () => {
    const { hf } = await engine.open({ background: false })
    const q = hf.queue('main', { workflow: 'merge' })
    const first = await q.submit('first', { headSha: 'abcd' })
    const second = await q.submit('second', { headSha: 'abcd', blockers: [first.item.id] })
    await q.cancel('second')
    await q.submit('first', { headSha: 'abcd', blockers: [second.item.id] })

    const refused = await refusal(() => q.submit('second', { headSha: 'abcd', blockers: [first.item.id] }))

    expect(refused).toMatchObject({ code: 'INVALID', facts: { item: second.item.id } })
  })

  test('one that can be retried after it was cancelled goes on waiting, so it still counts [S5c-2]', async () => {
    const { hf } = await engine.open({ background: false })
    const q = hf.queue('changes', { workflow: revocable })
    const first = await q.submit('first', { headSha: 'abcd' })
    const second = await q.submit('second', { headSha: 'abcd', blockers: [first.item.id] })
    await q.cancel('second')

    const refused = await refusal(() => q.submit('first', { headSha: 'abcd', blockers: [second.item.id] }))
    const retried = await q.retry('second')

    expect(refused).toMatchObject({ code: 'INVALID', facts: { item: first.item.id } })
    expect(retried).toMatchObject({ phase: 'waiting', waitingFor: [first.item.id] })
  })

  test('an imported item waits only for what was there before, so no import creates a cycle [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const other = await store.open()
    const [one, two] = [randomUUID(), randomUUID()]
    const importOne = (handle: Holdfast, id: string, blockers: string[]) =>
      handle.execute('queue.import', {
        queue: 'jobs',
        workflow: 'job',
        from: 'test',
        entries: [{ id, state: 'pending', blockers, addedAt: 1 }],
      })

    await Promise.all([importOne(hf, one, [two]), importOne(other, two, [one])])
    await Promise.all([importOne(hf, one, [two]), importOne(other, two, [one])])

    const waits = await Promise.all(
      [one, two].map(async (id) => (await hf.queue('jobs').get(id))?.waitingFor),
    )
    expect(waits.flat().length).toBeLessThan(2)
  })

  test('however many wait for a task, the check of its new blockers visits a bounded number [S5e-11]', async () => {
    const { hf } = await engine.openInRealTime({ background: false, recovery: false })
    const hub = await hf.tasks.addTask('hub')
    const goal = await addGoal(hf)
    const [last] = (await addBehind(hf, Array<readonly string[]>(maxWalked).fill([hub.id]))).slice(-1)
    const early = await hf.tasks.addTask('early')

    const free = await hf.tasks.updateTask(hub.id, { dependsOn: [early.id] })
    const circle = await refusal(() => hf.tasks.updateTask(hub.id, { dependsOn: [last as string] }))
    const far = await refusal(() => hf.tasks.updateTask(hub.id, { dependsOn: [goal] }))

    expect(free.waitingFor).toEqual([early.id])
    expect(circle).toMatchObject({ code: 'INVALID', facts: { item: hub.id } })
    expect(far).toMatchObject({ code: 'INVALID', facts: { maxWalked } })
  })
})

/** What was cancelled can be retried. */
const revocable: Workflow = {
  name: 'revocable',
  initial: 'open',
  cancelTo: 'cancelled',
  failsRetryably: false,
  retryForgives: false,
  states: {
    open: { claimTo: 'taken', moves: ['cancelled'] },
    taken: { held: true, lostTo: 'open', moves: ['done'], completeTo: 'done' },
    done: { closed: 'succeeded', moves: [] },
    cancelled: { closed: 'failed', moves: [], retryTo: 'open' },
  },
}

/** Items walked in each direction. */
const maxWalked = 1_000

/** A task that waits, through others, for as many as are walked. */
async function addGoal(hf: Holdfast): Promise<string> {
  const first = await addBehind(hf, Array<readonly string[]>(maxWalked).fill([]))
  const between = Array.from({ length: 10 }, (_, tenth) => first.slice(tenth * 100, tenth * 100 + 100))
  const [goal] = await addBehind(hf, [await addBehind(hf, between)])
  return goal as string
}

async function addBehind(hf: Holdfast, blockers: readonly (readonly string[])[]): Promise<string[]> {
  const entries = blockers.map((each) => ({
    id: randomUUID(),
    state: 'todo',
    blockers: [...each],
    addedAt: 1,
  }))
  for (let from = 0; from < entries.length; from += 100) {
    const page = entries.slice(from, from + 100)
    await hf.execute('queue.import', { queue: 'tasks', workflow: 'task', from: 'test', entries: page })
  }
  return entries.map(({ id }) => id)
}
