import { describe, expect, test } from 'vitest'
import { createDelivery, type Delivery } from '../../src/domain/delivery.ts'
import { explainAgent, explainQueue } from '../../src/domain/explain-fleet.ts'
import { explainItem, type ItemFacts } from '../../src/domain/explain-item.ts'
import { explainLock, explainRun } from '../../src/domain/explain-lock.ts'
import { explainMessage } from '../../src/domain/explain-message.ts'
import { describeHolding, type Holding, type Judged } from '../../src/domain/holding.ts'
import type { LeaseColumns } from '../../src/domain/lease.ts'
import type { Message } from '../../src/domain/message.ts'
import { createQueue, pauseQueue, type Queue } from '../../src/domain/queue.ts'
import { unregistered } from '../../src/domain/recipient.ts'
import { makePolicy } from '../../src/domain/redelivery-policy.ts'
import type { Run } from '../../src/domain/run.ts'
import type { Workflow } from '../../src/domain/workflow.ts'
import { ada, aLock, at, itemIn, job, later, merge, newItem, task } from './samples.ts'

const holding = (row: LeaseColumns, liveness: Judged['liveness'] = 'alive', now = at.now): Holding => {
  const judged = [{ instance: 'ada-1', liveness, evidence: 'as seen' }]
  return describeHolding(row, { instances: [], judged }, now)
}
const manual = (fields = {}) => holding(aLock({ instance: null, ...fields }))
const queueOf = (workflow: Workflow): Queue => createQueue('q', workflow, {}, at.wall)
const paused = (reason: string | null) => pauseQueue(queueOf(job), 'eve', reason, at.wall) as Queue

function explained(workflow: Workflow, item: ItemFacts['item'], facts: Partial<ItemFacts> = {}) {
  return explainItem({
    item,
    queue: queueOf(workflow),
    workflow,
    holder: null,
    sparedMs: 0,
    blockers: [],
    position: null,
    lockHolders: [],
    host: null,
    wall: at.wall,
    ...facts,
  })
}

describe('a task that belongs on a machine', () => {
  const todo = itemIn(task, 'todo', { key: 'T-1' })

  test('with a running process can be claimed there [S5c-48]', () => {
    const told = explained(task, todo, { host: { name: 'workshop', isRunning: true } })

    expect(told).toMatchObject({ verdict: 'ready', why: 'it can be claimed now on workshop', can: [] })
  })

  test('without one is stuck, and can be claimed by name [S5c-48]', () => {
    const told = explained(task, todo, { host: { name: 'workshop', isRunning: false } })

    expect(told).toMatchObject({
      verdict: 'stuck',
      why: 'it belongs on workshop, and no process is running there',
      can: [{ operation: 'tasks.claimTaskForAgent', input: { ref: 'T-1' } }],
    })
  })
})

