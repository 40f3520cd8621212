/** Changing tasks: no update overwrites a version it has not read, and only the holder changes a held task. */
import { isVersionMismatchError, type Task, VersionMismatchError } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  describe('an update', () => {
    test('at the version that was read succeeds and increases it by one [T14]', async () => {
      const { hf } = await openWithTask(engine)

      const updated = await hf.tasks.updateTask('T-1', {
        expectedVersion: 1,
        title: 'new',
        body: 'text',
        labels: ['a'],
        paths: ['p'],
        priority: 3,
        metadata: { m: 1 },
        note: 'changed',
      })

      expect(updated).toMatchObject({
        version: 2,
        title: 'new',
        body: 'text',
        priority: 3,
        metadata: { m: 1 },
      })
      expect(await hf.tasks.getTask('T-1')).toEqual(updated)
    })

    test('by a stale caller is refused with both versions, and nothing is lost [T14] [E4]', async () => {
      const { hf } = await openWithTask(engine)
      await hf.tasks.updateTask('T-1', { expectedVersion: 1, title: 'first' })

      const refused = await refusal(() => hf.tasks.updateTask('T-1', { expectedVersion: 1, title: 'second' }))

      expect(refused).toBeInstanceOf(VersionMismatchError)
      expect(refused).toMatchObject({ code: 'VERSION_MISMATCH', facts: { expected: 1, current: 2 } })
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ title: 'first', version: 2 })
    })

    test('changes only what it names: metadata, owner and dependencies stay [T14] [E4]', async () => {
      const { hf } = await engine.open()
      const gate = await hf.tasks.addTask('gate')
      const before = await hf.tasks.addTask('one', {
        body: 'body',
        labels: ['l'],
        owner: 'olga',
        metadata: { keep: true },
        dependsOn: [gate.id],
      })

      const after = await hf.tasks.updateTask(before.id, { title: 'two' })

      expect(after).toEqual({ ...before, title: 'two', version: 2 })
    })

    test('without a version is unconditional and still increases it [T14]', async () => {
      const { hf } = await openWithTask(engine)
      await hf.tasks.updateTask('T-1', { title: 'a' })

      expect(await hf.tasks.updateTask('T-1', { title: 'b' })).toMatchObject({ title: 'b', version: 3 })
    })

    test('of a held task is allowed only to its holder, unless forced with a recorded reason [T14]', async () => {
      const { hf } = await openWithTask(engine)
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))

      const stranger = await refusal(() => hf.tasks.updateTask('T-1', { agent: 'bob', title: 'x' }))
      const unexplained = await refusalCode(() =>
        hf.tasks.updateTask('T-1', { agent: 'bob', title: 'x', force: true }),
      )
      const own = await hf.tasks.updateTask('T-1', { agent: 'ada', title: 'mine', progress: { step: 1 } })
      const forced = await hf.tasks.updateTask('T-1', {
        agent: 'bob',
        priority: 0,
        force: true,
        reason: 'the customer called',
      })

      expect(stranger).toMatchObject({ code: 'HELD', facts: { holder: 'ada', expiresAt: task.lockUntil } })
      expect(unexplained).toBe('INVALID')
      expect(own).toMatchObject({ title: 'mine', progress: { step: 1 }, assignee: 'ada' })
      expect(forced).toMatchObject({ title: 'mine', priority: 0, assignee: 'ada', token: task.token })
      expect((await hf.queue('tasks').events('T-1')).at(-1)).toMatchObject({
        kind: 'item.updated',
        agent: 'bob',
        detail: { reason: 'the customer called' },
      })
    })

    test('records progress only for the holder, also once its lease has lapsed or by force [T14]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', recovery: false })
      await hf.tasks.addTask('Write the parser', { key: 'T-1' })
      await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'bob', leaseMs: 1_000 }))
      const progress = { step: 1 }

      const forced = () => hf.tasks.updateTask('T-1', { progress, force: true, reason: 'bob is away' })
      expect(await refusalCode(forced)).toBe('ILLEGAL_MOVE')
      await env.advance(2_000)
      expect(await refusalCode(() => hf.tasks.updateTask('T-1', { progress }))).toBe('ILLEGAL_MOVE')

      expect(await hf.tasks.updateTask('T-1', { agent: 'bob', progress })).toMatchObject({ progress })
    })

    test('may move a task as its state allows, and In Progress needs a claim [T2]', async () => {
      const { hf } = await openWithTask(engine)

      const review = await hf.tasks.updateTask('T-1', { status: 'Review' })
      const todo = await hf.tasks.updateTask('T-1', { status: 'Todo' })
      const started = await refusalCode(() => hf.tasks.updateTask('T-1', { status: 'In Progress' as never }))
      const skipped = await refusalCode(() => hf.tasks.updateTask('T-1', { status: 'Done' }))
      await hf.tasks.claimTaskForAgent('T-1')
      const done = await hf.tasks.updateTask('T-1', { status: 'Done' })
      const reopened = await refusalCode(() => hf.tasks.updateTask('T-1', { status: 'Todo' }))

      expect([review, todo, done].map(({ status }) => status)).toEqual(['Review', 'Todo', 'Done'])
      expect([started, skipped, reopened]).toEqual(['ILLEGAL_MOVE', 'ILLEGAL_MOVE', 'ILLEGAL_MOVE'])
      expect(done.assignee).toBeNull()
    })

    test('that finishes a task frees what waited for it, in the same transaction [T4]', async () => {
      const { hf } = await openWithTask(engine)
      await hf.tasks.addTask('two', { key: 'T-2', dependsOn: ['T-1'] })
      await hf.tasks.reviewTask('T-1')

      await hf.tasks.updateTask('T-1', { status: 'Done' })

      expect(await hf.tasks.getTask('T-2')).toMatchObject({ waitingFor: [] })
    })
  })

  describe('a conflict', () => {
    test('can be checked before the update [T14]', async () => {
      const { hf } = await openWithTask(engine)

      expect(await hf.tasks.checkUpdateConflict('T-1', 1)).toEqual({ hasConflict: false, currentVersion: 1 })
      await hf.tasks.updateTask('T-1', { title: 'x' })
      expect(await hf.tasks.checkUpdateConflict('T-1', 1)).toEqual({ hasConflict: true, currentVersion: 2 })
      expect(await refusalCode(() => hf.tasks.checkUpdateConflict('T-9', 1))).toBe('NOT_FOUND')
    })

    test('is recognized as an error, even wrapped in another [T14]', async () => {
      const { hf } = await openWithTask(engine)
      const error = await refusal(() => hf.tasks.updateTask('T-1', { expectedVersion: 9 }))

      expect(isVersionMismatchError(error)).toBe(true)
      expect(isVersionMismatchError(new Error('saving failed', { cause: error }))).toBe(false)
      expect(isVersionMismatchError(new Error('version mismatch'))).toBe(false)
      expect(isVersionMismatchError(null)).toBe(false)
    })

    test('is not caused by a renewal [T14]', async () => {
      const { hf, env } = await openWithTask(engine)
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1'))

      await env.advance(60_000)

      expect(await hf.tasks.checkUpdateConflict('T-1', task.version)).toMatchObject({ hasConflict: false })
    })
  })

  describe('an update with retry', () => {
    test('loses nothing even if many write at once [T14] [T21]', async () => {
      const { hf, store } = await openWithTask(engine, 'real time')
      const handles = await Promise.all([1, 2, 3].map(() => store.open({ background: false })))
      const addLabel = (handle: typeof hf, label: string) =>
        handle.tasks.updateWithRetry('T-1', ({ labels }) => ({ labels: [...labels, label] }), {
          maxAttempts: 20,
        })

      await Promise.all(
        handles.flatMap((handle, index) => ['a', 'b'].map((each) => addLabel(handle, `${each}${index}`))),
      )

      const { labels, version } = await present(hf.tasks.getTask('T-1'))
      expect(labels.toSorted()).toEqual(['a0', 'a1', 'a2', 'b0', 'b1', 'b2'])
      expect(version).toBe(7)
    })

    test('reads again after each conflict, five times, and then fails [T14]', async () => {
      const { hf } = await openWithTask(engine, 'real time')
      const seen: number[] = []
      const disturbed = async (task: Task) => {
        seen.push(task.version)
        await hf.tasks.updateTask('T-1', { note: 'me first' })
        return { title: 'never' }
      }

      const code = await refusalCode(() => hf.tasks.updateWithRetry('T-1', disturbed))

      expect(code).toBe('VERSION_MISMATCH')
      expect(seen).toEqual([1, 2, 3, 4, 5])
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ title: 'one' })
    })

    test.each([1, 3])('may be allowed %i attempts, including the first [T14]', async (maxAttempts) => {
      const { hf } = await openWithTask(engine, 'real time')
      let calls = 0
      const disturbed = async () => {
        calls++
        await hf.tasks.updateTask('T-1', { note: 'me first' })
        return { title: 'never' }
      }

      await refusalCode(() => hf.tasks.updateWithRetry('T-1', disturbed, { maxAttempts }))

      expect(calls).toBe(maxAttempts)
    })

    test('takes no idempotency key, which could not cover several attempts [T14]', async () => {
      const { hf } = await openWithTask(engine)
      const options = { idempotencyKey: 'k1', maxAttempts: 2 }

      const code = await refusalCode(() => hf.tasks.updateWithRetry('T-1', () => ({ title: 'two' }), options))

      expect(code).toBe('INVALID')
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ title: 'one' })
    })

    test('ignores an option that is undefined [T14]', async () => {
      const { hf } = await openWithTask(engine)
      const options = { idempotencyKey: undefined, agent: undefined }

      const updated = await hf.tasks.updateWithRetry('T-1', () => ({ title: 'two' }), options)

      expect(updated).toMatchObject({ title: 'two', version: 2 })
    })

    test('does not repeat what failed for another reason, and may decide to leave the task as it is', async () => {
      const { hf } = await openWithTask(engine)
      const before = await present(hf.tasks.getTask('T-1'))

      const left = await hf.tasks.updateWithRetry('T-1', () => null)
      const illegal = await refusalCode(() => hf.tasks.updateWithRetry('T-1', () => ({ status: 'Done' })))
      const missing = await refusalCode(() => hf.tasks.updateWithRetry('T-9', () => null))

      expect(left).toEqual(before)
      expect([illegal, missing]).toEqual(['ILLEGAL_MOVE', 'NOT_FOUND'])
    })
  })
})

/** Retries wait a little: those run in real time. */
async function openWithTask(engine: Engine, time: 'moved time' | 'real time' = 'moved time') {
  const opened = await (time === 'real time' ? engine.openInRealTime() : engine.open())
  await opened.hf.tasks.addTask('one', { key: 'T-1' })
  return opened
}
