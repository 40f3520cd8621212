/** Property names that every JavaScript object has. A queue, state or label may be called that. */
import type { Holdfast, Workflow } from 'holdfast'
import { importBeads } from 'holdfast'
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const words = ['constructor', '__proto__', 'toString', 'hasOwnProperty']

/** An object with this field of its own, also where the word is `__proto__`. */
function own(word: string, value: unknown): Record<string, unknown> {
  return JSON.parse(JSON.stringify([{ word: value }]).replace('"word"', JSON.stringify(word)))[0]
}

/** A workflow in which every state is called so, or begins with that word. */
function workflowOf(word: string): Workflow {
  const [waiting, held, done] = [word, `${word}-held`, `${word}-done`]
  return {
    name: word,
    initial: waiting,
    failsRetryably: true,
    retryForgives: true,
    states: Object.fromEntries([
      [waiting, { claimTo: held, moves: [] }],
      [held, { held: true, lostTo: waiting, moves: [done], completeTo: done, failTo: waiting }],
      [done, { closed: 'succeeded', moves: [] }],
    ]),
  }
}

forEachEngine((engine) => {
  test.each(words)('items in a state, queue and workflow called %s are counted [S5c-20]', async (word) => {
    const { hf } = await engine.open()
    const q = hf.queue(word, { workflow: workflowOf(word) })
    for (let number = 0; number < 3; number++) await q.add({ number })
    const first = await q.next()
    if (first.outcome !== 'claimed') expect.fail(first.outcome)
    await q.complete(first.item.id)

    const stats = await q.stats()
    const { queues } = await hf.fleet.status()

    expect(Object.entries(stats.byState).sort()).toEqual([
      [word, 2],
      [`${word}-done`, 1],
    ])
    expect(stats).toMatchObject({ total: 3, pending: 2, completed: 1 })
    expect(queues).toMatchObject([
      { name: word, ready: { count: 2 }, closed: { count: 1 }, succeeded: { count: 1 } },
    ])
  })

  test.each(words)(
    'leases that lapsed in a state called %s are counted by recovery [S5c-20]',
    async (word) => {
      const { hf, env } = await engine.open({ background: false, recovery: false })
      const states = own(word, { held: true, lostTo: 'open', moves: ['done'], completeTo: 'done' })
      const workflow: Workflow = {
        name: 'errands',
        initial: 'open',
        failsRetryably: true,
        retryForgives: true,
        states: Object.fromEntries([
          ...Object.entries(states),
          ['open', { claimTo: word, moves: [] }],
          ['done', { closed: 'succeeded', moves: [] }],
        ]) as Workflow['states'],
      }
      const q = hf.queue('errands', { workflow })
      for (let number = 0; number < 2; number++) await q.add({ number })
      await q.claimMany(2, { leaseMs: 0 })
      await env.advance(1000)

      const { byState, entriesReclaimed } = await hf.recovery.detectAndRecoverStale()

      expect([entriesReclaimed, Object.entries(byState)]).toEqual([2, [[word, 2]]])
    },
  )

  test('fields with these names stay in payload, data, progress, result and document [S5c-20]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')

    for (const word of words) {
      const facts = own(word, { deep: own(word, 1) })
      const { item } = await q.add(facts, { data: facts, key: word, dedupeKey: word, idempotencyKey: word })
      await q.next()
      await q.progress(item.id, facts, { data: own(`${word}-2`, true) })
      const done = await q.complete(item.id, { result: facts })
      await hf.state(word).set(facts)
      const document = await hf.state(word).get()

      const kept = [done.payload, done.progress, done.result, document?.value]
      expect(kept.map((each) => JSON.stringify(each))).toEqual(Array(4).fill(JSON.stringify(facts)))
      expect(Object.entries(done.data)).toEqual([...Object.entries(facts), [`${word}-2`, true]])
      expect(await q.get(word)).toMatchObject({ id: item.id, key: word })
    }
  })

  test('a task may use these names as key, label, owner, host, holder and in its metadata [S5c-20]', async () => {
    const { hf } = await engine.open()

    for (const word of words) {
      const metadata = own(word, [word])
      const task = await hf.tasks.addTask(word, {
        key: word,
        labels: [word],
        owner: word,
        host: word,
        metadata,
      })
      await hf.tasks.addTask('behind it', { dependsOn: [word] })
      const { tasks } = await hf.tasks.listTasks({ labels: [word], owner: word, host: word })
      const claim = await hf.tasks.batchClaim([word], { agent: word })

      expect(tasks.map(({ id }) => id)).toEqual([task.id])
      expect(JSON.stringify(tasks[0]?.metadata)).toBe(JSON.stringify(metadata))
      expect(claim).toMatchObject({ outcome: 'claimed', tasks: [{ task: { id: task.id, assignee: word } }] })
    }
    const { waves } = await hf.tasks.hints()
    expect(waves[0]).toEqual(words)
  })

  test('a lock, an agent and a recipient may have these names [S5c-20]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })

    for (const word of words) {
      const other = await store.open({ agent: word })
      const content = own(word, word)
      await other.locks.acquireLock(word)
      await hf.messages.sendWithAck(word, { type: 'INFO', content })
      const { messages } = await other.messages.inbox()
      const { agents } = await hf.fleet.status()

      expect(await hf.locks.getCurrentLockInfo(word)).toMatchObject({ isLocked: true, holder: word })
      expect(messages.map((each) => JSON.stringify(each.content))).toEqual([JSON.stringify(content)])
      expect(agents.find(({ agent }) => agent === word)).toMatchObject({ processes: 1, holds: 1 })
    }
  })

  test('runs and issues of other programs keep such names [S5c-20]', async () => {
    const { hf } = await engine.open()
    const runs = words.map(
      (run) => ({ run, lock: run, status: 'paused', startedAt: 1, updatedAt: 1 }) as const,
    )
    const issue = `{"id":"b-1","title":"odd","__proto__":{"kept":true},"constructor":"kept"}`

    const taken = await hf.execute('locks.import', { from: 'test', locks: [], runs })
    const again = await hf.execute('locks.import', { from: 'test', locks: [], runs })
    await importBeads(hf, { text: issue })

    expect(taken).toMatchObject({ runs: { imported: words, known: [] } })
    expect(again).toMatchObject({ runs: { imported: [], known: words } })
    expect(JSON.stringify((await hf.tasks.getTask('b-1'))?.metadata)).toContain(
      '"__proto__":{"kept":true},"constructor":"kept"',
    )
  })

  test('an option called __proto__ is unknown, and its contents do not count as given [S5c-20]', async () => {
    const { hf } = await engine.open()
    await hf.tasks.addTask('first', { key: 'T-1' })

    const refused = await refusal(() => hf.tasks.updateTask('T-1', own('__proto__', { title: 'smuggled' })))

    expect(refused).toMatchObject({ code: 'INVALID', facts: { unknown: ['__proto__'] } })
    expect(await titleOf(hf)).toBe('first')
  })

  test('a workflow written in another order is the same workflow [S5c-21]', async () => {
    const { hf } = await engine.open()
    const workflow = workflowOf('errands')
    const define = (given: Workflow) => hf.execute('workflow.define', { workflow: given })
    await define(workflow)
    const states = Object.entries(workflow.states)
    const reversed = {
      ...Object.fromEntries(Object.entries(workflow).reverse()),
      states: Object.fromEntries(
        states.reverse().map(([name, state]) => [name, Object.fromEntries(Object.entries(state).reverse())]),
      ),
    }

    const again = await define(reversed as unknown as Workflow)
    const other = await refusal(() => define({ ...workflow, retryForgives: false }))

    expect(again).toEqual({ name: 'errands', defined: false })
    expect(other).toMatchObject({ code: 'INVALID', message: expect.stringContaining('defined differently') })
  })
})

async function titleOf(hf: Holdfast): Promise<string | undefined> {
  return (await hf.tasks.getTask('T-1'))?.title
}