describe('an item', () => {
  test('that can be claimed is ready, with its position in line', () => {
    expect(explained(job, newItem(job), { position: 3 })).toMatchObject({
      verdict: 'ready',
      evidence: ['position 3 in line'],
      can: [],
    })
  })

  test.each([
    ['with its reason', 'maintenance', 'queue q was paused by eve: maintenance'],
    ['without one', null, 'queue q was paused by eve'],
  ])('of a paused queue is stuck, %s', (_, reason, why) => {
    expect(explained(job, newItem(job), { queue: paused(reason) })).toMatchObject({
      verdict: 'stuck',
      why,
      can: [{ operation: 'queue.resume', input: { queue: 'q' } }],
    })
  })

  test('waits while all slots of the processing lock are held', () => {
    const holder = holding(aLock())

    expect(explained(merge, newItem(merge), { lockHolders: [{ holder, sparedMs: 0 }] })).toMatchObject({
      verdict: 'waiting',
      holder,
      next: [{ inMs: ada.leaseMs }],
    })
    expect(explained(merge, newItem(merge))).toMatchObject({ verdict: 'ready' })
  })

  test('that is held names its holder, who can be asked', () => {
    const item = itemIn(job, 'running')

    expect(explained(job, item, { holder: holding(item) })).toMatchObject({
      verdict: 'held',
      why: 'ada holds it',
      next: [{ inMs: ada.leaseMs }],
      can: [{ operation: 'messages.sendWithAck', input: { to: 'ada' } }],
      evidence: ['claimed once'],
    })
  })

  test('held by an unknown holder has nobody to ask', () => {
    const item = itemIn(job, 'running', { agent: null })

    expect(explained(job, item, { holder: holding(item) })).toMatchObject({
      why: 'an unknown agent holds it',
      can: [],
    })
  })

  test('whose holder is dead is stuck until the next recovery', () => {
    const item = itemIn(job, 'running')

    expect(explained(job, item, { holder: holding(item, 'dead') })).toMatchObject({
      verdict: 'stuck',
      why: 'ada held it and is dead: as seen',
      next: [{ inMs: 0 }],
      can: [{ operation: 'recovery.run' }],
    })
  })

  test('whose lease lapsed is stuck until the next claim or recovery', () => {
    const item = itemIn(job, 'running')
    const holder = holding(item, 'alive', later(ada.leaseMs + 2_000).now)

    expect(explained(job, item, { holder })).toMatchObject({
      verdict: 'stuck',
      why: 'the lease of ada lapsed 2s ago',
      can: [{ operation: 'recovery.run' }],
    })
  })

  test('in quarantine is stuck, and can be released', () => {
    const item = itemIn(job, 'pending', {
      quarantinedAt: at.wall,
      quarantineReason: 'lost three',
      crashes: 3,
    })

    expect(explained(job, item)).toMatchObject({
      verdict: 'stuck',
      why: 'it is quarantined: lost three',
      evidence: ['lost its holder 3 times without progress'],
      can: [{ operation: 'queue.releaseFromQuarantine', input: { queue: 'q', ref: 'i1' } }],
    })
  })

  test('that waits for open ones continues when they have succeeded', () => {
    const item = itemIn(job, 'pending', { waitingFor: ['a', 'b'] })
    const blockers = [newItem(job, { id: 'a', key: 'first' }), newItem(job, { id: 'b' })]

    expect(explained(job, item, { blockers })).toMatchObject({
      verdict: 'waiting',
      why: 'it waits for 2 other items to succeed',
      evidence: ['waits for first, which is pending', 'waits for b, which is pending'],
      next: [{ inMs: null }],
    })
  })

  test.each([
    ['was cancelled', [itemIn(job, 'cancelled', { id: 'a' })], 'waits for a, which is cancelled'],
    ['is gone', [], 'waits for a, which is gone'],
  ])('that waits for one that %s is stuck', (_, blockers, evidence) => {
    const item = itemIn(job, 'pending', { waitingFor: ['a'] })

    expect(explained(job, item, { blockers })).toMatchObject({
      verdict: 'stuck',
      why: 'it waits for another item, not all of which can still succeed',
      evidence: [evidence],
    })
  })

  test('that is delayed says until when', () => {
    const item = itemIn(job, 'pending', { runAt: at.wall + 90_000 })
    const failed = { failures: 1, error: { message: 'boom' } }

    expect(explained(job, item)).toMatchObject({
      verdict: 'waiting',
      why: 'it is not due for another 1m30s',
      next: [{ inMs: 90_000 }],
    })
    expect(explained(job, { ...item, ...failed })).toMatchObject({
      why: 'it is not due for another 1m30s, because it failed once',
      evidence: ['failed once, 3 are allowed', 'last failure: boom'],
    })
  })

  test('whose delay or offer is over says that it is due', () => {
    const item = itemIn(job, 'pending', { runAt: at.wall })
    const due = { verdict: 'waiting', why: 'it is due', next: [{ inMs: 0 }] }

    expect(explained(job, item)).toMatchObject(due)
    expect(explained(task, itemIn(task, 'todo', { runAt: at.wall, offeredTo: 'bob' }))).toMatchObject(due)
  })

  test('in a state that is never claimed says which call leads on', () => {
    const review = explained(task, itemIn(task, 'review', { key: 'T-1' }))
    const failed = explained(merge, itemIn(merge, 'failed_retryable'))
    const unknown = explained(job, itemIn(job, 'pending', { state: 'nowhere', phase: 'waiting' }))

    expect(review.can).toMatchObject([{ operation: 'tasks.completeTask', input: { ref: 'T-1' } }])
    expect(failed.can).toMatchObject([{ operation: 'queue.retry' }])
    expect(unknown).toMatchObject({ verdict: 'stuck', can: [] })
  })

  test('that is closed says how, and whether it can be retried', () => {
    const failed = explained(
      job,
      itemIn(job, 'failed', { error: { message: 'boom' }, attempts: 3, failures: 3 }),
    )

    expect(failed).toMatchObject({
      verdict: 'closed',
      why: 'it is failed: boom',
      evidence: ['claimed 3 times', 'failed 3 times, 3 are allowed'],
      can: [{ operation: 'queue.retry' }],
    })
    expect(explained(job, itemIn(job, 'done'))).toMatchObject({ why: 'it is done', can: [] })
  })
})

