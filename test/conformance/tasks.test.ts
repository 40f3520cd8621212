/** Tasks: their fields, their holders, and how they move on. */
import type { Holdfast, Task, TaskClaim } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { present, refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  describe('a task', () => {
    test('keeps its texts, labels, metadata and owner as given [T1] [T2]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      const words = {
        body: 'Everything\nthere is.',
        labels: ['docs', 'guide'],
        paths: ['docs/guides'],
        owner: 'olga',
        host: 'workshop',
        metadata: { nested: [1, { deep: null }], text: 'ünïcode' },
      }

      const added = await hf.tasks.addTask('Write the guide', { ...words, key: 'T-1', priority: 2 })

      expect(added).toMatchObject({
        ...words,
        title: 'Write the guide',
        key: 'T-1',
        status: 'Todo',
        priority: 2,
        notes: [],
        dependsOn: [],
        assignee: null,
        lease: null,
        createdBy: 'ada',
        createdAt: env.now(),
        version: 1,
      })
      expect(await hf.tasks.getTask('T-1')).toEqual(added)
      expect(await hf.tasks.getTask(added.id)).toEqual(added)
      expect(await hf.tasks.getTask('T-2')).toBeNull()
    })

    test('is an item of the queue `tasks`, created on first use [T1]', async () => {
      const { hf } = await engine.open()
      const before = await hf.queue('tasks').get('T-1')

      await hf.tasks.addTask('one', { key: 'T-1' })

      expect(before).toBeNull()
      expect(await hf.queue('tasks').get('T-1')).toMatchObject({ workflow: 'task', state: 'todo' })
    })

    test('is refused if the queue `tasks` has another workflow [T2]', async () => {
      const { hf } = await engine.open()
      await hf.queue('tasks').add('a job')

      expect(await refusalCode(() => hf.tasks.addTask('one'))).toBe('INVALID')
    })

    test('has its own key while it is open, and the key is free afterwards [T1]', async () => {
      const { hf } = await engine.open()
      const first = await hf.tasks.addTask('first', { key: 'T-1' })

      const refused = await refusal(() => hf.tasks.addTask('second', { key: 'T-1' }))
      await hf.tasks.claimTaskForAgent('T-1')
      await hf.tasks.completeTask('T-1')
      const second = await hf.tasks.addTask('second', { key: 'T-1' })

      expect(refused).toMatchObject({ code: 'DUPLICATE', facts: { existing: first.id } })
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ id: second.id })
    })

    test('keeps its durable owner through claim, loss and completion by others [T1] [T20]', async () => {
      const { hf, env } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1', owner: 'olga' })
      const held = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: 1_000 }))
      await env.advance(10_000)
      const lost = await present(hf.tasks.getTask('T-1'))
      const unassigned = await hf.tasks.updateTask('T-1', { owner: null })
      await hf.tasks.updateTask('T-1', { owner: 'zoe' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' })

      const done = await hf.tasks.completeTask('T-1', { agent: 'bob' })

      expect([held.task, lost, unassigned, done].map(({ owner }) => owner)).toEqual([
        'olga',
        'olga',
        null,
        'zoe',
      ])
      expect(held.task.assignee).toBe('ada')
    })
  })

  describe('the list of tasks', () => {
    test('is ordered by priority, then age, with finished tasks last, and can be filtered [T4]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('later', { key: 'later', labels: ['ui', 'small'] })
      await hf.tasks.addTask('first', { key: 'first', priority: 1, labels: ['ui'], owner: 'olga' })
      await hf.tasks.addTask('done', { key: 'done', labels: ['db'] })
      await hf.tasks.claimTaskForAgent('done')
      await hf.tasks.completeTask('done')
      await hf.tasks.addTask('held', { key: 'held', host: 'workshop' })
      await hf.tasks.claimTaskForAgent('held', { agent: 'ada' })
      const keys = async (options: Parameters<Holdfast['tasks']['listTasks']>[0]) =>
        (await hf.tasks.listTasks(options)).tasks.map(({ key }) => key)

      expect(await keys({})).toEqual(['first', 'later', 'held', 'done'])
      expect(await keys({ status: 'Todo' })).toEqual(['first', 'later'])
      expect(await keys({ status: ['In Progress', 'Done'] })).toEqual(['held', 'done'])
      expect(await keys({ labels: ['ui'] })).toEqual(['first', 'later'])
      expect(await keys({ labels: ['ui', 'small'] })).toEqual(['later'])
      expect(await keys({ owner: 'olga' })).toEqual(['first'])
      expect(await keys({ owner: null, status: 'Todo' })).toEqual(['later'])
      expect(await keys({ host: 'workshop' })).toEqual(['held'])
      expect(await keys({ assignee: 'ada' })).toEqual(['held'])
      expect(await keys({ maxPriority: 1 })).toEqual(['first'])
    })

    test('finds a task by its words whatever text a program has put beside them [T1]', async () => {
      const { hf } = await engine.open()
      const words = { title: 'cut', labels: ['ui'], owner: 'olga' }
      const queue = hf.queue('tasks', { workflow: 'task' })
      for (const beside of ['\0', '🦑'.slice(0, 1), '\\ud83e', '\\ud8', 'ünïcödé 🦑'])
        await queue.add(null, { data: { ...words, beside } })

      expect((await hf.tasks.listTasks({ labels: ['ui'], owner: 'olga' })).tasks).toHaveLength(5)
      expect((await hf.tasks.listTasks({ owner: null })).tasks).toEqual([])
    })

    test('comes page by page', async () => {
      const { hf } = await engine.open()
      for (let number = 0; number < 5; number++) await hf.tasks.addTask(`task ${number}`)

      const first = await hf.tasks.listTasks({ limit: 3 })
      const rest = await hf.tasks.listTasks({ limit: 3, after: first.next as string })

      expect([...first.tasks, ...rest.tasks].map(({ title }) => title)).toEqual(
        [0, 1, 2, 3, 4].map((number) => `task ${number}`),
      )
      expect(rest.next).toBeNull()
    })
  })

  describe('a claim', () => {
    test('returns the task with its lease as In Progress, and the store agrees [T3]', async () => {
      const { hf, env } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })

      const claim = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))

      expect(claim).toMatchObject({
        renewed: false,
        lease: null,
        task: { status: 'In Progress', assignee: 'ada', lease: { leaseMs: 1_800_000, instance: null } },
      })
      expect(claim.task.lockUntil).toBe((claim.task.assignedAt as number) + 1_800_000)
      expect(await hf.tasks.getTask('T-1')).toEqual(claim.task)
      await env.advance(1)
    })

    test('of a locked task says who holds it and until when, and is not an error [T3] [E3]', async () => {
      const { hf, env } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))

      const claim = await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' })

      expect(claim).toEqual({ outcome: 'held', holder: 'ada', since: env.now(), expiresAt: task.lockUntil })
      expect(await hf.tasks.getTask('T-1')).toEqual(task)
    })

    test('by this handle is bound and renewed; claiming again renews it under the same token [T3] [E8]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
      await hf.tasks.addTask('one', { key: 'T-1' })
      const first = await claimedTask(hf.tasks.claimTaskForAgent('T-1'))

      await env.advance(120_000)
      const again = await claimedTask(hf.tasks.claimTaskForAgent('T-1'))

      expect(first.task.lease).toMatchObject({ leaseMs: 30_000, instance: expect.any(String) })
      expect(first.lease?.isHeld).toBe(true)
      expect(again).toMatchObject({
        renewed: true,
        task: { token: first.task.token, version: first.task.version },
      })
    })

    test('by a manual holder with its token renews it; without the token it is reported as held [T3]', async () => {
      const { hf, store, env } = await engine.open(rareProbes)
      const other = await store.open(rareProbes)
      await hf.tasks.addTask('one', { key: 'T-1' })
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))
      await env.advance(60_000)

      const nameOnly = await other.tasks.claimTaskForAgent('T-1', { agent: 'ada' })
      const withToken = await other.tasks.claimTaskForAgent('T-1', { agent: 'ada', token: task.token })

      expect(nameOnly).toMatchObject({ outcome: 'held', holder: 'ada' })
      expect(withToken).toMatchObject({
        outcome: 'claimed',
        renewed: true,
        task: { lockUntil: (task.lockUntil as number) + 60_000 },
      })
    })

    test('takes over a lapsed task, even without background healing, and not a millisecond early [T3] [E6] [X3]', async () => {
      const { hf, env } = await engine.open({ recovery: false })
      await hf.tasks.addTask('one', { key: 'T-1' })
      const first = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: 1_000 }))

      await env.advance(1_000)
      const inTime = await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' })
      await env.advance(1)
      const lapsed = await present(hf.tasks.getTask('T-1'))
      const late = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' }))

      expect(inTime).toMatchObject({ outcome: 'held', holder: 'ada' })
      expect(lapsed).toMatchObject({ assignee: null, lease: { agent: 'ada', status: 'expired' } })
      expect(late).toMatchObject({ task: { assignee: 'bob', crashes: 1 } })
      expect(late.task.token).toBeGreaterThan(first.task.token)
      expect((await hf.queue('tasks').events('T-1')).map(({ kind }) => kind)).toEqual([
        'item.created',
        'item.claimed',
        'item.reclaimed',
        'item.claimed',
      ])
    })

    test('of one task by many at once has one winner [T3] [T22]', async () => {
      const { hf, store } = await engine.open({ background: false })
      const handles = await Promise.all([1, 2, 3, 4].map(() => store.open({ background: false })))
      await hf.tasks.addTask('one', { key: 'T-1' })

      const claims = await Promise.all(
        handles.flatMap((handle, index) =>
          [1, 2, 3].map((each) => handle.tasks.claimTaskForAgent('T-1', { agent: `agent-${index}-${each}` })),
        ),
      )

      const winners = claims.filter(({ outcome }) => outcome === 'claimed') as Extract<
        TaskClaim,
        { task: Task }
      >[]
      expect(winners).toHaveLength(1)
      expect(claims.filter(({ outcome }) => outcome === 'held')).toHaveLength(11)
      expect(new Set(claims.flatMap((claim) => (claim.outcome === 'held' ? [claim.holder] : [])))).toEqual(
        new Set([winners[0]?.task.assignee]),
      )
    })

    test('of one task by 50 competing agents is granted to each in turn, one at a time [T3] [T22]', async () => {
      const { hf } = await engine.open({ background: false, durability: 'normal' })
      const { id } = await hf.tasks.addTask('one')
      const holders = new Set<string>()
      const takeTurn = async (agent: string) => {
        for (let claim = await hf.tasks.claimTaskForAgent(id, { agent }); ; ) {
          if (claim.outcome === 'claimed') break
          if (claim.outcome === 'held') expect([...holders]).toContain(claim.holder)
          claim = await hf.tasks.claimTaskForAgent(id, { agent })
        }
        holders.add(agent)
        await hf.tasks.releaseTask(id, { agent })
      }

      await Promise.all(Array.from({ length: 50 }, (_, number) => takeTurn(`agent-${number}`)))

      expect(holders.size).toBe(50)
      const kinds = (await hf.queue('tasks').events(id)).map(({ kind }) => kind)
      expect(kinds.slice(1)).toEqual(Array(50).fill(['item.claimed', 'item.released']).flat())
    })

    test('of a task that is missing, done or in review is refused [T2] [T3]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.reviewTask('T-1')

      const missing = await refusalCode(() => hf.tasks.claimTaskForAgent('T-0'))
      const inReview = await refusalCode(() => hf.tasks.claimTaskForAgent('T-1'))
      await hf.tasks.completeTask('T-1')
      const done = await refusalCode(() => hf.tasks.claimTaskForAgent('T-1', { fromReview: true }))

      expect([missing, inReview, done]).toEqual(['NOT_FOUND', 'ILLEGAL_MOVE', 'ILLEGAL_MOVE'])
    })

    test('takes a task back out of review when asked to [T2]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' })
      await hf.tasks.reviewTask('T-1', { agent: 'ada' })

      const next = await hf.tasks.claimNext()
      const { task } = await claimedTask(
        hf.tasks.claimTaskForAgent('T-1', { agent: 'bob', fromReview: true }),
      )

      expect(next.outcome).toBe('empty')
      expect(task).toMatchObject({ status: 'In Progress', assignee: 'bob' })
    })

    test('of a blocked or quarantined task says what holds it back; of a paused queue, that it is paused [T4]', async () => {
      const { hf, env } = await engine.open(rareProbes)
      const gate = await hf.tasks.addTask('gate')
      await hf.tasks.addTask('blocked', { key: 'blocked', dependsOn: [gate.id] })
      await hf.tasks.addTask('poison', { key: 'poison' })
      for (let crash = 0; crash < 3; crash++) {
        await hf.tasks.claimTaskForAgent('poison', { agent: 'ada', leaseMs: 1_000 })
        await env.advance(60_000)
      }

      const blocked = await hf.tasks.claimTaskForAgent('blocked')
      const poison = await hf.tasks.claimTaskForAgent('poison')
      const mine = await claimedTask(hf.tasks.claimTaskForAgent(gate.id))
      await hf.queue('tasks').pause({ reason: 'lunch' })
      const own = await hf.tasks.claimTaskForAgent(gate.id)
      await hf.tasks.releaseTask(gate.id)

      expect(blocked).toEqual({ outcome: 'blocked', waitingFor: [gate.id], runAt: null })
      expect(poison).toMatchObject({ outcome: 'quarantined', reason: expect.stringContaining('3 holders') })
      expect(own).toMatchObject({ outcome: 'claimed', renewed: true, task: { token: mine.task.token } })
      const paused = { outcome: 'paused', reason: 'lunch' }
      expect(await hf.tasks.claimTaskForAgent(gate.id)).toEqual(paused)
      expect(await hf.tasks.claimNext()).toEqual(paused)
      expect(await hf.tasks.batchClaim([gate.id])).toEqual(paused)
    })
  })

  describe('the next task', () => {
    test('is the most urgent, then the oldest, whose dependencies are done [T4]', async () => {
      const { hf } = await engine.open()
      const gate = await hf.tasks.addTask('gate', { priority: 9 })
      await hf.tasks.addTask('waits', { priority: 0, dependsOn: [gate.id] })
      await hf.tasks.addTask('old')
      await hf.tasks.addTask('young')
      await hf.tasks.addTask('urgent', { priority: 1 })
      const taken: string[] = []

      for (
        let claim = await hf.tasks.claimNext();
        claim.outcome === 'claimed';
        claim = await hf.tasks.claimNext()
      ) {
        taken.push(claim.task.title)
        await hf.tasks.completeTask(claim.task.id)
      }

      expect(taken).toEqual(['urgent', 'old', 'young', 'gate', 'waits'])
    })

    test('matches the filter, and nothing else is touched [T4]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('ui', { labels: ['ui'], owner: 'olga' })
      await hf.tasks.addTask('db', { labels: ['db', 'big'], host: 'workshop', priority: 7 })

      const none = await hf.tasks.claimNext({ labels: ['db', 'small'] })
      const tooFar = await hf.tasks.claimNext({ labels: ['db'], maxPriority: 6 })
      const db = await claimedTask(hf.tasks.claimNext({ labels: ['db'], host: 'workshop', owner: null }))
      const ui = await claimedTask(hf.tasks.claimNext({ owner: 'olga' }))

      expect([none.outcome, tooFar.outcome]).toEqual(['empty', 'empty'])
      expect([db.task.title, ui.task.title]).toEqual(['db', 'ui'])
    })

    test('goes to another agent that asks at the same time as one at its limit [T4]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('first')
      await hf.tasks.addTask('second')
      await hf.tasks.claimNext({ agent: 'ada' })

      const [full, other] = await Promise.all([
        hf.tasks.claimNext({ agent: 'ada', maxPerAgent: 1 }),
        claimedTask(hf.tasks.claimNext({ agent: 'bob' })),
      ])

      expect([full.outcome, other.task.title]).toEqual(['full', 'second'])
    })

    test('is not handed out beyond the limits per agent and host [T4]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const other = await store.open({ agent: 'bob' })
      for (let number = 0; number < 5; number++) await hf.tasks.addTask(`task ${number}`)
      await hf.tasks.claimNext({ maxPerAgent: 2 })
      await hf.tasks.claimNext({ maxPerAgent: 2 })

      const full = await hf.tasks.claimNext({ maxPerAgent: 2 })
      const onHost = await other.tasks.claimNext({ maxPerHost: 2 })
      const allowed = await other.tasks.claimNext({ maxPerAgent: 1, maxPerHost: 3 })

      expect(full).toEqual({ outcome: 'full', holds: 2 })
      expect(onHost).toEqual({ outcome: 'full', holds: 2 })
      expect(allowed.outcome).toBe('claimed')
    })

    test('the limits count every held task, however many others are held [T4]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const crowd = await store.open({ agent: 'crowd', background: false })
      const names = Array.from({ length: 1_100 }, (_, number) => `t-${number}`)
      await Promise.all(names.map((key) => hf.tasks.addTask(key, { key })))
      for (let start = 0; start < 1_050; start += 50)
        await crowd.tasks.batchClaim(names.slice(start, start + 50), { leaseMs: 60_000 })
      const long = { leaseMs: 3_600_000 }
      for (let held = 0; held < 2; held++) await claimedTask(hf.tasks.claimNext(long))

      const full = await hf.tasks.claimNext({ ...long, maxPerAgent: 2 })
      const onHost = await hf.tasks.claimNext({ ...long, maxPerHost: 2 })
      const many = await crowd.tasks.claimNext({ maxPerAgent: 1_050 })
      const allowed = await hf.tasks.claimNext({ ...long, maxPerAgent: 3, maxPerHost: 1_053 })

      expect([full, onHost, many]).toEqual([
        { outcome: 'full', holds: 2 },
        { outcome: 'full', holds: 1_052 },
        { outcome: 'full', holds: 1_050 },
      ])
      expect(allowed.outcome).toBe('claimed')
    })
  })

  describe('a batch', () => {
    test('is claimed whole, each task under its own lease [T7]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const ids: string[] = []
      for (const key of ['a', 'b', 'c']) ids.push((await hf.tasks.addTask(key, { key })).id)

      const batch = await hf.tasks.batchClaim(['a', ids[1] as string, 'c', ids[0] as string])

      const tasks = batch.outcome === 'claimed' ? batch.tasks : []
      expect(tasks.map(({ task }) => task.key)).toEqual(['a', 'b', 'c'])
      expect(tasks.every(({ lease }) => lease?.isHeld)).toBe(true)
      expect(new Set((await hf.tasks.listTasks({ assignee: 'ada' })).tasks.map(({ id }) => id))).toEqual(
        new Set(ids),
      )
    })

    test('is not claimed at all if one is refused, and each refusal has its reason [T7] [E9]', async () => {
      const { hf } = await engine.open()
      const free = await hf.tasks.addTask('free', { key: 'free' })
      await hf.tasks.addTask('held', { key: 'held' })
      await hf.tasks.addTask('blocked', { key: 'blocked', dependsOn: ['free'] })
      await hf.tasks.addTask('reviewed', { key: 'reviewed' })
      await hf.tasks.reviewTask('reviewed')
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('held', { agent: 'bob' }))

      const batch = await hf.tasks.batchClaim(['free', 'held', 'blocked', 'reviewed', 'missing'])

      expect(batch).toMatchObject({
        outcome: 'refused',
        claimed: [],
        failed: [
          { ref: 'held', outcome: 'held', holder: 'bob', expiresAt: task.lockUntil },
          { ref: 'blocked', outcome: 'blocked', waitingFor: [free.id] },
          { ref: 'reviewed', outcome: 'impossible', code: 'ILLEGAL_MOVE' },
          { ref: 'missing', outcome: 'impossible', code: 'NOT_FOUND' },
        ],
      })
      expect(await hf.tasks.getTask('free')).toEqual(free)
    })

    test('and one in the opposite order do not deadlock: one wins, the other is refused [T7]', async () => {
      const { hf, store } = await engine.open()
      const other = await store.open()
      for (const key of ['a', 'b']) await hf.tasks.addTask(key, { key })

      const batches = await Promise.all([
        hf.tasks.batchClaim(['a', 'b'], { agent: 'ada' }),
        other.tasks.batchClaim(['b', 'a'], { agent: 'bob' }),
      ])

      expect(batches.map(({ outcome }) => outcome).sort()).toEqual(['claimed', 'refused'])
    })
  })

  describe('a holder', () => {
    test('that releases leaves Todo without a holder, and the next agent can claim [T5] [E5]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' })

      const released = await hf.tasks.releaseTask('T-1', { agent: 'ada', note: 'stuck at the index' })

      expect(released).toBe(true)
      expect(await hf.tasks.getTask('T-1')).toMatchObject({
        status: 'Todo',
        assignee: null,
        lockUntil: null,
        crashes: 0,
        notes: [{ by: 'ada', text: 'stuck at the index' }],
      })
      await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' }))
    })

    test('may choose the state of a released task [T5]', async () => {
      const { hf } = await engine.open()
      for (const status of ['Review', 'Done'] as const) {
        await hf.tasks.addTask(status, { key: status })
        await hf.tasks.claimTaskForAgent(status)

        expect(await hf.tasks.releaseTask(status, { status })).toBe(true)
        expect(await hf.tasks.getTask(status)).toMatchObject({ status, assignee: null })
      }
    })

    test('is named to another agent that tries to release or renew; a second release is false and audited [T5]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))

      const refused = await refusal(() => hf.tasks.releaseTask('T-1', { agent: 'bob' }))
      const renewed = await refusal(() => hf.tasks.renewLease('T-1', { agent: 'bob' }))
      const held = await hf.tasks.getTask('T-1')
      await hf.tasks.releaseTask('T-1', { agent: 'ada' })
      const second = await hf.tasks.releaseTask('T-1', { agent: 'ada', token: task.token })

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'ada', expiresAt: task.lockUntil } })
      expect(renewed).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
      expect(held).toEqual(task)
      expect(second).toBe(false)
      expect((await hf.queue('tasks').events('T-1')).at(-1)).toMatchObject({
        kind: 'item.refused',
        version: null,
      })
    })

    test('releases with review and with completion, and waiting tasks are freed [T5] [T4]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.addTask('two', { key: 'T-2', dependsOn: ['T-1'] })
      const claim = await claimedTask(hf.tasks.claimTaskForAgent('T-1'))

      const review = await hf.tasks.reviewTask('T-1', { note: 'please look' })
      const blocked = await hf.tasks.claimTaskForAgent('T-2')
      const done = await hf.tasks.completeTask('T-1', { result: { merged: 'abc' } })

      expect(review).toMatchObject({ status: 'Review', assignee: null, lease: null })
      expect(claim.lease?.isHeld).toBe(false)
      expect(blocked.outcome).toBe('blocked')
      expect(done).toMatchObject({
        status: 'Done',
        result: { merged: 'abc' },
        notes: [{ text: 'please look' }],
      })
      expect((await hf.tasks.claimTaskForAgent('T-2')).outcome).toBe('claimed')
    })

    test('may complete twice without harm, but not under another token [T5]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))
      const done = await hf.tasks.completeTask('T-1', { agent: 'ada' })

      const again = await hf.tasks.completeTask('T-1', { agent: 'ada', token: task.token })
      const other = await refusalCode(() => hf.tasks.completeTask('T-1', { token: task.token - 1 }))

      expect(again).toEqual(done)
      expect(other).toBe('LEASE_LOST')
    })

    test('that lost its task is refused whatever it tries, and its successor is unaffected [T22] [E8]', async () => {
      const { hf, env } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      const { task: mine } = await claimedTask(
        hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: 1_000 }),
      )
      await env.advance(10_000)
      const { task: theirs } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' }))
      const late = { agent: 'ada', token: mine.token }

      const codes = [
        await refusalCode(() => hf.tasks.renewLease('T-1', late)),
        await refusalCode(() => hf.tasks.updateTask('T-1', { ...late, note: 'mine' })),
        await refusalCode(() => hf.tasks.reviewTask('T-1', late)),
        await refusalCode(() => hf.tasks.completeTask('T-1', late)),
        await refusalCode(() => hf.tasks.releaseTask('T-1', late)),
      ]
      const reclaim = await hf.tasks.claimTaskForAgent('T-1', late)

      expect(codes).toEqual(['LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST', 'HELD'])
      expect(reclaim).toMatchObject({ outcome: 'held', holder: 'bob' })
      expect(await hf.tasks.getTask('T-1')).toEqual(theirs)
    })
  })

  describe('a handoff', () => {
    test('releases everything the agent holds, with a note, and may name a new owner [T20]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      for (const key of ['a', 'b', 'c']) await hf.tasks.addTask(key, { key, owner: 'ada' })
      const bound = await claimedTask(hf.tasks.claimTaskForAgent('a'))
      await hf.tasks.claimTaskForAgent('b', { renew: false })
      await hf.tasks.claimTaskForAgent('c', { agent: 'bob' })

      const { taskIds } = await hf.tasks.handoff({ note: 'end of shift', to: 'zoe' })

      const tasks = await Promise.all(['a', 'b', 'c'].map((key) => present(hf.tasks.getTask(key))))
      expect(taskIds.toSorted()).toEqual(
        tasks
          .slice(0, 2)
          .map(({ id }) => id)
          .toSorted(),
      )
      expect(tasks.map(({ status, owner }) => `${status} ${owner}`)).toEqual([
        'Todo zoe',
        'Todo zoe',
        'In Progress ada',
      ])
      expect(tasks[0]?.notes).toMatchObject([{ by: 'ada', text: 'end of shift' }])
      expect(bound.lease?.isHeld).toBe(false)
      expect(await hf.tasks.handoff()).toEqual({ taskIds: [] })
    })

    test('leaves another process of the same name alone [T20]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const twin = await store.open({ agent: 'ada' })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await twin.tasks.claimTaskForAgent('T-1')

      expect(await hf.tasks.handoff()).toEqual({ taskIds: [] })
    })

    test('of more than one transaction’s worth finishes too [T20]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await Promise.all(Array.from({ length: 250 }, (_, number) => hf.tasks.addTask(`task ${number}`)))
      await Promise.all(Array.from({ length: 250 }, () => hf.tasks.claimNext({ renew: false })))

      const { taskIds } = await hf.tasks.handoff({ note: 'all of it', idempotencyKey: 'shift' })

      expect(new Set(taskIds).size).toBe(250)
    })
  })

  describe('dependencies', () => {
    test('may be changed, and a task waits for the new ones [T4]', async () => {
      const { hf } = await engine.open()
      const [a, b] = [await hf.tasks.addTask('a', { key: 'a' }), await hf.tasks.addTask('b', { key: 'b' })]
      await hf.tasks.addTask('c', { key: 'c', dependsOn: ['a'] })

      const changed = await hf.tasks.updateTask('c', { dependsOn: ['b'] })
      const freed = await hf.tasks.updateTask('c', { dependsOn: [] })

      expect(changed).toMatchObject({ dependsOn: [b.id], waitingFor: [b.id], version: 2 })
      expect(freed).toMatchObject({ dependsOn: [], waitingFor: [], version: 3 })
      expect(await hf.tasks.getTask('a')).toEqual(a)
      expect((await hf.tasks.claimTaskForAgent('c')).outcome).toBe('claimed')
    })

    test.each([1, 2, 3, 30])('cannot form a cycle through %i others [T4]', async (length) => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('t0', { key: 't0' })
      for (let number = 1; number <= length; number++)
        await hf.tasks.addTask(`t${number}`, { key: `t${number}`, dependsOn: [`t${number - 1}`] })

      const refused = await refusal(() => hf.tasks.updateTask('t0', { dependsOn: [`t${length}`] }))
      const itself = await refusalCode(() => hf.tasks.updateTask('t0', { dependsOn: ['t0'] }))

      expect(refused).toMatchObject({ code: 'INVALID', what: expect.stringContaining('wait for itself') })
      expect(itself).toBe('INVALID')
      expect(await hf.tasks.getTask('t0')).toMatchObject({ dependsOn: [], version: 1 })
    })

    test('given to a task while it is held take effect when it is released [T4]', async () => {
      const { hf } = await engine.open({ background: false })
      for (const key of ['a', 'b', 'c']) await hf.tasks.addTask(key, { key })
      for (const key of ['a', 'b', 'c']) await hf.tasks.claimTaskForAgent(key)
      // From here on nothing waits for anything, and the store may have seen so.
      await hf.tasks.completeTask('c')

      await hf.tasks.updateTask('a', { dependsOn: ['b'] })
      await hf.tasks.completeTask('b')
      await hf.tasks.releaseTask('a')

      expect(await hf.tasks.getTask('a')).toMatchObject({ waitingFor: [] })
      expect(await hf.tasks.claimNext()).toMatchObject({ outcome: 'claimed', task: { key: 'a' } })
    })

    test('must exist, and cannot change together with the status', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('a', { key: 'a' })

      const codes = [
        await refusalCode(() => hf.tasks.addTask('b', { dependsOn: ['nothing'] })),
        await refusalCode(() => hf.tasks.updateTask('a', { dependsOn: ['nothing'] })),
        await refusalCode(() => hf.tasks.updateTask('a', { dependsOn: [], status: 'Review' })),
      ]

      expect(codes).toEqual(['NOT_FOUND', 'NOT_FOUND', 'INVALID'])
    })
  })

  test('a worker takes tasks as it takes items, and renews them for as long as they last [E10]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', leaseMs: 3_000 })
    const { id } = await hf.tasks.addTask('long')
    let finish = () => {}
    const worker = hf.work('tasks', async () => {
      await new Promise<void>((done) => {
        finish = done
      })
    })

    await env.advance(15_000)
    const during = await present(hf.tasks.getTask(id))
    finish()
    await env.advance(1_000)

    expect(during).toMatchObject({ status: 'In Progress', assignee: 'ada', attempts: 1 })
    expect(await hf.tasks.getTask(id)).toMatchObject({ status: 'Done' })
    await worker.stop()
  })

  test('hints show overlaps, parallel groups and the critical path, and block nothing [T19]', async () => {
    const { hf } = await engine.open()
    const a = await hf.tasks.addTask('a', { paths: ['src/a.ts'], labels: ['ui'] })
    const b = await hf.tasks.addTask('b', { paths: ['src'] })
    const c = await hf.tasks.addTask('c', { dependsOn: [a.id] })
    await hf.tasks.claimTaskForAgent(a.id, { agent: 'ada' })
    await hf.tasks.claimTaskForAgent(b.id, { agent: 'bob' })

    expect(await hf.tasks.hints()).toEqual({
      overlaps: [{ tasks: [a.id, b.id], because: 'paths', shared: ['src/a.ts'] }],
      waves: [[a.id, b.id], [c.id]],
      criticalPath: [a.id, c.id],
      more: false,
    })
  })

  test('hints refer to tasks by key, and accept keys [S5-22]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await hf.tasks.addTask('a', { key: 'T-1', labels: ['api'] })
    const { id } = await hf.tasks.addTask('b', { labels: ['api'] })
    await hf.tasks.addTask('c', { key: 'T-3', dependsOn: ['T-1'] })
    await hf.tasks.batchClaim(['T-1', id])

    const { overlaps, waves, criticalPath } = await hf.tasks.hints()

    expect(overlaps).toEqual([{ tasks: ['T-1', id], because: 'labels', shared: ['api'] }])
    expect(waves).toEqual([['T-1', id], ['T-3']])
    expect(criticalPath).toEqual(['T-1', 'T-3'])
    expect(await hf.tasks.getTask('T-3')).toMatchObject({ title: 'c' })
  })

  test('an idempotent claim returns the same again while its grant is current, and LEASE_LOST afterwards [T3]', async () => {
    const { hf } = await engine.open()
    await hf.tasks.addTask('one', { key: 'T-1' })
    const claim = () =>
      hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', renew: false, idempotencyKey: 'once' })
    const { task } = await claimedTask(claim())

    const again = await claimedTask(claim())
    await hf.tasks.releaseTask('T-1', { agent: 'ada', token: task.token })

    expect(again.task).toEqual(task)
    expect(await refusalCode(claim)).toBe('LEASE_LOST')
  })
})
