/** An item for which more items wait than one transaction frees: the rest is freed later, and never too early. */
import { randomUUID } from 'node:crypto'
import type { Holdfast, Workflow } from 'holdfast'
import { expect, test } from 'vitest'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** As many as one transaction frees. */
const freedAtOnce = 100

/** It can be closed without a claim, before which the rest would be freed. */
const workflow: Workflow = {
  name: 'checklist',
  initial: 'open',
  failsRetryably: false,
  retryForgives: false,
  states: {
    open: { claimTo: 'taken', moves: ['done'] },
    taken: { held: true, lostTo: 'open', moves: ['done'], completeTo: 'done' },
    done: { closed: 'succeeded', moves: [] },
  },
}

forEachEngine((engine) => {
  test('a blocker that is reopened and closes again while some wait frees nothing too early [S5c-10]', async () => {
    const { hf, change, submit, finish } = await openChange(engine)
    await addBehind(hf, change, freedAtOnce + 1)
    await finish()
    await submit()
    await addBehind(hf, change, freedAtOnce + 1)

    // Started over before its process comes to the rest.
    await Promise.all([finish(), submit()])
    const left = await waiting(hf)
    const { item } = await hf.queue('jobs').add('behind its third life', { blockers: [change] })
    await hf.recovery.detectAndRecoverStale()
    const meanwhile = await waiting(hf)
    await finish()

    expect(left).toHaveLength(1)
    expect(meanwhile.sort()).toEqual([...left, item.id].sort())
    expect(await waiting(hf)).toEqual([])
  })

  test('an item that waits for several is freed once they are all completed, also at once [S5c-10]', async () => {
    const { hf } = await engine.open({ background: false })
    const queue = hf.queue('q')
    const blockers = (await queue.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }])).ids
    await queue.claimMany(3)
    const { item } = await queue.add('behind', { blockers })
    const { item: other } = await queue.add('behind the first', { blockers: blockers.slice(0, 1) })

    await Promise.all(blockers.map((id) => queue.complete(id)))

    expect(await queue.stats()).toMatchObject({ pending: 2, blocked: 0, completed: 3 })
    expect((await queue.events(item.id)).filter(({ kind }) => kind === 'item.unblocked')).toHaveLength(3)
    expect((await queue.events(other.id)).filter(({ kind }) => kind === 'item.unblocked')).toHaveLength(1)
  })

  test('an item and what waits for it can be removed at once [S5c-10]', async () => {
    const { hf } = await engine.open({ background: false })
    const queue = hf.queue('q')
    const { item } = await queue.add('first')
    const { item: behind } = await queue.add('behind', { blockers: [item.id] })

    const answers = await Promise.all([queue.remove(behind.id), queue.remove(item.id)])

    expect(answers).toEqual([true, true])
  })

  test('no transaction frees more than 100 waiting items [S5e-11]', async () => {
    const { hf, change, submit, finish } = await openChange(engine)
    await addBehind(hf, change, 2 * freedAtOnce + 50)

    const free = () => hf.execute('queue.freeDependents', {}) as Promise<{ freed: number }>
    // Whatever their order: started over, it frees no more.
    const [, { freed }] = await Promise.all([finish(), free(), submit()])

    expect(freed).toBeLessThanOrEqual(freedAtOnce)
    expect(await waiting(hf)).toHaveLength(freedAtOnce + 50 - freed)
  })

  test('the process that completes a blocker frees the rest at once, with recovery turned off [S5e-11]', async () => {
    const { store, env } = await engine.open()
    let commits = 0
    const environment = { ...machine(env).process(7), reached: count }
    const hf = await store.open({ environment, background: false, recovery: false })
    const { change, finish } = await changeOf(hf)
    await addBehind(hf, change, 2 * freedAtOnce + 50)
    commits = 0

    await finish()
    await hf.close()

    const look = await store.open({ background: false, recovery: false })
    expect(await waiting(look)).toEqual([])
    expect(await store.countRows()).toMatchObject({ cascade: 0, blocker: 0 })
    expect(commits).toBeGreaterThanOrEqual(3)

    function count(point: string): void {
      if (point === 'transaction.committed') commits++
    }
  })

  test('a finished blocker is never shown as open [S5e-11]', async () => {
    const { hf, afterCommit } = await openWatched(engine)
    const { gate, keys } = await addTasksBehind(hf)

    const look = afterCommit(() => seenBy(hf, keys))
    await hf.tasks.completeTask(gate)

    const { tasks, items, texts, positions } = await look
    expect(tasks.filter(({ waitingFor }) => waitingFor.length > 0)).toEqual([])
    expect(items.filter(({ phase }) => phase === 'waiting')).toEqual([])
    expect(texts.filter((why) => why.includes('waits'))).toEqual([])
    expect(positions).not.toContain(null)
  })

  test('a list of ready items has everything a finished blocker held back, freed or not [S5e-11]', async () => {
    const { hf, afterCommit } = await openWatched(engine)
    const { gate } = await addTasksBehind(hf)
    await hf.queue('tasks').add(null, { runAt: Date.now() * 2 })
    const { id: other } = await hf.tasks.addTask('other', { priority: 9 })
    await hf.tasks.addTask('also waits for the other', { dependsOn: [gate, other] })

    const look = afterCommit(() => hf.queue('tasks').list({ phase: 'ready', limit: 500 }))
    await hf.tasks.completeTask(gate)

    const { items, next } = await look
    expect(items).toHaveLength(2 * freedAtOnce + 20 + 1)
    expect(items.map(({ phase }) => phase)).not.toContain('waiting')
    expect(items.at(-1)).toMatchObject({ id: other })
    expect(next).toBeNull()
  })

  test('a finished blocker does not stop a claim by name [S5e-11]', async () => {
    const { hf, afterCommit } = await openWatched(engine)
    const { gate, keys } = await addTasksBehind(hf)
    const claim = (ref: string) => hf.execute('tasks.claimTaskForAgent', { ref }) as Promise<object>

    const claims = afterCommit(() =>
      Promise.all([
        hf.execute('tasks.batchClaim', { refs: keys.slice(-2) }),
        ...keys.slice(0, -2).map(claim),
      ]),
    )
    await hf.tasks.completeTask(gate)

    expect(await claims).toEqual((await claims).map(() => expect.objectContaining({ outcome: 'claimed' })))
    expect(await hf.queue('tasks').get(String(keys.at(-1)))).toMatchObject({ phase: 'held', version: 3 })
  })
})

