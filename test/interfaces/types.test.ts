/**
 * What compiles and what does not: tsc checks this file, and refuses an expected error that is none. Nothing in it is
 * carried out.
 */
import type {
  AcquireOptions,
  AddOptions,
  AddTaskOptions,
  ClaimNextOptions,
  ClaimTaskOptions,
  FailOptions,
  Holdfast,
  ListOptions,
  ListTasksOptions,
  MessagePageOptions,
  NackOptions,
  OperationInput,
  OperationName,
  OperationResult,
  OperatorOptions,
  QueueOptions,
  RegisterOptions,
  RemoveTaskOptions,
  ReserveOptions,
  SendOptions,
  StateSetOptions,
  SubmitOptions,
  UpdateTaskOptions,
} from 'holdfast'
import { expectTypeOf, test } from 'vitest'

/** Compiled, never called. */
function compiled(_calls: (hf: Holdfast) => unknown): void {}

test('execute is typed by the table: a wrong name, input or result does not compile [S6-1]', () => {
  compiled(async (hf) => {
    const { items } = await hf.execute('queue.list', { queue: 'jobs', states: ['pending'] })
    expectTypeOf(items[0]).toExtend<{ phase: string } | undefined>()
    // @ts-expect-error there is no such operation
    await hf.execute('queue.lst', { queue: 'jobs' })
    // @ts-expect-error a field is missing
    await hf.execute('queue.list', {})
    // @ts-expect-error a field has another type
    await hf.execute('queue.list', { queue: 'jobs', limit: '10' })
    // @ts-expect-error a field is not known
    await hf.execute('queue.list', { queue: 'jobs', lines: 10 })
    // @ts-expect-error the answer has no such field
    ;(await hf.execute('queue.list', { queue: 'jobs' })).rows
    // @ts-expect-error a boolean is answered
    const released: number = await hf.execute('queue.release', { queue: 'jobs', ref: 'x', token: 1 })
    return released
  })
  expectTypeOf<OperationResult<'queue.position'>>().toEqualTypeOf<number | null>()
})

test('methods are typed by the table [S6-1]', () => {
  compiled(async (hf) => {
    const jobs = hf.queue<{ url: string }>('jobs')
    expectTypeOf((await jobs.get('x'))?.payload).toExtend<{ url: string } | undefined>()
    expectTypeOf(await jobs.stats()).toEqualTypeOf<OperationResult<'queue.stats'>>()
    // @ts-expect-error a payload of another type
    await jobs.add({ uri: 'x' })
    // @ts-expect-error an option that is not known
    await jobs.complete('x', { reslt: 1 })
    // @ts-expect-error an option of another type
    await jobs.move('x', 'done', { expectedVersion: '3' })
    // @ts-expect-error a reason is needed
    await hf.locks.forceRelease('press', {})
    // @ts-expect-error nobody waits for this
    await hf.tasks.completeTask('T-1', { waitMs: 5 })
    // @ts-expect-error the answer is a task
    const done: boolean = await hf.tasks.completeTask('T-1')
    return done
  })
})

type Caller = 'agent' | 'idempotencyKey'
type Claimer = Caller | 'renew' | 'instance'
type Waiter = Claimer | 'waitMs' | 'signal'
/** Fields of an operation's input but for what the method names by position. */
type Fields<Name extends OperationName, Named extends string = never> = Exclude<
  keyof OperationInput<Name>,
  Named
>

test('the options of a method are the fields of its operation, no more and no less [S6-1]', () => {
  expectTypeOf<keyof AddOptions>().toEqualTypeOf<Fields<'queue.add', 'queue' | 'payload'> | Caller>()
  expectTypeOf<keyof SubmitOptions<1>>().toEqualTypeOf<Fields<'queue.submit', 'queue' | 'key'> | Caller>()
  expectTypeOf<keyof FailOptions>().toEqualTypeOf<Fields<'queue.fail', 'queue' | 'ref' | 'error'> | Caller>()
  expectTypeOf<keyof OperatorOptions>().toEqualTypeOf<Fields<'queue.retry', 'queue' | 'ref'> | Caller>()
  expectTypeOf<keyof ListOptions>().toEqualTypeOf<Fields<'queue.list', 'queue'>>()
  expectTypeOf<Exclude<keyof QueueOptions<1>, 'schema'>>().toEqualTypeOf<Fields<'queue.define', 'queue'>>()
  expectTypeOf<keyof AddTaskOptions>().toEqualTypeOf<Fields<'tasks.addTask', 'title'> | Caller>()
  expectTypeOf<keyof UpdateTaskOptions>().toEqualTypeOf<Fields<'tasks.updateTask', 'ref'> | Caller>()
  expectTypeOf<keyof RemoveTaskOptions>().toEqualTypeOf<Fields<'tasks.removeTask', 'ref'> | Caller>()
  expectTypeOf<keyof ListTasksOptions>().toEqualTypeOf<Fields<'tasks.listTasks'>>()
  expectTypeOf<keyof ClaimTaskOptions>().toEqualTypeOf<Fields<'tasks.claimTaskForAgent', 'ref'> | Claimer>()
  expectTypeOf<keyof ClaimNextOptions>().toEqualTypeOf<Fields<'tasks.claimNext'> | Claimer>()
  expectTypeOf<keyof AcquireOptions>().toEqualTypeOf<
    Fields<'locks.acquireLock', 'name' | 'wait' | 'waiter'> | Waiter
  >()
  expectTypeOf<keyof ReserveOptions>().toEqualTypeOf<Fields<'locks.reserve', 'patterns'> | Claimer>()
  expectTypeOf<keyof SendOptions>().toEqualTypeOf<Fields<'messages.sendWithAck', 'to'> | Caller>()
  expectTypeOf<keyof NackOptions>().toEqualTypeOf<Fields<'messages.nack', 'message'> | Caller>()
  expectTypeOf<keyof RegisterOptions>().toEqualTypeOf<Fields<'messages.register', 'name'> | Caller>()
  expectTypeOf<keyof MessagePageOptions>().toEqualTypeOf<Fields<'messages.listDeadLetters', 'sender'>>()
  expectTypeOf<keyof StateSetOptions>().toEqualTypeOf<Fields<'state.set', 'key' | 'value'> | Caller>()
})