describe('a lock', () => {
  const slot = (fields = {}, now = at.now) => {
    const lock = aLock(fields)
    return { lock, holder: holding(lock, 'alive', now), sparedMs: 0 }
  }

  test('that nobody holds is free, whoever waits in line', () => {
    expect(explainLock({ name: 'press', slots: [], waiting: 0 })).toMatchObject({
      verdict: 'free',
      evidence: [],
      can: [{ operation: 'locks.acquireLock', input: { name: 'press' } }],
    })
    expect(explainLock({ name: 'press', slots: [], waiting: 2 }).evidence).toEqual(['2 in line'])
  })

  test.each([
    ['expired', ada.leaseMs + 1],
    ['stale', ada.leaseMs + 300_002],
  ])('whose lease is %s is free', (_, ms) => {
    const slots = [slot({}, later(ms).now)]

    expect(explainLock({ name: 'press', slots, waiting: 0 })).toMatchObject({ verdict: 'free' })
  })

  test('whose lapsed lease is spared is not free yet, nor is its last slot', () => {
    const lapsed = later(ada.leaseMs + 1).now
    const spared = (fields = {}) => ({ ...slot(fields, lapsed), sparedMs: 5_000 })
    const explain = (fields: object) => explainLock({ name: 'press', slots: [spared(fields)], waiting: 0 })

    expect(explain({})).toMatchObject({ verdict: 'stuck', next: [{ inMs: 5_000 }], can: [] })
    expect(explain({ slots: 1 }).verdict).toBe('stuck')
    expect(explain({ slots: 2 })).toMatchObject({ verdict: 'free', why: '1 of its 2 slots is free' })
  })

  test('in its delay after a loss waits for the end of that', () => {
    const waiting = { name: 'press', slots: [slot({ delayedSince: at.now })], waiting: 0 }
    const over = { ...waiting, slots: [slot({ delayedSince: at.now }, later(ada.leaseMs + 5).now)] }

    expect(explainLock(waiting)).toMatchObject({ verdict: 'waiting', next: [{ inMs: ada.leaseMs }] })
    expect(explainLock(over)).toMatchObject({ verdict: 'free', holder: null })
  })

  test('whose lapsed lease asked for a delay is not free, because the delay comes first', () => {
    const lapsed = slot({ delayMs: 7_000 }, later(ada.leaseMs + 1).now)
    const spared = { ...lapsed, sparedMs: 5_000 }
    const explain = (only: typeof lapsed) => explainLock({ name: 'press', slots: [only], waiting: 0 })

    expect(explain(lapsed)).toMatchObject({ verdict: 'waiting', next: [{ inMs: 7_000 }], can: [] })
    expect(explain(spared).verdict).toBe('stuck')
  })

  test('that is held says for what and for whom', () => {
    const slots = [slot({ reason: 'release', run: 'spring', user: 'carol' }), slot({ slot: 1 })]

    expect(explainLock({ name: 'press', slots, waiting: 1 })).toMatchObject({
      verdict: 'held',
      evidence: ['for: release', 'for run spring', 'on behalf of carol', '2 slots are taken', '1 in line'],
    })
    expect(explainLock({ name: 'press', slots: [slot()], waiting: 0 }).evidence).toEqual([])
  })

  test('is free while one of its slots is', () => {
    const lapsed = slot({ slots: 3, expiresAt: at.now - 1 })
    const [one, other] = [slot({ slots: 3 }), slot({ slots: 3, slot: 1, agent: 'bob' })]
    const delayed = slot({ slots: 3, slot: 2, delayedSince: at.now })
    const explain = (...slots: ReturnType<typeof slot>[]) => explainLock({ name: 'press', slots, waiting: 1 })

    expect(explain(lapsed, one)).toMatchObject({
      verdict: 'free',
      why: '2 of its 3 slots are free',
      evidence: ['ada holds a slot', '1 in line'],
      can: [{ operation: 'locks.acquireLock', input: { name: 'press', slots: 3 } }],
    })
    expect(explain(one, delayed)).toMatchObject({ verdict: 'free', why: '1 of its 3 slots is free' })
    expect(explain(one, other, delayed).verdict).toBe('held')
    expect(explain(slot({ slots: 1 }), delayed).verdict).toBe('held')
  })
})

