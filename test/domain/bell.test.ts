import { describe, expect, test } from 'vitest'
import { type Bell, bellNumber, feed, isOfThings, maxBells } from '../../src/domain/bell.ts'
import type { Delivery } from '../../src/domain/delivery.ts'
import type { Item } from '../../src/domain/item.ts'
import type { Lock } from '../../src/domain/lock.ts'
import type { Waiter } from '../../src/domain/lock-line.ts'
import type { Message } from '../../src/domain/message.ts'
import { createQueue, processingLockName } from '../../src/domain/queue.ts'
import { inboxAdapter } from '../../src/domain/recipient.ts'
import type { State } from '../../src/domain/state.ts'
import { noteRings } from '../../src/operations/rings.ts'
import type { Change, Remark } from '../../src/port/decision.ts'
import { aThread, toBob } from './message-samples.ts'
import { aLock, itemIn, job, newItem, task } from './samples.ts'

const event = { kind: 'item.created', agent: 'ada' } as const

/** The bells among these that the changes ring. */
function rung(changes: readonly Change[], remarks?: readonly Remark[]): number[] {
  const bells = new Set<number>()
  noteRings('default', { changes, result: null, ...(remarks ? { remarks } : {}) }, bells)
  return [...bells].sort((left, right) => left - right)
}

function numbersOf(...bells: Bell[]): number[] {
  return bells.map((bell) => bellNumber('default', bell)).sort((left, right) => left - right)
}

const item = (before: Item | null, after: Item | null): Change => ({ table: 'item', before, after })
const lock = (before: Lock | null, after: Lock | null): Change => ({ table: 'lock', before, after })
const waiter = { name: 'press' } as Waiter
const queueBell = (name: string): Bell => ({ kind: 'queue', name })
const lockBell = (name: string): Bell => ({ kind: 'lock', name })
const inboxBell = (name: string): Bell => ({ kind: 'inbox', name })

describe('the number of a bell [S5e-7]', () => {
  test('is one of 64, and the feed never shares one with anything else', () => {
    const names = Array.from({ length: 2000 }, (_, index) => `queue-${index}`)

    const numbers = new Set(names.map((name) => bellNumber('default', queueBell(name))))
    const feeds = new Set(names.map((namespace) => bellNumber(namespace, feed)))

    expect(numbers.size + feeds.size).toBe(maxBells)
    expect([...numbers].every(isOfThings)).toBe(true)
    expect([...feeds].some(isOfThings)).toBe(false)
    expect(Math.max(...numbers, ...feeds)).toBe(maxBells - 1)
  })

  test('depends on namespace, kind and name, and never changes: processes of two versions share a store', () => {
    const bells = [
      bellNumber('default', queueBell('jobs')),
      bellNumber('other', queueBell('jobs')),
      bellNumber('default', lockBell('jobs')),
      bellNumber('default', queueBell('mail')),
    ]

    expect(new Set(bells).size).toBe(4)
    expect(bells).toMatchInlineSnapshot(`
      [
        38,
        31,
        29,
        46,
      ]
    `)
  })
})

describe('an item rings its queue [S5e-7]', () => {
  const ready = newItem(job, { id: 'i' })
  const held = itemIn(job, 'running', { queue: ready.queue })
  const closed = itemIn(job, 'done', { queue: ready.queue })
  const q = queueBell(ready.queue)

  test.each<[string, Item | null, Item | null]>([
    ['it is added', null, ready],
    ['it is given back', held, ready],
    ['it is given back as a suspect', held, { ...ready, phase: 'suspect' }],
    ['it is put off', held, { ...ready, phase: 'waiting', runAt: 1 }],
    ['it arrives lapsed', null, held],
    ['its holder lets go of a suspect', { ...held, suspectedAt: 1 }, closed],
  ])('when %s', (_what, before, after) => {
    expect(rung([item(before, after)])).toEqual(numbersOf(q))
  })

  test.each<[string, Item | null, Item | null]>([
    ['it is claimed', ready, held],
    ['it makes progress', held, { ...held, version: 9 }],
    ['it is completed', held, closed],
    ['it waits for another', null, { ...ready, phase: 'waiting', runAt: null }],
    ['it is removed', ready, null],
  ])('but not when %s', (_what, before, after) => {
    expect(rung([item(before, after)])).toEqual([])
  })

  test('when a task is no longer held, because its agent and machine may take another', () => {
    const running = itemIn(task, 'in_progress', { queue: 'tasks' })

    expect(rung([item(running, itemIn(task, 'done', { queue: 'tasks' }))])).toEqual(
      numbersOf(queueBell('tasks')),
    )
    expect(rung([item(running, null)])).toEqual(numbersOf(queueBell('tasks')))
  })
})

