/** Dropping a task: it is gone, its events stay, and nothing waits for it forever. */
import { randomUUID } from 'node:crypto'
import type { Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

const reason = 'the feature was dropped'

forEachEngine((engine) => {
  test('a task is dropped with a reason, and its key is free again [S5c-48]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const { id } = await hf.tasks.addTask('never mind', { key: 'T-1' })

    const removed = await hf.tasks.removeTask('T-1', { reason })
    const again = await hf.tasks.removeTask('T-1', { reason })
    const next = await hf.tasks.addTask('something else', { key: 'T-1' })

    const told = (await readFeed(hf)).filter((event) => event.id === id).at(-1)
    expect([removed, again]).toEqual([true, false])
    expect(told).toMatchObject({ kind: 'item.removed', agent: 'ada', detail: { reason, state: 'todo' } })
    expect(next.id).not.toBe(id)
  })

  test.each([
    ['Review', 'review'],
    ['Done', 'done'],
  ])('a task in %s can be dropped too [S5c-48]', async (status, state) => {
    const { hf } = await engine.open()
    const { id } = await hf.tasks.addTask('settled', { key: 'T-1' })
    await hf.tasks.reviewTask(id)
    if (status === 'Done') await hf.tasks.completeTask(id)

    const removed = await hf.tasks.removeTask('T-1', { reason })

    expect(removed).toBe(true)
    expect((await hf.queue('tasks').stats()).byState[state]).toBeUndefined()
  })

  test.each([{}, { reason: '' }, { reason: '  ' }, { reason, dependents: 'keep' }, { reason, because: 'x' }])(
    'a task is not dropped by %j [S5c-48]',
    async (options) => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('kept', { key: 'T-1' })

      const code = await refusalCode(() => hf.tasks.removeTask('T-1', options as { reason: string }))

      expect(code).toBe('INVALID')
      expect(await hf.tasks.getTask('T-1')).not.toBeNull()
    },
  )

  test('a task that has changed since it was read is not dropped [S5c-48]', async () => {
    const { hf } = await engine.open()
    const { version } = await hf.tasks.addTask('changed', { key: 'T-1' })
    await hf.tasks.updateTask('T-1', { title: 'changed meanwhile' })

    const code = await refusalCode(() => hf.tasks.removeTask('T-1', { reason, expectedVersion: version }))

    expect(code).toBe('VERSION_MISMATCH')
  })

  test('a held task is dropped only by force, and its holder’s signal fires [S5c-48]', async () => {
    const { hf, store, env } = await engine.open({ agent: 'ada' })
    const other = await store.open({ agent: 'bob' })
    await hf.tasks.addTask('at work', { key: 'T-1' })
    const { lease, task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1'))

    const stranger = await refusal(() => other.tasks.removeTask('T-1', { reason }))
    const holder = await refusal(() => hf.tasks.removeTask('T-1', { reason }))
    const removed = await other.tasks.removeTask('T-1', { reason, force: true })
    await env.advance(1000)

    expect(stranger).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
    expect(holder).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
    expect(removed).toBe(true)
    expect(lease?.signal.aborted).toBe(true)
    expect(await hf.tasks.getTask(task.id)).toBeNull()
    expect(await refusalCode(() => hf.tasks.completeTask(task.id, { token: task.token }))).toBe('LEASE_LOST')
    expect(await hf.tasks.releaseTask(task.id, { token: task.token })).toBe(false)
  })

  test('a task that its holder lost can be dropped [S5c-48]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', recovery: false })
    await hf.tasks.addTask('left alone', { key: 'T-1' })
    await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob', leaseMs: 1000 })
    await env.advance(1001)

    expect(await hf.tasks.removeTask('T-1', { reason })).toBe(true)
  })

  test('a task that others wait for is dropped only if they are released [S5c-48]', async () => {
    const { hf } = await engine.open()
    const first = await hf.tasks.addTask('first', { key: 'first' })
    await hf.tasks.addTask('also first', { key: 'also' })
    const one = await hf.tasks.addTask('behind one', { dependsOn: ['first'] })
    const two = await hf.tasks.addTask('behind two', { dependsOn: ['first', 'also'] })

    const refused = await refusal(() => hf.tasks.removeTask('first', { reason }))
    const kept = await hf.tasks.getTask('first')
    await hf.tasks.removeTask('first', { reason, dependents: 'release' })

    expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE' })
    expect(refused.facts.waiting).toEqual(expect.arrayContaining([one.id, two.id]))
    expect(kept).toMatchObject({ id: first.id })
    expect((await hf.tasks.getTask(one.id))?.waitingFor).toEqual([])
    expect((await hf.tasks.getTask(two.id))?.waitingFor).toHaveLength(1)
    expect(await hf.tasks.claimTaskForAgent(one.id)).toMatchObject({ outcome: 'claimed' })
    expect(await hf.tasks.claimTaskForAgent(two.id)).toMatchObject({ outcome: 'blocked' })
  })

  test('a dependent added while its task is dropped is refused or released [S5c-48]', async () => {
    const { hf, store } = await engine.open()
    const other = await store.open({ agent: 'bob' })
    const late = await hf.tasks.addTask('changes its mind')
    for (let round = 0; round < 10; round++) {
      const { id } = await hf.tasks.addTask('first')

      await Promise.allSettled([
        other.tasks.addTask('new', { dependsOn: [id] }),
        hf.tasks.removeTask(id, { reason, dependents: 'release' }),
        other.tasks.updateTask(late.id, { dependsOn: [id] }),
      ])

      const { tasks } = await hf.tasks.listTasks({ status: 'Todo' })
      expect(tasks.flatMap(({ waitingFor }) => waitingFor)).toEqual([])
    }
  })

  test('more dependents than one transaction frees are all released, even though the task is gone [S5c-48]', async () => {
    const { hf, store } = await engine.open({ background: false, recovery: false })
    const { id } = await hf.tasks.addTask('gate', { key: 'gate' })
    await addBehind(hf, id, 250)

    await hf.tasks.removeTask('gate', { reason, dependents: 'release' })
    // Its process frees the rest before it goes.
    await hf.close()

    const look = await store.open({ background: false, recovery: false })
    expect(await waitingCount(look)).toBe(0)
    expect(await store.countRows()).toMatchObject({ cascade: 0, blocker: 0 })
  })
})

async function addBehind(hf: Holdfast, blocker: string, count: number): Promise<void> {
  const entries = Array.from({ length: count }, () => ({
    id: randomUUID(),
    state: 'todo',
    blockers: [blocker],
    addedAt: 1,
  }))
  for (let from = 0; from < count; from += 100) {
    const page = entries.slice(from, from + 100)
    await hf.execute('queue.import', { queue: 'tasks', workflow: 'task', from: 'test', entries: page })
  }
}

async function waitingCount(hf: Holdfast): Promise<number> {
  return (await hf.queue('tasks').stats()).blocked
}