describe('a run', () => {
  const run = (fields: Partial<Run> = {}): Run => ({
    run: 'spring',
    lock: 'press',
    token: 1,
    status: 'running',
    total: 10,
    done: 2,
    failed: 1,
    skipped: 0,
    cursor: null,
    completion: 'processed',
    pauseReason: null,
    startedAt: at.wall,
    updatedAt: at.wall,
    endedAt: null,
    outcomesRemovedAt: null,
    runningSince: at.now,
    activeMs: 0,
    version: 1,
    ...fields,
  })

  test('runs under its lock', () => {
    expect(explainRun(run(), manual())).toMatchObject({
      verdict: 'held',
      evidence: ['2 done, 1 failed, 0 skipped of 10', 'under lock press'],
    })
  })

  test('without its lock is stuck', () => {
    expect(explainRun(run({ total: null }), null)).toMatchObject({
      verdict: 'stuck',
      evidence: ['2 done, 1 failed, 0 skipped', 'under lock press'],
    })
  })

  test('that is paused or failed can be resumed', () => {
    expect(explainRun(run({ status: 'paused', pauseReason: 'lunch' }), null)).toMatchObject({
      verdict: 'waiting',
      why: 'it is paused: lunch',
      can: [{ operation: 'runs.resume', input: { run: 'spring', lock: 'press' } }],
    })
  })

  test('that is completed is closed', () => {
    expect(explainRun(run({ status: 'completed' }), null)).toMatchObject({ verdict: 'closed' })
  })
})

describe('a message', () => {
  const message = (fields: Partial<Message> = {}): Message => ({
    id: 'm1',
    sender: 'eve',
    type: 'INFO',
    content: '1',
    context: null,
    parent: null,
    priority: 5,
    state: 'pending',
    quorum: 1,
    level: 0,
    policy: makePolicy({}),
    dueAt: null,
    allowedAt: null,
    escalation: null,
    note: null,
    createdAt: at.wall,
    closedAt: null,
    version: 1,
    ...fields,
  })
  const delivery = (fields: Partial<Delivery> = {}): Delivery => {
    const of = { message: 'm1', number: 0, level: 0, priority: 5 }
    const due = { nextDueAt: at.now + 30_000, givesUpAt: null }
    return { ...createDelivery(of, unregistered('bob'), due, at.wall), ...fields }
  }

  test('waits for its recipients, and says what happens when', () => {
    const first = delivery({ state: 'sent', attempts: 1 })
    const last = delivery({
      recipient: 'carol',
      state: 'sent',
      nextDueAt: null,
      givesUpAt: at.now + 60_000,
      note: 'soon',
    })

    expect(explainMessage({ message: message(), deliveries: [first, last] }, at.now)).toMatchObject({
      verdict: 'waiting',
      why: 'it waits for bob, carol',
      evidence: [
        '0 answers of the 1 that are needed',
        'bob: sent after 1 attempt',
        'carol: sent after 0 attempts, "soon"',
      ],
      next: [
        { what: 'it is sent to bob again', inMs: 30_000 },
        { what: 'carol counts as not answering', inMs: 60_000 },
      ],
    })
  })

  test('with no answer left to wait for is about to escalate', () => {
    const refused = delivery({ state: 'refused', closedAt: at.wall, nextDueAt: null })

    expect(explainMessage({ message: message(), deliveries: [refused] }, at.now).why).toBe(
      'it is about to escalate',
    )
  })

  test('that became a dead letter can be sent again; one that was answered is closed', () => {
    const acked = delivery({ state: 'acked', ackedAt: at.wall, closedAt: at.wall })
    const dead = explainMessage(
      { message: message({ state: 'dead', closedAt: at.wall }), deliveries: [] },
      at.now,
    )
    const done = { message: message({ state: 'acked', closedAt: at.wall }), deliveries: [acked] }

    expect(dead).toMatchObject({
      verdict: 'stuck',
      why: 'nobody acknowledged it on any level: it is a dead letter',
      can: [{ operation: 'messages.redrive' }],
    })
    expect(explainMessage(done, at.now)).toMatchObject({ verdict: 'closed', why: 'it is acked' })
  })

  test('that some acknowledged, but not enough of them, is no message that nobody acknowledged', () => {
    const deliveries = [
      delivery({ state: 'acked', ackedAt: at.wall, closedAt: at.wall }),
      delivery({ recipient: 'carol', state: 'unanswered', closedAt: at.wall }),
    ]
    const dead = message({ state: 'dead', quorum: 2, closedAt: at.wall })

    expect(explainMessage({ message: dead, deliveries }, at.now)).toMatchObject({
      why: 'too few acknowledged it on any level: it is a dead letter',
      evidence: expect.arrayContaining(['1 answer of the 2 that are needed']),
    })
  })

  test('that is damaged says so, and does not offer to send it again, which would be refused', () => {
    const damaged = message({ state: 'dead', content: '{', closedAt: at.wall })

    expect(explainMessage({ message: damaged, deliveries: [] }, at.now)).toMatchObject({
      why: 'its content cannot be read: it is a dead letter',
      can: [],
    })
  })
})

