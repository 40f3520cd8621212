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
  CleanupOptions,
  CommandOptions,
  CopyRequest,
  EventOptions,
  FailOptions,
  FleetWatchOptions,
  Holdfast,
  ImportOptions,
  ListOptions,
  ListTasksOptions,
  NackOptions,
  OpenOptions,
  OperationInput,
  OperationName,
  OperationResult,
  OperatorOptions,
  OwnClaimOptions,
  QueueOptions,
  RegisterOptions,
  RemoveTaskOptions,
  RenewalOptions,
  ReserveOptions,
  RunBatchOptions,
  SendOptions,
  StaleLocksOptions,
  StateSetOptions,
  StateUpdateOptions,
  StateWatchOptions,
  SubmitOptions,
  UpdateTaskOptions,
  WebhookOptions,
  Workflow,
  WorkflowState,
  WorkOptions,
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

test('the options of a method are exactly the fields of its operation [S6-1]', () => {
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
  expectTypeOf<keyof StateSetOptions>().toEqualTypeOf<Fields<'state.set', 'key' | 'value'> | Caller>()
})

test('what runs compiles [S6-F4]', () => {
  compiled(async (hf) => {
    const q = hf.queue('jobs', {
      workflow: { name: 'short', initial: 'open', states: { open: { moves: [] } } },
    })
    await q.addMany([{ payload: 1, data: { any: 'json' }, priority: undefined }])
    await q.reclaimStale()
    await q.reclaimStale({ dryRun: true })
    await q.cleanup({ maxAgeMs: 0, dryRun: true })
    await hf.locks.forceReleaseAgent('a', { reason: 'r', dryRun: true })
    await hf.messages.clearPendingAcks({ dryRun: true })
    await hf.tasks.cleanupExpiredLocksWithReport({ dryRun: true })
    await hf.tasks.cleanupDeadAgentLocks({ dryRun: true })
    await hf.recovery.detectAndRecoverStale({ dryRun: true })
    await hf.state('x').delete({ expectedVersion: 0 })
    try {
      await q.add(1)
    } catch (error) {
      await q.fail('x', error)
      await q.failMerge('x', error)
    }
  })
})

test('a batch of anything but strings and numbers needs keyOf [S6-F4]', () => {
  compiled(async (hf) => {
    await hf.locks.runBatch('r', ['a', 1], () => {})
    await hf.locks.runBatch('r', [{ id: 'a' }], () => {}, { keyOf: ({ id }) => id })
    // @ts-expect-error nobody knows the keys
    await hf.locks.runBatch('r', [{ id: 'a' }], () => {})
    // @ts-expect-error nor with other options
    await hf.locks.runBatch('r', [{ id: 'a' }], () => {}, { gapMs: 0 })
  })
})

/** The names of optional fields that do not take undefined. */
type Strict<Options> = {
  [Name in keyof Options]-?: Record<never, never> extends Pick<Options, Name>
    ? undefined extends Required<{ [Each in Name]: Options[Each] | undefined }>[Name]
      ? Record<Name, undefined> extends Pick<Options, Name>
        ? never
        : Name
      : never
    : never
}[keyof Options]

test('an optional field takes undefined, as it does when it runs [S6-F4]', () => {
  expectTypeOf<Strict<{ a?: string; b?: string | undefined; c: string }>>().toEqualTypeOf<'a'>()
  expectTypeOf<
    | Strict<AddOptions>
    | Strict<SubmitOptions<1>>
    | Strict<FailOptions>
    | Strict<OperatorOptions>
    | Strict<ListOptions>
    | Strict<QueueOptions<1>>
    | Strict<AddTaskOptions>
    | Strict<UpdateTaskOptions>
    | Strict<RemoveTaskOptions>
    | Strict<ListTasksOptions>
    | Strict<ClaimTaskOptions>
    | Strict<ClaimNextOptions>
    | Strict<AcquireOptions>
    | Strict<ReserveOptions>
    | Strict<SendOptions>
    | Strict<NackOptions>
    | Strict<RegisterOptions>
    | Strict<StateSetOptions>
    | Strict<OpenOptions>
    | Strict<WorkOptions>
    | Strict<RunBatchOptions<1>>
    | Strict<EventOptions>
    | Strict<StateUpdateOptions>
    | Strict<StateWatchOptions>
    | Strict<FleetWatchOptions>
    | Strict<CleanupOptions>
    | Strict<StaleLocksOptions>
    | Strict<RenewalOptions>
    | Strict<OwnClaimOptions>
    | Strict<WebhookOptions>
    | Strict<CommandOptions>
    | Strict<CopyRequest>
    | Strict<ImportOptions>
    | Strict<Workflow>
    | Strict<WorkflowState>
  >().toEqualTypeOf<never>()
})