/** `afterCommit` does something once, right after the next commit and before what follows from it. */
async function openWatched(engine: Engine) {
  const { store, env } = await engine.open()
  let act = () => {}
  const reached = (point: string) => void (point === 'transaction.committed' && act())
  const environment = { ...machine(env).process(7), reached }
  const hf = await store.open({ environment, background: false, recovery: false })
  const afterCommit = <Result>(run: () => Promise<Result>): Promise<Result> =>
    new Promise((resolve) => {
      act = () => {
        act = () => {}
        resolve(run())
      }
    })
  return { hf, store, afterCommit }
}

async function seenBy(hf: Holdfast, keys: readonly string[]) {
  const tasks = hf.queue('tasks')
  const [listed, page, texts, items, positions] = await Promise.all([
    hf.tasks.listTasks({ status: 'Todo', limit: 500 }),
    tasks.list({ phase: 'waiting', limit: 500 }),
    Promise.all(keys.map(async (key) => (await hf.fleet.explain(key)).why)),
    Promise.all(keys.map((key) => tasks.get(key))),
    Promise.all(keys.map((key) => tasks.position(key))),
  ])
  return {
    tasks: listed.tasks,
    items: [...page.items, ...items.filter((item) => item !== null)],
    texts,
    positions,
  }
}

/** More than are freed with the gate, and before a claim. Of the first and the last of them, some still wait then. */
async function addTasksBehind(hf: Holdfast) {
  const { id: gate } = await hf.tasks.addTask('gate')
  const numbers = Array.from({ length: 2 * freedAtOnce + 20 }, (_, number) => String(number).padStart(3, '0'))
  await Promise.all(numbers.map((key) => hf.tasks.addTask(key, { key, dependsOn: [gate] })))
  await hf.tasks.claimTaskForAgent(gate)
  return { gate, keys: [...numbers.slice(0, 10), ...numbers.slice(-30)] }
}

async function openChange(engine: Engine) {
  const { hf } = await engine.open({ background: false, recovery: false })
  return { hf, ...(await changeOf(hf)) }
}

async function changeOf(hf: Holdfast) {
  const q = hf.queue('changes', { workflow })
  const { item } = await q.submit('w1', { headSha: 'abcd' })
  // Asked by name, so that what is asked together is in one transaction.
  return {
    change: item.id,
    submit: () => hf.execute('queue.submit', { queue: 'changes', key: 'w1', headSha: 'abcd' }),
    finish: () => hf.execute('queue.move', { queue: 'changes', ref: 'w1', to: 'done' }),
  }
}

async function addBehind(hf: Holdfast, blocker: string, count: number): Promise<void> {
  const entries = Array.from({ length: count }, () => ({
    id: randomUUID(),
    state: 'pending',
    blockers: [blocker],
    addedAt: 1,
  }))
  for (let from = 0; from < count; from += 100) {
    const page = entries.slice(from, from + 100)
    await hf.execute('queue.import', { queue: 'jobs', workflow: 'job', from: 'test', entries: page })
  }
}

async function waiting(hf: Holdfast): Promise<string[]> {
  const { items } = await hf.queue('jobs').list({ phase: 'waiting', limit: 500 })
  return items.map(({ id }) => id)
}