test('a queue that is changed rings [S5e-7]', () => {
  const queue = createQueue('jobs', job, {}, 1)

  expect(rung([{ table: 'queue', before: queue, after: { ...queue, pausedAt: 1 } }])).toEqual(
    numbersOf(queueBell('jobs')),
  )
  expect(rung([{ table: 'queue', before: queue, after: null }])).toEqual([])
})

describe('a lock rings [S5e-7]', () => {
  const held = aLock({ name: 'press', slots: 1 })

  test('when it is released or goes to another, not when it is taken or renewed', () => {
    expect(rung([lock(held, null)])).toEqual(numbersOf(lockBell('press')))
    expect(rung([lock(held, { ...held, token: held.token + 1 })])).toEqual(numbersOf(lockBell('press')))
    expect(rung([lock(null, held)])).toEqual([])
    expect(rung([lock(held, { ...held, depth: 2 })])).toEqual([])
  })

  test('and a processing lock rings its queue too', () => {
    const name = processingLockName('merges')

    expect(rung([lock({ ...held, name }, null)])).toEqual(numbersOf(lockBell(name), queueBell('merges')))
  })

  test('when a waiter leaves its line, unless it takes the only slot', () => {
    const left: Change = { table: 'waiter', before: waiter, after: null }
    const bell = numbersOf(lockBell('press'))

    expect(rung([left])).toEqual(bell)
    expect(rung([lock(null, { ...held, slots: 2 }), left])).toEqual(bell)
    expect(rung([lock(null, { ...held, name: 'other' }), left])).toEqual(bell)
    expect(rung([lock(null, held), left])).toEqual([])
    expect(rung([{ table: 'waiter', before: null, after: waiter }])).toEqual([])
    expect(rung([{ table: 'waiter', before: waiter, after: waiter }])).toEqual([])
  })
})

test('a document rings when it is saved and when it is deleted [S5e-7]', () => {
  const state = { key: 'plan' } as State
  const bell = numbersOf({ kind: 'state', name: 'plan' })

  expect(rung([{ table: 'state', before: null, after: state }])).toEqual(bell)
  expect(rung([{ table: 'state', before: state, after: null }])).toEqual(bell)
})

describe('a delivery rings its adapter [S5e-7]', () => {
  const delivery = (before: Delivery | null, after: Delivery | null): Change => ({
    table: 'delivery',
    before,
    after,
  })
  const resting = toBob({ adapter: 'pigeon', nextDueAt: null, givesUpAt: null, attempts: 1 })

  test('when it is due sooner than was known', () => {
    const due = { ...resting, nextDueAt: 5 }

    expect(rung([delivery(null, due)])).toEqual(numbersOf(inboxBell('pigeon')))
    expect(rung([delivery({ ...resting, nextDueAt: 9 }, due)])).toEqual(numbersOf(inboxBell('pigeon')))
    expect(rung([delivery({ ...resting, nextDueAt: 3 }, due)])).toEqual([])
    expect(rung([delivery(due, resting)])).toEqual([])
    expect(rung([delivery(due, null)])).toEqual([])
  })

  test('but not after an attempt: the process that made it knows when the next is due', () => {
    expect(rung([delivery(resting, { ...resting, attempts: 2, nextDueAt: 5 })])).toEqual([])
  })

  test('and the inbox when the wait for an answer ends sooner', () => {
    const { message } = aThread(['bob'])
    const bell = numbersOf(inboxBell(inboxAdapter))
    const settles = (dueAt: number | null): Message => ({ ...message, dueAt })

    expect(rung([delivery(resting, { ...resting, givesUpAt: 5 })])).toEqual(bell)
    expect(rung([{ table: 'message', before: settles(null), after: settles(5) }])).toEqual(bell)
    expect(rung([{ table: 'message', before: null, after: settles(null) }])).toEqual([])
    expect(rung([{ table: 'message', before: settles(5), after: null }])).toEqual([])
  })
})

test('the feed rings for every event and remark, and for nothing else [S5e-7]', () => {
  const beat = { table: 'instance', before: null, after: null } as const
  const remark = { ...event, subject: 'item', id: '1', queue: 'jobs', token: null } as const

  expect(rung([{ ...beat, event }])).toEqual(numbersOf(feed))
  expect(rung([], [remark])).toEqual(numbersOf(feed))
  expect(rung([beat])).toEqual([])
})
