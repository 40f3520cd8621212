/** Misuse of tasks and agents is refused with an explanation before anything changes. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

type Call = (hf: Holdfast) => unknown

const long = 'x'.repeat(201)
const calls: Record<string, readonly Call[]> = {
  addTask: [
    (hf) => hf.tasks.addTask(''),
    (hf) => hf.tasks.addTask('x'.repeat(501)),
    (hf) => hf.tasks.addTask(undefined as never),
    (hf) => hf.tasks.addTask('t', { key: '../x' }),
    (hf) => hf.tasks.addTask('t', { labels: ['a\nb'] }),
    (hf) => hf.tasks.addTask('t', { labels: 'docs' as never }),
    (hf) => hf.tasks.addTask('t', { owner: '' }),
    (hf) => hf.tasks.addTask('t', { priority: 0.5 }),
    (hf) => hf.tasks.addTask('t', { body: 'x'.repeat(100_001) }),
    (hf) => hf.tasks.addTask('t', { metadata: { big: 'x'.repeat(300_000) } }),
    (hf) => hf.tasks.addTask('t', { metadata: Symbol('no') }),
    (hf) => hf.tasks.addTask('t', { dependsOn: Array(101).fill('T-1') }),
    (hf) => hf.tasks.addTask('t', { agent: '-lead' }),
  ],
  getTask: [
    (hf) => hf.tasks.getTask(''),
    (hf) => hf.tasks.getTask(long),
    (hf) => hf.tasks.getTask(1 as never),
  ],
  listTasks: [
    (hf) => hf.tasks.listTasks({ status: 'todo' as never }),
    (hf) => hf.tasks.listTasks({ limit: 1001 }),
    (hf) => hf.tasks.listTasks({ after: 'nonsense' }),
    (hf) => hf.tasks.listTasks({ labels: Array(21).fill('a') }),
  ],
  updateTask: [
    (hf) => hf.tasks.updateTask('T-1', { expectedVersion: 0 }),
    (hf) => hf.tasks.updateTask('T-1', { expectedVersion: 1.5 }),
    (hf) => hf.tasks.updateTask('T-1', { note: '' }),
    (hf) => hf.tasks.updateTask('T-1', { note: 'x'.repeat(2001) }),
    (hf) => hf.tasks.updateTask('T-1', { title: '' }),
    (hf) => hf.tasks.updateTask('T-1', { status: 'Open' as never }),
    (hf) => hf.tasks.updateTask('T-1', { metadata: { big: 'x'.repeat(300_000) } }),
    (hf) => hf.tasks.updateTask('T-1', { force: true }),
  ],
  checkUpdateConflict: [(hf) => hf.tasks.checkUpdateConflict('T-1', 0)],
  claimTaskForAgent: [
    (hf) => hf.tasks.claimTaskForAgent('T-1', { agent: '' }),
    ...[-1, Number.NaN, 0.5, 86_400_001, Number.POSITIVE_INFINITY].map(
      (leaseMs) => (hf: Holdfast) => hf.tasks.claimTaskForAgent('T-1', { leaseMs }),
    ),
    (hf) => hf.tasks.claimTaskForAgent('T-1', { token: -1 }),
  ],
  claimNext: [
    (hf) => hf.tasks.claimNext({ maxPerAgent: 0 }),
    (hf) => hf.tasks.claimNext({ maxPerHost: 1.5 }),
    (hf) => hf.tasks.claimNext({ leaseMs: -1 }),
    (hf) => hf.tasks.claimNext({ maxPriority: Number.NaN }),
  ],
  batchClaim: [
    (hf) => hf.tasks.batchClaim([]),
    (hf) => hf.tasks.batchClaim(Array(101).fill('T-1')),
    (hf) => hf.tasks.batchClaim(['T-1'], { leaseMs: -1 }),
  ],
  renewLease: [(hf) => hf.tasks.renewLease('T-1', { leaseMs: -1, token: 1 })],
  releaseTask: [(hf) => hf.tasks.releaseTask('T-1', { status: 'In Progress' as never })],
  completeTask: [
    (hf) => hf.tasks.completeTask('T-1', { result: 'x'.repeat(300_000), token: 1, expectedVersion: -1 }),
  ],
  handoff: [(hf) => hf.tasks.handoff({ to: '' }), (hf) => hf.tasks.handoff({ note: '' })],
  detectStaleLocks: [
    (hf) => hf.tasks.detectStaleLocks({ nearMs: -1 }),
    (hf) => hf.tasks.detectStaleLocks({ staleMs: Number.NaN }),
  ],
  cleanupExpiredLocksWithReport: [(hf) => hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs: -1 })],
  startLockCleanupBackground: [
    (hf) => hf.tasks.startLockCleanupBackground({ everyMs: 0 }),
    (hf) => hf.tasks.startLockCleanupBackground({ everyMs: Number.NaN }),
  ],
  register: [(hf) => hf.agents.register({ agent: '' })],
  list: [(hf) => hf.agents.list({ limit: 0 })],
}

forEachEngine((engine) => {
  test.each(Object.entries(calls))('%s refuses what it cannot use, and changes nothing', async (_, bad) => {
    const { hf, before } = await openWithTask(engine)

    for (const call of bad) expect(await refusalCode(() => call(hf)), String(call)).toBe('INVALID')

    expect((await hf.tasks.listTasks()).tasks).toEqual(before)
  })

  describe('an unknown option', () => {
    test.each<[string, Call]>([
      ['lables', (hf) => hf.tasks.addTask('t', { lables: [] } as never)],
      ['expectVersion', (hf) => hf.tasks.updateTask('T-1', { expectVersion: 1 } as never)],
      ['leasMs', (hf) => hf.tasks.claimTaskForAgent('T-1', { leasMs: 1 } as never)],
      ['label', (hf) => hf.tasks.claimNext({ label: 'x' } as never)],
      ['statuses', (hf) => hf.tasks.listTasks({ statuses: [] } as never)],
      ['staleMS', (hf) => hf.tasks.detectStaleLocks({ staleMS: 1 } as never)],
      ['maxAge', (hf) => hf.tasks.cleanupExpiredLocksWithReport({ maxAge: 1 } as never)],
      ['notes', (hf) => hf.tasks.handoff({ notes: 'x' } as never)],
    ])('%s is refused with the one that was meant', async (name, call) => {
      const { hf } = await openWithTask(engine)

      const refused = await refusal(() => call(hf))

      expect(refused).toMatchObject({ code: 'INVALID', next: expect.stringContaining('did you mean') })
      expect(refused.what).toContain(name)
    })
  })

  test('a missing task is NOT_FOUND for every call on one task', async () => {
    const { hf } = await openWithTask(engine)
    const acts: Call[] = [
      () => hf.tasks.updateTask('T-9', { title: 'x' }),
      () => hf.tasks.updateWithRetry('T-9', () => ({})),
      () => hf.tasks.claimTaskForAgent('T-9'),
      () => hf.tasks.renewLease('T-9'),
      () => hf.tasks.runLeaseRenewal('T-9'),
      () => hf.tasks.releaseTask('T-9'),
      () => hf.tasks.reviewTask('T-9'),
      () => hf.tasks.completeTask('T-9'),
      () => hf.tasks.getLockStatus('T-9'),
    ]

    for (const act of acts) expect(await refusalCode(() => act(hf)), String(act)).toBe('NOT_FOUND')
  })

  test('before the first task there is nothing to claim, list, detect or clean up, and that is not an error', async () => {
    const { hf } = await engine.open()

    expect(await hf.tasks.listTasks()).toEqual({ tasks: [], next: null })
    expect(await hf.tasks.claimNext()).toEqual({ outcome: 'empty', nextDueAt: null, exists: false })
    expect(await hf.tasks.detectStaleLocks()).toMatchObject({ total: 0 })
    expect(await hf.tasks.cleanupExpiredLocks()).toMatchObject({ cleaned: 0 })
    expect(await hf.tasks.cleanupDeadAgentLocks()).toMatchObject({ cleaned: 0 })
    expect(await hf.tasks.handoff()).toEqual({ taskIds: [] })
    expect(await hf.tasks.hints()).toEqual({ overlaps: [], waves: [], criticalPath: [], more: false })
  })

  test('text that looks like code is just text', async () => {
    const { hf } = await engine.open()
    const evil = {
      body: "'); drop table item; --",
      metadata: { __proto__: null, constructor: 'x', toString: 1 },
    }

    const task = await hf.tasks.addTask('"; select 1', {
      ...evil,
      labels: ['constructor'],
      key: 'constructor',
    })

    expect(await hf.tasks.getTask('constructor')).toEqual(task)
    expect((await hf.tasks.listTasks({ labels: ['constructor'] })).tasks).toEqual([task])
    expect(task.metadata).toEqual({ constructor: 'x', toString: 1 })
  })
})

async function openWithTask(engine: Engine) {
  const { hf } = await engine.open({ background: false })
  await hf.tasks.addTask('one', { key: 'T-1' })
  return { hf, before: (await hf.tasks.listTasks()).tasks }
}
