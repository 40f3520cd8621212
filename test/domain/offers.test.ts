/** Offers of tasks, the order of claims, and small rules that only faults reach. */
import { describe, expect, test } from 'vitest'
import { explainItem } from '../../src/domain/explain-item.ts'
import { failureFacts, failureOf } from '../../src/domain/failure.ts'
import { type Instance, processesOf } from '../../src/domain/instance.ts'
import { compareInLine, type Item } from '../../src/domain/item.ts'
import { lapsesAt } from '../../src/domain/lease.ts'
import { createQueue } from '../../src/domain/queue.ts'
import { heldBackMs, type State } from '../../src/domain/state.ts'
import { claimTask, handTo } from '../../src/domain/task.ts'
import { endingOf } from '../../src/domain/workflow.ts'
import { at, itemIn, job, later, newItem, task } from './samples.ts'

const rules = { workflow: task, maxCrashes: 3, held: null }
const request = { instance: null, leaseMs: 1000, fromReview: false }
const offered = () => handTo(itemIn(task, 'todo'), task, { to: 'bob', offerMs: 60_000, wall: at.wall })

describe('a task that is handed over', () => {
  test('is reserved for its new owner for a while', () => {
    expect(offered()).toMatchObject({ offeredTo: 'bob', runAt: at.wall + 60_000, phase: 'waiting' })
  })

  test.each([
    ['nobody', { to: null, offerMs: 60_000 }],
    ['somebody for no time', { to: 'bob', offerMs: 0 }],
  ])('and given to %s is open to all at once', (_, offer) => {
    expect(handTo(itemIn(task, 'todo'), task, { ...offer, wall: at.wall })).toMatchObject({
      offeredTo: null,
      phase: 'ready',
    })
  })

  test.each([
    ['its new owner', { agent: 'bob' }, at, 'claimed'],
    ['another agent', { agent: 'eve' }, at, 'offered'],
    ['another agent with force', { agent: 'eve', force: true }, at, 'claimed'],
    ['another agent once the offer is over', { agent: 'eve' }, later(60_000), 'claimed'],
  ])('can be claimed by %s or not', (_, who, moment, outcome) => {
    expect(claimTask(offered(), rules, { ...request, ...who }, moment).outcome).toBe(outcome)
  })

  test('is explained by its offer', () => {
    const queue = createQueue('tasks', task, {}, at.wall)
    const facts = {
      queue,
      workflow: task,
      holder: null,
      sparedMs: 0,
      blockers: [],
      position: null,
      lockHolders: [],
      host: null,
    }

    expect(JSON.stringify(explainItem({ ...facts, item: offered(), wall: at.wall }))).toContain(
      'offered to bob',
    )
  })
})

test('items are claimed by priority, then age, then id', () => {
  const one = newItem(job)
  const others: Item[] = [
    { ...one, id: 'i0' },
    { ...one, addedAt: at.wall - 1 },
    { ...one, priority: 1 },
  ]

  expect([one, ...others].sort(compareInLine)).toEqual([others[2], others[1], others[0], one])
  expect(compareInLine(one, others[0] as Item)).toBe(1)
})

test('its state tells how an item ended', () => {
  const endings = ['done', 'failed', 'cancelled', 'pending', 'nowhere'].map((state) => endingOf(job, state))

  expect(endings).toEqual(['succeeded', 'failed', 'cancelled', null, null])
})

test('a lease without an end has lapsed long ago', () => {
  expect(lapsesAt({ expiresAt: null, instance: null }, { manualGraceMs: 5 })).toBe(5)
})

test('a preference without an end delays nobody', () => {
  const state = { preferred: 'other', preferredUntil: null } as unknown as State

  expect(heldBackMs(state, 'mine', at.now)).toBe(0)
})

test('a process without counts holds nothing', () => {
  const instance = { id: 'idle', pid: 1 } as unknown as Instance

  expect(processesOf([instance], new Map())).toMatchObject([{ items: 0, suspects: 0 }])
})

test('a log line of a failure has whatever is known', () => {
  const item = { queue: 'q', id: 'i1', attempts: 2 }
  const plain = { queue: 'q', item: 'i1', attempt: 2, error: 'no' }

  expect(failureFacts(item, { message: 'no' })).toEqual(plain)
  expect(failureFacts(item, { message: 'no', code: 'E', stack: 'at x' })).toEqual({
    ...plain,
    code: 'E',
    stack: 'at x',
  })
})

test('an error whose stack has no frames keeps its message', () => {
  const error = Object.assign(new Error('no'), { stack: 'Error: no' })

  expect(failureOf(error)).toMatchObject({ stack: 'Error: no' })
})

test('a suspect is explained with the evidence against it', () => {
  const queue = createQueue('q', job, {}, at.wall)
  const item = itemIn(job, 'pending', { exposures: 2, suspectedAt: at.wall })
  const facts = {
    queue,
    workflow: job,
    holder: null,
    sparedMs: 0,
    blockers: [],
    position: null,
    lockHolders: [],
    host: null,
  }

  const explained = JSON.stringify(explainItem({ ...facts, item, wall: at.wall }))

  expect(explained).toContain('suspected of killing its holders')
  expect(explained).toContain('by a process that holds no other suspect')
})
