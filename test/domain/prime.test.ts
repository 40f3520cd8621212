import { expect, test } from 'vitest'
import { advise, type PrimeFacts } from '../../src/domain/prime.ts'

const idle: PrimeFacts = { holds: [], unread: 0, tasks: [], queues: [], isRegistered: true }
const what = (facts: Partial<PrimeFacts>) => advise({ ...idle, ...facts }).map((advice) => advice.what)

test('what an agent holds comes first, without anything new', () => {
  const holds = [{ kind: 'task', title: 'T-1', remainingMs: 60_000, isRenewed: false } as const]

  expect(what({ holds, tasks: ['T-2'] })).toEqual(['go on with T-1; renew its lease before it lapses'])
})

test('leases that its process renews need not be renewed by hand [S5c-30]', () => {
  const holds = [{ kind: 'task', title: 'T-1', remainingMs: 20_000, isRenewed: true } as const]

  expect(what({ holds })).toEqual(['go on with T-1; its lease is renewed for you'])
})

test('a lapsed lease should be renewed or dropped', () => {
  expect(what({ holds: [{ kind: 'task', title: 'T-1', remainingMs: -1, isRenewed: false }] })).toEqual([
    'your lease of T-1 has lapsed: renew it, or stop working on it',
  ])
})

test('work comes before the locks that are held for it', () => {
  const lock = { kind: 'lock', title: 'src/**', remainingMs: 1000, isRenewed: false } as const

  expect(
    what({ holds: [lock, { kind: 'item', title: 'main', remainingMs: 2000, isRenewed: false }] }),
  ).toEqual(['go on with main; renew its lease before it lapses'])
  expect(what({ holds: [lock] })).toEqual(['go on with src/**; renew its lease before it lapses'])
})

test('then messages, then the next task', () => {
  expect(advise({ ...idle, unread: 2, tasks: ['T-2', 'T-3'] })).toEqual([
    { what: 'answer 2 unread messages', operation: 'messages.inbox' },
    { what: 'claim the next task: T-2', operation: 'tasks.claimNext' },
  ])
})

test('without a task it names a queue that has something ready', () => {
  expect(advise({ ...idle, queues: ['builds', 'mails'] })).toEqual([
    { what: 'claim from queue builds', operation: 'queue.next' },
  ])
})

test('an idle agent without a process is told both', () => {
  expect(what({ isRegistered: false })).toEqual([
    'nothing to claim: wait for work, or add some',
    'register your process, so that your leases end at once when it dies',
  ])
})