describe('a queue', () => {
  const exactly = (count: number) => ({ count, more: false })
  const facts = {
    queue: queueOf(job),
    ready: exactly(2),
    waiting: exactly(1),
    held: exactly(0),
    quarantined: exactly(0),
    oldestReadyMs: 5_000,
    isDue: false,
    lockHolders: [],
  }

  test('with items to claim is ready', () => {
    expect(explainQueue(facts)).toMatchObject({
      verdict: 'ready',
      evidence: ['2 ready, 0 held, 1 waiting', 'the oldest was added 5s ago'],
    })
  })

  test('without any waits', () => {
    expect(
      explainQueue({ ...facts, ready: exactly(0), oldestReadyMs: null, quarantined: exactly(1) }),
    ).toMatchObject({
      verdict: 'waiting',
      evidence: ['0 ready, 0 held, 1 waiting, 1 of them quarantined'],
    })
  })

  test('in which only a delay is over says so, unless its lock is held', () => {
    const due = { ...facts, ready: exactly(0), oldestReadyMs: null, isDue: true }
    const locked = { ...due, queue: queueOf(merge), lockHolders: [{ holder: manual(), sparedMs: 0 }] }

    expect(explainQueue(due)).toMatchObject({
      verdict: 'waiting',
      why: 'something in it is due',
      next: [{ inMs: 0 }],
    })
    expect(explainQueue(locked).why).toBe('its processing lock is held by ada')
  })

  test('too long to count says so [S5e-4]', () => {
    expect(explainQueue({ ...facts, ready: { count: 10_000, more: true } })).toMatchObject({
      why: '10000+ can be claimed now',
      evidence: ['10000+ ready, 0 held, 1 waiting', 'the oldest was added 5s ago'],
    })
  })

  test('that is paused is stuck', () => {
    expect(explainQueue({ ...facts, queue: paused('lunch') }).why).toBe('it was paused by eve: lunch')
    expect(explainQueue({ ...facts, queue: paused(null) }).why).toBe('it was paused by eve')
  })

  test('waits while its processing lock is held', () => {
    const queue = queueOf(merge)

    expect(
      explainQueue({ ...facts, queue, lockHolders: [{ holder: holding(aLock()), sparedMs: 0 }] }),
    ).toMatchObject({
      verdict: 'waiting',
    })
    expect(explainQueue({ ...facts, queue })).toMatchObject({ verdict: 'ready' })
  })
})

describe('an agent', () => {
  const process = (liveness: Judged['liveness']) => ({
    instance: 'ada-1',
    liveness,
    evidence: 'as seen',
    pid: 4711,
    hostName: 'host',
  })
  const facts = { processes: [], holds: 0, lapsed: 0, orphaned: 0, crashes: 0, isSuspect: false }

  test('with a living process is alive, unless it keeps crashing', () => {
    const alive = { ...facts, processes: [process('alive')], holds: 2 }

    expect(explainAgent(alive)).toMatchObject({
      verdict: 'held',
      evidence: ['process 4711 of host: as seen', 'holds 2 leases'],
      can: [],
    })
    expect(explainAgent({ ...alive, crashes: 3, isSuspect: true })).toMatchObject({
      verdict: 'stuck',
      evidence: expect.arrayContaining([
        'lost 3 leases in the last hour',
        'its last three grants all ended as crashes',
      ]),
    })
  })

  test('without a process holds manual leases, or nothing', () => {
    expect(explainAgent(facts)).toMatchObject({ verdict: 'gone' })
    expect(explainAgent({ ...facts, holds: 1, lapsed: 1 })).toMatchObject({
      verdict: 'held',
      evidence: ['holds 1 lease, 1 of them lapsed'],
      can: [{ operation: 'recovery.run' }],
    })
  })

  test('whose processes are all dead is stuck; one that cannot be judged is not', () => {
    expect(explainAgent({ ...facts, processes: [process('dead')], holds: 3, orphaned: 2 })).toMatchObject({
      verdict: 'stuck',
      evidence: expect.arrayContaining(['holds 3 leases, 2 of them of a dead process']),
      can: [{ operation: 'recovery.run' }],
    })
    expect(explainAgent({ ...facts, processes: [process('dead'), process('unknown')] })).toMatchObject({
      verdict: 'held',
    })
  })
})
