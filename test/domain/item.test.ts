import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Blame } from '../../src/domain/crash.ts'
import { awaitedFirst, maxWalked } from '../../src/domain/dependency.ts'
import {
  type Clocks,
  describeItem,
  describeState,
  type Item,
  setItemPriority,
} from '../../src/domain/item.ts'
import { claimItem, claimItemByName } from '../../src/domain/item-claim.ts'
import {
  assertHolds,
  cancelItem,
  completeItem,
  failItem,
  isCompletedUnder,
  moveItem,
  releaseItem,
  retryItem,
} from '../../src/domain/item-end.ts'
import {
  type Loss,
  quarantineItem,
  reclaimItem,
  recordProgress,
  releaseItemFromQuarantine,
} from '../../src/domain/item-loss.ts'
import {
  assertUnneeded,
  promoteItem,
  setItemBlockers,
  unblockItem,
  withoutClosedBlockers,
} from '../../src/domain/item-waiting.ts'
import type { Workflow } from '../../src/domain/workflow.ts'
import { schema } from '../../src/engines/schema.ts'
import { isHoldfastError } from '../../src/errors.ts'
import {
  ada,
  at,
  heldStatesOf,
  itemIn,
  job,
  later,
  merge,
  newItem,
  printing,
  refusalOf,
  statesOf,
  statesWhere,
  task,
  workflowNamed,
} from './samples.ts'

const backoff = { baseMs: 1_000, factor: 2, maxMs: 60_000 }
const failure = (retryable: boolean, message = 'paper jam') => ({
  error: { message },
  retryable,
  backoff,
  random: 1,
})
const crash: Loss = { evidence: 'its process 42 is gone', blame: 'own', maxCrashes: 3 }

const everyHeldState = statesWhere(({ held }) => held === true)

test('items that are read, created, claimed and completed have their fields in one order', () => {
  const created = newItem(job)
  const claimed = claimItem(created, job, { ...ada, leaseMs: 1_000 }, at)
  const completed = completeItem(claimed, job, null, at)

  for (const item of [created, claimed, completed]) expect(Object.keys(item)).toEqual(schema.item.fields)
})

describe('a new item', () => {
  test('is ready in its first state, without a holder, with priority 5 and all counts at zero [Q1] [Q5]', () => {
    const item = newItem(job, { submittedBy: 'eve' })

    expect(item).toEqual({
      id: 'i1',
      queue: 'q',
      workflow: 'job',
      state: 'pending',
      phase: 'ready',
      priority: 5,
      key: null,
      dedupeKey: null,
      parent: null,
      ancestors: [],
      blockers: [],
      waitingFor: [],
      runAt: null,
      offeredTo: null,
      attempts: 0,
      failures: 0,
      crashes: 0,
      exposures: 0,
      suspectedAt: null,
      progressAtLoss: null,
      crashResets: 0,
      maxAttempts: 3,
      quarantinedAt: null,
      quarantineReason: null,
      cancelRequestedAt: null,
      submittedBy: 'eve',
      addedAt: at.wall,
      startedAt: null,
      stateChangedAt: at.wall,
      closedAt: null,
      outcome: null,
      previousState: null,
      version: 1,
      agent: null,
      instance: null,
      token: 0,
      grantedAt: null,
      renewedAt: null,
      expiresAt: null,
      leaseMs: null,
      holderHost: null,
      error: null,
      progress: null,
      result: null,
      payload: '{}',
      data: {},
    })
  })

  test('keeps what it is given, including a priority of 0', () => {
    const given = {
      priority: 0,
      key: 'feature',
      dedupeKey: 'w:feature',
      payload: '[1]',
      data: { bead: 'b-7' },
    }

    expect(newItem(merge, given)).toMatchObject(given)
  })

  test.each([
    ['in the past', at.wall - 1, null, 'ready'],
    ['now', at.wall, null, 'ready'],
    ['in the future', at.wall + 1, at.wall + 1, 'waiting'],
  ])('that is due %s is claimable exactly from that time on [Q12]', (_, runAt, kept, phase) => {
    expect(newItem(job, { runAt })).toMatchObject({ runAt: kept, phase })
  })

  test.each([
    ['open', itemIn(job, 'pending'), ['b'], 'waiting'],
    ['held', itemIn(job, 'running'), ['b'], 'waiting'],
    ['failed', itemIn(job, 'failed'), ['b'], 'waiting'],
    ['succeeded', itemIn(job, 'done'), [], 'ready'],
  ])(
    'whose blocker is %s waits exactly for what has not succeeded [Q22]',
    (_, blocker, waitingFor, phase) => {
      const item = newItem(job, { blockers: [{ ...blocker, id: 'b' }] })

      expect(item).toMatchObject({ blockers: ['b'], waitingFor, phase })
    },
  )

  test('knows its stack from the root down to its parent, and waits for the parent [Q22]', () => {
    const parent = itemIn(merge, 'pending', { id: 'p', ancestors: ['root', 'middle'] })

    const item = newItem(merge, { parent })

    expect(item).toMatchObject({ parent: 'p', ancestors: ['root', 'middle', 'p'], waitingFor: ['p'] })
  })

  test('that names its parent as blocker too waits for it once', () => {
    const parent = itemIn(merge, 'pending', { id: 'p' })

    const item = newItem(merge, { parent, blockers: [parent] })

    expect(item).toMatchObject({ blockers: ['p'], waitingFor: ['p'] })
  })

  test('may be ten levels deep in a stack, but not eleven [Q22]', () => {
    const under = (depth: number) =>
      itemIn(merge, 'pending', {
        id: 'p',
        ancestors: Array.from({ length: depth - 1 }, (_, index) => `a${index}`),
      })

    const deepest = newItem(merge, { parent: under(10) })
    const refusal = refusalOf(() => newItem(merge, { parent: under(11) }))

    expect(deepest.ancestors).toHaveLength(10)
    expect(refusal).toMatchObject({ code: 'INVALID', facts: { depth: 11, maxDepth: 10 } })
    expect(refusal.what).toBe('a stack of 12 items is too deep')
  })

  test('is refused under a parent that is stacked on it, with a remedy [Q22]', () => {
    const parent = itemIn(merge, 'pending', { id: 'p', ancestors: ['root', 'i1'] })

    const refusal = refusalOf(() => newItem(merge, { id: 'i1', parent }))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { path: ['root', 'i1', 'p', 'i1'] } })
  })

  test('is refused as its own blocker [Q22]', () => {
    const closed = itemIn(merge, 'cancelled', { id: 'i1' })

    const refusal = refusalOf(() => newItem(merge, { id: 'i1', blockers: [closed] }))

    expect(refusal.code).toBe('INVALID')
  })
})

describe('the name of an item in messages', () => {
  test('is its id, with the key in front where it has one', () => {
    const names = [newItem(job), newItem(job, { key: 'feature' })].map(describeItem)

    expect(names).toEqual(['item i1 of queue q', 'item feature (i1) of queue q'])
  })

  test('is that of a task, with its status, in the queue of tasks', () => {
    const tasks = [newItem(job, { queue: 'tasks' }), newItem(job, { queue: 'tasks', key: 'T-1' })]

    expect(tasks.map(describeItem)).toEqual(['task i1', 'task T-1'])
    expect(tasks.map((task) => describeState(task, 'in_progress'))).toEqual(['In Progress', 'In Progress'])
    expect(describeState(newItem(job), 'in_progress')).toBe('in_progress')
  })
})

describe('claiming', () => {
  test('makes the caller the holder for its lease, and counts the attempt', () => {
    const claimed = claimItem(newItem(job), job, ada, later(10))

    expect(claimed).toMatchObject({
      state: 'running',
      previousState: 'pending',
      phase: 'held',
      agent: 'ada',
      instance: 'ada-1',
      token: (at.now + 10) * 1000,
      expiresAt: at.now + 10 + ada.leaseMs,
      attempts: 1,
      startedAt: at.wall + 10,
      stateChangedAt: at.wall + 10,
      version: 2,
    })
  })

  test('gives a larger token than any claim before, even if the clock stands still [Z7]', () => {
    const first = claimItem(newItem(job), job, ada, at)
    const released = releaseItem(first, job, at)

    const second = claimItem(released, job, ada, at)

    expect(second.token).toBeGreaterThan(first.token)
  })

  test('never makes an item look started after its last change, even if the wall clock was set back', () => {
    const claimed = claimItem(newItem(job), job, ada, { now: at.now, wall: at.wall - 3_600_000 })

    expect(claimed.startedAt).toBeLessThanOrEqual(claimed.stateChangedAt)
    expect(claimed.stateChangedAt).toBe(at.wall)
  })

  test.each([
    ['blocked', { waitingFor: ['b'] }],
    ['not yet due', { runAt: at.wall + 1 }],
    ['quarantined', { quarantinedAt: at.wall }],
  ])('is refused for an item that is %s [Q12] [Z4]', (_, fields) => {
    const item = itemIn(job, 'pending', fields)

    const refusal = refusalOf(() => claimItem(item, job, ada, at))

    expect(item.phase).toBe('waiting')
    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'pending', to: 'claimed' } })
  })

  test.each(statesWhere((_, name, { initial }) => name !== initial))(
    '%s: is refused from %s',
    (name, state) => {
      const workflow = workflowNamed(name)

      const refusal = refusalOf(() => claimItem(itemIn(workflow, state), workflow, ada, at))

      expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: state } })
    },
  )

  test('is refused for a damaged row that is ready in a state that cannot be claimed', () => {
    const damaged = itemIn(job, 'cancelled', { phase: 'ready' })

    expect(refusalOf(() => claimItem(damaged, job, ada, at)).code).toBe('ILLEGAL_MOVE')
  })
})

describe('acting as the holder', () => {
  const running = itemIn(job, 'running')

  test('is allowed under the current token, and marked late after the lapse', () => {
    const inTime = assertHolds(running, { agent: 'ada', token: running.token }, at.now + ada.leaseMs)
    const late = assertHolds(running, { agent: 'ada', token: running.token }, at.now + ada.leaseMs + 1)

    expect([inTime, late]).toEqual([{ late: false }, { late: true }])
  })

  test('is refused to a former holder once a successor has the item [Q18] [Z7]', () => {
    const successor = { ...running, token: running.token + 1, agent: 'bob' }

    const refusal = refusalOf(() => assertHolds(successor, { agent: 'ada', token: running.token }, at.now))

    expect(refusal).toMatchObject({
      code: 'LEASE_LOST',
      facts: { token: running.token, currentToken: running.token + 1, holder: 'bob' },
    })
  })

  test('is refused once the item was reclaimed, saying where it is now [Z7]', () => {
    const reclaimed = reclaimItem(running, job, crash, at)

    const refusal = refusalOf(() => assertHolds(reclaimed, { agent: 'ada', token: running.token }, at.now))

    expect(refusal).toMatchObject({
      code: 'LEASE_LOST',
      facts: { reason: 'it is pending now', holder: null },
    })
  })

  test('is refused once the item was cancelled, saying so', () => {
    const cancelled = cancelItem(running, job, at)

    const refusal = refusalOf(() => assertHolds(cancelled, { agent: 'ada', token: running.token }, at.now))

    expect(refusal).toMatchObject({ code: 'LEASE_LOST', facts: { reason: 'it was cancelled' } })
  })

  test('is refused without a token, naming the holder', () => {
    const refusal = refusalOf(() => assertHolds(running, { agent: 'ada', token: undefined }, at.now))

    expect(refusal).toMatchObject({ code: 'HELD', facts: { holder: 'ada' } })
  })
})

describe('moving', () => {
  test('between held states keeps the lease, its token and the start', () => {
    const item = itemIn(merge, 'rebasing')

    const moved = moveItem(item, merge, 'testing', later(5))

    expect(moved).toEqual({
      ...item,
      state: 'testing',
      previousState: 'rebasing',
      stateChangedAt: at.wall + 5,
      version: item.version + 1,
    })
  })

  test('out of the held states ends the lease and keeps the token', () => {
    const item = itemIn(task, 'in_progress')

    const moved = moveItem(item, task, 'review', at)

    expect(moved).toMatchObject({
      phase: 'waiting',
      agent: null,
      instance: null,
      grantedAt: null,
      renewedAt: null,
      expiresAt: null,
      leaseMs: null,
      startedAt: null,
      token: item.token,
    })
  })

  test('to a closed state records when and how it closed, and keeps when it was started', () => {
    const moved = moveItem(itemIn(task, 'in_progress'), task, 'done', later(7))

    expect(moved).toMatchObject({
      phase: 'closed',
      outcome: 'succeeded',
      closedAt: at.wall + 7,
      startedAt: at.wall,
      agent: null,
    })
  })

  test('to an unknown state is refused, even from a closed one', () => {
    const refusal = refusalOf(() => moveItem(itemIn(job, 'done'), job, 'runing', at))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { state: 'runing' } })
  })

  test('into a held state without a claim is refused: it would have no holder', () => {
    const shortcut: Workflow = {
      ...printing,
      states: { ...printing.states, queued: { claimTo: 'inking', moves: ['drying'] } },
    }

    const refusal = refusalOf(() => moveItem(newItem(shortcut), shortcut, 'drying', at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'queued', to: 'drying' } })
  })

  test.each([
    ['closed', itemIn(job, 'done'), job, 'pending', 'done is a terminal state'],
    ['open', itemIn(merge, 'testing'), merge, 'merged', 'from testing it may go to ready_to_merge, failed_'],
    ['without moves', newItem(printing), printing, 'printed', 'claim it first'],
  ])('a refusal says where an item that is %s may go instead', (_, item, workflow, to, next) => {
    const refusal = refusalOf(() => moveItem(item, workflow, to, at))

    expect(refusal.next).toContain(next)
  })
})

describe('completing', () => {
  test.each([
    ['job', 'running', 'done'],
    ['merge', 'merging', 'merged'],
    ['task', 'in_progress', 'done'],
  ])('%s from %s succeeds with its result, and clears the last error', (name, from, to) => {
    const workflow = workflowNamed(name)
    const item = itemIn(workflow, from, { error: { message: 'first try' } })

    const completed = completeItem(item, workflow, '{"pages":3}', later(1))

    expect(completed).toMatchObject({
      state: to,
      phase: 'closed',
      outcome: 'succeeded',
      closedAt: at.wall + 1,
      result: '{"pages":3}',
      error: null,
      agent: null,
    })
  })

  test.each([
    ['job', 'pending'],
    ['job', 'done'],
    ['merge', 'testing'],
    ['merge', 'ready_to_merge'],
    ['task', 'review'],
  ])('%s from %s is refused', (name, state) => {
    const workflow = workflowNamed(name)

    const refusal = refusalOf(() => completeItem(itemIn(workflow, state), workflow, null, at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: state, to: 'completed' } })
  })

  test('is recognized by the token it was done under, and by no other [D-16]', () => {
    const running = itemIn(job, 'running')
    const done = completeItem(running, job, null, at)

    const known = [running.token, running.token - 1, undefined].map((token) => isCompletedUnder(done, token))

    expect(known).toEqual([true, false, false])
  })

  test.each(['running', 'failed', 'cancelled'])('is not recognized for an item that is %s', (state) => {
    expect(isCompletedUnder(itemIn(job, state, { token: 7 }), 7)).toBe(false)
  })
})

describe('failing', () => {
  test('a job goes back to waiting while attempts are left, and is not closed [Q19] [Z10]', () => {
    const failed = failItem(itemIn(job, 'running'), job, failure(true), at)

    expect(failed).toMatchObject({
      state: 'pending',
      phase: 'waiting',
      runAt: at.wall + 1_000,
      failures: 1,
      closedAt: null,
      outcome: null,
      agent: null,
      error: { message: 'paper jam', retryable: true },
    })
  })

  test('each further failure of a job waits longer [Q19]', () => {
    const waits = [0, 1, 2].map((failures) => {
      const item = itemIn(job, 'running', { failures, maxAttempts: 9 })
      return (failItem(item, job, failure(true), at).runAt as number) - at.wall
    })

    expect(waits).toEqual([1_000, 2_000, 4_000])
  })

  test('a job reported as not retryable fails for good at once [Q19]', () => {
    const failed = failItem(itemIn(job, 'running'), job, failure(false), at)

    expect(failed).toMatchObject({
      state: 'failed',
      outcome: 'failed',
      closedAt: at.wall,
      runAt: null,
      failures: 1,
    })
  })

  test.each(heldStatesOf(merge))(
    'a merge that may be repeated waits for a retry from %s, not closed [Z10]',
    (state) => {
      const failed = failItem(itemIn(merge, state), merge, failure(true), at)

      expect(failed).toMatchObject({
        state: 'failed_retryable',
        phase: 'waiting',
        closedAt: null,
        outcome: null,
        runAt: null,
        startedAt: null,
      })
    },
  )

  test.each(heldStatesOf(merge))('a merge that may not be repeated is failed from %s [Q19]', (state) => {
    const failed = failItem(itemIn(merge, state), merge, failure(false), at)

    expect(failed).toMatchObject({ state: 'failed_terminal', outcome: 'failed', closedAt: at.wall })
  })

  test.each([
    ['job', 'running', 'failed'],
    ['merge', 'testing', 'failed_terminal'],
  ])('the last failure allowed ends %s from %s in %s, even if retryable [Q19]', (name, state, to) => {
    const workflow = workflowNamed(name)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), (maxAttempts) => {
        const beforeLast = itemIn(workflow, state, { maxAttempts, failures: maxAttempts - 2 })
        const last = itemIn(workflow, state, { maxAttempts, failures: maxAttempts - 1 })

        const ends = [beforeLast, last].map(
          (item) => failItem(item, workflow, failure(true), at).state === to,
        )

        expect(ends).toEqual([false, true])
      }),
    )
  })

  test('the text of an error decides nothing [Q19] [Z13]', () => {
    const aText = fc.oneof(
      fc.string(),
      fc.constantFrom('timeout', 'fatal: conflict', 'SQLITE_BUSY', 'retry me'),
    )
    fc.assert(
      fc.property(aText, fc.boolean(), (message, retryable) => {
        const item = itemIn(merge, 'testing')

        const { error, ...rest } = failItem(item, merge, failure(retryable, message), at)
        const { error: _, ...plain } = failItem(item, merge, failure(retryable), at)

        expect(rest).toEqual(plain)
        expect(error).toEqual({ message, retryable })
      }),
    )
  })

  test('a task goes back to todo', () => {
    const failed = failItem(itemIn(task, 'in_progress'), task, failure(true), at)

    expect(failed).toMatchObject({ state: 'todo', phase: 'waiting', runAt: at.wall + 1_000 })
  })

  test.each([
    ['the last attempt allowed', 2, true],
    ['a failure not worth repeating', 0, false],
  ])('a task also waits before it can be claimed again after %s', (_, failures, retryable) => {
    const failed = failItem(itemIn(task, 'in_progress', { failures }), task, failure(retryable), at)

    expect(failed).toMatchObject({ state: 'todo', phase: 'waiting', failures: failures + 1 })
    expect(failed.runAt).toBeGreaterThan(at.wall)
  })

  test('without a separate state for it, a retryable failure leads where any failure leads', () => {
    const failed = failItem(itemIn(printing, 'inking'), printing, failure(true), at)

    expect(failed).toMatchObject({ state: 'smudged', outcome: 'failed', runAt: null })
  })

  test.each([
    ['job', 'pending'],
    ['merge', 'merged'],
    ['task', 'review'],
    ['printing', 'drying'],
  ])('%s from %s is refused', (name, state) => {
    const workflow = workflowNamed(name)

    const refusal = refusalOf(() => failItem(itemIn(workflow, state), workflow, failure(true), at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: state, to: 'failed' } })
  })
})

describe('releasing', () => {
  test.each(everyHeldState)(
    '%s: %s goes back into line, without a failure or a crash [Z9]',
    (name, state) => {
      const workflow = workflowNamed(name)
      const item = itemIn(workflow, state, { failures: 1, crashes: 2 })

      const released = releaseItem(item, workflow, at)

      expect(released).toMatchObject({
        state: workflow.initial,
        phase: 'ready',
        agent: null,
        startedAt: null,
        failures: 1,
        crashes: 2,
        quarantinedAt: null,
      })
    },
  )

  test('an item that nobody holds is refused', () => {
    const refusal = refusalOf(() => releaseItem(itemIn(merge, 'failed_retryable'), merge, at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'failed_retryable' } })
  })
})

describe('retrying', () => {
  test('a failed job reopens it with its failures reset [Q20] [C-04]', () => {
    const item = itemIn(job, 'failed', { failures: 3, error: { message: 'x' }, startedAt: at.wall })

    const retried = retryItem(item, job, later(9))

    expect(retried).toMatchObject({
      state: 'pending',
      phase: 'ready',
      failures: 0,
      error: null,
      runAt: null,
      startedAt: null,
      closedAt: null,
      outcome: null,
    })
  })

  test('a failed merge reopens it with its failures still counted [Q20]', () => {
    const item = itemIn(merge, 'failed_retryable', { failures: 2, error: { message: 'x' } })

    expect(retryItem(item, merge, at)).toMatchObject({
      state: 'pending',
      phase: 'ready',
      failures: 2,
      error: null,
    })
  })

  test('a merge that used up its attempts is refused as exhausted, with both numbers [C-12]', () => {
    const item = itemIn(merge, 'failed_terminal', { failures: 3 })

    const refusal = refusalOf(() => retryItem(item, merge, at))

    expect(refusal).toMatchObject({ code: 'ATTEMPTS_EXHAUSTED', facts: { failures: 3, maxAttempts: 3 } })
  })

  test('a merge that failed for good with attempts left is refused as not retryable [C-07]', () => {
    const item = itemIn(merge, 'failed_terminal', { failures: 2 })

    const refusal = refusalOf(() => retryItem(item, merge, at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'failed_terminal', to: 'pending' } })
    expect(refusal.next).toContain('only failed_retryable can be retried')
  })

  test.each([
    ['job', 'pending'],
    ['job', 'running'],
    ['job', 'done'],
    ['job', 'cancelled'],
    ['merge', 'pending'],
    ['merge', 'merging'],
    ['merge', 'merged'],
    ['merge', 'cancelled'],
    ['task', 'done'],
  ])('%s from %s is refused, even if failures were counted [Q20]', (name, state) => {
    const workflow = workflowNamed(name)
    const item = itemIn(workflow, state, { failures: 2 })

    const refusal = refusalOf(() => retryItem(item, workflow, at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: state, to: workflow.initial } })
  })

  test('under a workflow without retries says that nothing can be retried', () => {
    const refusal = refusalOf(() => retryItem(itemIn(task, 'done'), task, at))

    expect(refusal.next).toContain('only nothing in this workflow can be retried')
  })
})

describe('cancelling', () => {
  test.each([
    ['job', 'pending'],
    ['merge', 'pending'],
    ['merge', 'failed_retryable'],
  ])('%s from %s closes it as failed, with no holder to notify [C-05]', (name, state) => {
    const workflow = workflowNamed(name)

    const cancelled = cancelItem(itemIn(workflow, state), workflow, at)

    expect(cancelled).toMatchObject({
      state: 'cancelled',
      outcome: 'failed',
      closedAt: at.wall,
      cancelRequestedAt: null,
    })
  })

  test.each([
    ['job', 'running'],
    ['merge', 'claimed'],
    ['merge', 'rebasing'],
    ['merge', 'testing'],
    ['merge', 'ready_to_merge'],
  ])('%s from %s ends the lease of its holder, and says since when [Q20]', (name, state) => {
    const workflow = workflowNamed(name)

    const cancelled = cancelItem(itemIn(workflow, state), workflow, later(4))

    expect(cancelled).toMatchObject({
      state: 'cancelled',
      phase: 'closed',
      agent: null,
      expiresAt: null,
      cancelRequestedAt: at.wall + 4,
    })
  })

  test.each([
    ['merge', 'merging'],
    ['merge', 'merged'],
    ['merge', 'failed_terminal'],
    ['merge', 'cancelled'],
    ['job', 'done'],
    ['job', 'failed'],
  ])('%s from %s is refused [C-06]', (name, state) => {
    const workflow = workflowNamed(name)

    const refusal = refusalOf(() => cancelItem(itemIn(workflow, state), workflow, at))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: state, to: 'cancelled' } })
  })

  test('reports a merged item as terminal [C-06]', () => {
    const refusal = refusalOf(() => cancelItem(itemIn(merge, 'merged'), merge, at))

    expect(refusal.next).toContain('terminal state')
  })

  test('is refused under a workflow without cancelling, with what to do instead [S5c-48]', () => {
    const refusal = refusalOf(() => cancelItem(itemIn(task, 'todo'), task, at))

    expect(refusal.next).toContain('remove it instead')
    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'todo', to: 'cancelled' } })
  })
})

describe('reclaiming from a lost holder', () => {
  test.each(everyHeldState)(
    '%s: %s keeps everything but the holder and its times [Q15] [HP-011]',
    (name, state) => {
      const workflow = workflowNamed(name)
      const kept = {
        id: 'i9',
        key: 'feature',
        dedupeKey: 'w:feature',
        priority: 1,
        parent: 'p',
        ancestors: ['p'],
        blockers: ['p'],
        payload: '{"pages":3}',
        data: { bead: 'b-7', headSha: 'head1', journal: ['pushed'] },
        progress: { page: 2 },
        submittedBy: 'eve',
        addedAt: at.wall - 5,
        attempts: 4,
        failures: 1,
        maxAttempts: 7,
      }
      const item = itemIn(workflow, state, kept)

      const reclaimed = reclaimItem(item, workflow, crash, later(3))

      expect(reclaimed).toEqual({
        ...item,
        state: workflow.initial,
        previousState: state,
        phase: 'ready',
        agent: null,
        instance: null,
        grantedAt: null,
        renewedAt: null,
        expiresAt: null,
        leaseMs: null,
        startedAt: null,
        crashes: 1,
        progressAtLoss: { page: 2 },
        stateChangedAt: at.wall + 3,
        version: item.version + 1,
      })
    },
  )

  test('an item lost while merging brings its journal to the next worker [Q14]', () => {
    const item = itemIn(merge, 'merging', { data: { journal: ['pushed head1'] } })

    const reclaimed = reclaimItem(item, merge, crash, at)

    expect(reclaimed).toMatchObject({
      state: 'pending',
      previousState: 'merging',
      data: { journal: ['pushed head1'] },
    })
  })

  test('the crash that reaches the limit quarantines, with count and evidence [Q17]', () => {
    const reclaimed = reclaimItem(itemIn(job, 'running', { crashes: 2 }), job, crash, at)

    expect(reclaimed).toMatchObject({
      phase: 'waiting',
      crashes: 3,
      quarantinedAt: at.wall,
      quarantineReason: 'lost 3 holders without progress; the last: its process 42 is gone',
    })
  })

  test("an operator's reclaim counts no crash and quarantines nothing, even at the limit [Q17]", () => {
    const item = itemIn(job, 'running', { crashes: 3 })

    const reclaimed = reclaimItem(item, job, { ...crash, blame: 'none' }, at)

    expect(reclaimed).toMatchObject({ phase: 'ready', crashes: 3, quarantinedAt: null })
  })

  test('a limit of 0 never quarantines [Q17]', () => {
    const item = itemIn(job, 'running', { crashes: 99 })

    expect(reclaimItem(item, job, { ...crash, maxCrashes: 0 }, at)).toMatchObject({
      crashes: 100,
      quarantinedAt: null,
    })
  })

  test('an item that cannot be held is refused', () => {
    expect(refusalOf(() => reclaimItem(itemIn(job, 'done'), job, crash, at)).code).toBe('ILLEGAL_MOVE')
  })

  test('with any limit, an item is quarantined at exactly that many crashes in a row', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), (maxCrashes) => {
        let item = newItem(job)
        let crashes = 0
        while (item.quarantinedAt === null) {
          const due = item.runAt === null ? item : promoteItem(item, job)
          item = reclaimItem(claimItem(due, job, ada, at), job, { ...crash, maxCrashes }, at)
          crashes += 1
        }

        expect(crashes).toBe(maxCrashes)
      }),
    )
  })
})

describe('quarantine', () => {
  test('ends with the item ready and its crashes forgotten [Q17]', () => {
    const item = itemIn(job, 'pending', { crashes: 3, quarantinedAt: at.wall, quarantineReason: 'crashed' })

    const released = releaseItemFromQuarantine(item, job, at)

    expect(released).toEqual({
      ...item,
      phase: 'ready',
      crashes: 0,
      quarantinedAt: null,
      quarantineReason: null,
      version: item.version + 1,
    })
  })

  test('cannot end for an item that is not in it', () => {
    expect(refusalOf(() => releaseItemFromQuarantine(newItem(job), job, at)).code).toBe('INVALID')
  })

  test('ends in the first state for an item in an unknown state', () => {
    const aside = quarantineItem({ ...itemIn(job, 'running'), state: 'dreaming' }, 'unknown state', at)

    const released = releaseItemFromQuarantine(aside, job, at)

    expect(released).toMatchObject({ state: 'pending', phase: 'ready', quarantinedAt: null })
  })

  test('ends in line for an item quarantined while held, not in a held state without a holder [Q1]', () => {
    const aside = quarantineItem(itemIn(job, 'running'), 'its workflow was unknown', at)

    const released = releaseItemFromQuarantine(aside, job, at)

    expect(released).toMatchObject({ state: 'pending', phase: 'ready', agent: null, startedAt: null })
  })

  test('of an item that also waits for something leaves it waiting', () => {
    const item = itemIn(job, 'pending', { quarantinedAt: at.wall, waitingFor: ['b'] })

    expect(releaseItemFromQuarantine(item, job, at).phase).toBe('waiting')
  })
})

describe('small changes', () => {
  test('progress is kept and clears the crashes, one version later [Q17]', () => {
    const item = itemIn(job, 'running', { crashes: 2 })

    const progressed = recordProgress(item, { page: 3 })

    expect(progressed).toEqual({
      ...item,
      progress: { page: 3 },
      crashes: 0,
      crashResets: 1,
      version: item.version + 1,
    })
  })

  test('a new priority is a change, and the same one is not', () => {
    const item = newItem(job)

    expect(setItemPriority(item, 0)).toEqual({ ...item, priority: 0, version: 2 })
    expect(setItemPriority(item, 5)).toBeNull()
  })

  test('an item whose time has come is ready', () => {
    const promoted = promoteItem(newItem(job, { runAt: at.wall + 9 }), job)

    expect(promoted).toMatchObject({ runAt: null, phase: 'ready', version: 2 })
  })

  test('an item whose time has come but whose blocker is open still waits', () => {
    const item = newItem(job, { runAt: at.wall + 9, blockers: [itemIn(job, 'pending', { id: 'b' })] })

    expect(promoteItem(item, job)).toMatchObject({ runAt: null, phase: 'waiting' })
  })

  test('an item is ready once the last of its blockers has succeeded [Q22]', () => {
    const item = itemIn(job, 'pending', { blockers: ['a', 'b'], waitingFor: ['a', 'b'] })

    const half = unblockItem(item, job, 'a')
    const free = half && unblockItem(half, job, 'b')

    expect(half).toMatchObject({ waitingFor: ['b'], phase: 'waiting' })
    expect(free).toMatchObject({ waitingFor: [], phase: 'ready', blockers: ['a', 'b'] })
  })

  test('a blocker it never waited for changes nothing', () => {
    expect(unblockItem(itemIn(job, 'pending', { waitingFor: ['a'] }), job, 'b')).toBeNull()
  })

  test('is shown without the blockers that are done, under the version of its row [S5e-11]', () => {
    const item = itemIn(job, 'pending', { blockers: ['a', 'b'], waitingFor: ['a', 'b'], version: 4 })

    const half = withoutClosedBlockers(item, job, ['b', 'c'])
    const free = withoutClosedBlockers(item, job, ['a', 'b'])

    expect(half).toEqual({ ...item, waitingFor: ['a'] })
    expect(free).toEqual({ ...item, waitingFor: [], phase: 'ready' })
    expect(withoutClosedBlockers(item, job, ['c'])).toBe(item)
  })
})

// What the store would ask of an item, in any order. An act that is refused leaves the item as it is.
type Act = (item: Item, workflow: Workflow, at: Clocks) => Item | null

const anAct: fc.Arbitrary<Act> = fc.oneof(
  fc.constant<Act>((item, workflow, moment) => claimItem(item, workflow, ada, moment)),
  fc.nat().map<Act>((pick) => (item, workflow, moment) => {
    const states = statesOf(workflow)
    return moveItem(item, workflow, states[pick % states.length] as string, moment)
  }),
  fc.constant<Act>((item, workflow, moment) => completeItem(item, workflow, '1', moment)),
  fc
    .boolean()
    .map<Act>(
      (retryable) => (item, workflow, moment) => failItem(item, workflow, failure(retryable), moment),
    ),
  fc.constant<Act>((item, workflow, moment) => releaseItem(item, workflow, moment)),
  fc.constant<Act>((item, workflow, moment) => retryItem(item, workflow, moment)),
  fc.constant<Act>((item, workflow, moment) => cancelItem(item, workflow, moment)),
  fc
    .constantFrom<Blame>('own', 'exposed', 'none')
    .map<Act>(
      (blame) => (item, workflow, moment) => reclaimItem(item, workflow, { ...crash, blame }, moment),
    ),
  fc.constant<Act>((item, workflow) => releaseItemFromQuarantine(item, workflow, at)),
  fc.constant<Act>((item, workflow) => (item.runAt === null ? null : promoteItem(item, workflow))),
  fc.constant<Act>((item, workflow) => unblockItem(item, workflow, 'b')),
  fc.constant<Act>((item) => (item.phase === 'held' ? recordProgress(item, { page: 1 }) : null)),
)
const aHistory = fc.array(fc.tuple(anAct, fc.integer({ min: -50, max: 100 })), { maxLength: 40 })
const aWorkflow = fc.constantFrom(job, merge, task, printing)
const aBeginning = fc.record({ runAt: fc.constantFrom(null, at.wall + 50), isBlocked: fc.boolean() })

/** The item after each step of a history. The clocks go back as well as forward. */
function live(start: Item, workflow: Workflow, history: readonly (readonly [Act, number])[]): Item[] {
  const lives = [start]
  let moment = at
  for (const [act, passedMs] of history) {
    const item = lives.at(-1) as Item
    moment = { now: moment.now + passedMs, wall: moment.wall + passedMs }
    lives.push(Object.freeze(actOrLeave(() => act(item, workflow, moment) ?? item, item)))
  }
  return lives
}

function actOrLeave(act: () => Item, item: Item): Item {
  try {
    return act()
  } catch (error) {
    if (isHoldfastError(error)) return item
    throw error
  }
}

function begin(workflow: Workflow, { runAt, isBlocked }: { runAt: number | null; isBlocked: boolean }): Item {
  return newItem(workflow, { runAt, blockers: isBlocked ? [itemIn(job, 'pending', { id: 'b' })] : [] })
}

describe('any history of an item', () => {
  test('keeps every field of the row consistent with its state [Q1]', () => {
    fc.assert(
      fc.property(aWorkflow, aBeginning, aHistory, (workflow, beginning, history) => {
        for (const item of live(begin(workflow, beginning), workflow, history)) {
          const isHeld = item.phase === 'held'
          expect([item.agent, item.expiresAt, item.grantedAt].map((fact) => fact !== null)).toEqual([
            isHeld,
            isHeld,
            isHeld,
          ])
          if (isHeld) expect(item.startedAt).not.toBeNull()
          if (!isHeld && item.phase !== 'closed') expect(item.startedAt).toBeNull()
          expect(item.startedAt ?? 0).toBeLessThanOrEqual(item.stateChangedAt)
          expect(item.outcome !== null).toBe(item.phase === 'closed')
          expect(item.closedAt !== null).toBe(item.phase === 'closed')
          if (item.phase !== 'waiting') expect(item.runAt).toBeNull()
        }
      }),
    )
  })

  test('raises the version by one with each change and never lowers a token or a time', () => {
    fc.assert(
      fc.property(aWorkflow, aBeginning, aHistory, (workflow, beginning, history) => {
        const lives = live(begin(workflow, beginning), workflow, history)
        for (const [index, item] of lives.slice(1).entries()) {
          const before = lives[index] as Item
          expect(item.version).toBe(before.version + (item === before ? 0 : 1))
          expect(item.token).toBeGreaterThanOrEqual(before.token)
          expect(item.stateChangedAt).toBeGreaterThanOrEqual(before.stateChangedAt)
        }
      }),
    )
  })

  test('gives every claim a token above those of all claims before', () => {
    fc.assert(
      fc.property(aWorkflow, aHistory, (workflow, history) => {
        const lives = live(newItem(workflow), workflow, history)
        const claims = lives.filter((item, index) => item.attempts > (lives[index - 1]?.attempts ?? 0))

        const tokens = claims.map(({ token }) => token)

        expect(tokens).toEqual([...new Set(tokens)].sort((left, right) => left - right))
      }),
    )
  })

  test('keeps identity, key, payload and data as they were given', () => {
    fc.assert(
      fc.property(aWorkflow, aHistory, (workflow, history) => {
        const given = {
          id: 'i9',
          key: 'k',
          dedupeKey: 'd',
          priority: 2,
          payload: '[]',
          data: { bead: 'b-7' },
        }

        const last = live(newItem(workflow, given), workflow, history).at(-1)

        expect(last).toMatchObject({ ...given, queue: 'q', workflow: workflow.name, addedAt: at.wall })
      }),
    )
  })

  test('only ever stores states that its workflow knows [E-18]', () => {
    fc.assert(
      fc.property(aWorkflow, aHistory, (workflow, history) => {
        const lives = live(newItem(workflow), workflow, history)

        const unknown = lives.filter(({ state }) => !statesOf(workflow).includes(state))

        expect(unknown).toEqual([])
      }),
    )
  })

  test('gives the same result each time it is replayed [E-12]', () => {
    fc.assert(
      fc.property(aWorkflow, aBeginning, aHistory, (workflow, beginning, history) => {
        const once = live(begin(workflow, beginning), workflow, history)
        const again = live(begin(workflow, beginning), workflow, history)

        expect(again).toEqual(once)
      }),
    )
  })

  test.each([
    ['never changes what is merged [E-08]', 'merged'],
    ['never changes what failed for good [E-09]', 'failed_terminal'],
    ['never changes what is cancelled [E-10]', 'cancelled'],
  ])('%s', (_, state) => {
    fc.assert(
      fc.property(fc.nat(4), aHistory, (failures, history) => {
        const item = itemIn(merge, state, { failures })

        const last = live(item, merge, history).at(-1)

        expect(last).toBe(item)
      }),
    )
  })
})

test('the position of a closed item cannot be changed [E-08]', () => {
  const refusal = refusalOf(() => setItemPriority(itemIn(job, 'done'), 1))

  expect(refusal.code).toBe('ILLEGAL_MOVE')
})

describe('edge cases of an item', () => {
  test('two items cannot be told to wait for each other [Q22]', () => {
    const waiting = itemIn(merge, 'pending', { id: 'i2', blockers: ['i1'], waitingFor: ['i1'] })

    const refusal = refusalOf(() =>
      newItem(merge, { id: 'i1', blockers: [waiting], around: { dependents: ['i2'], awaited: ['i2'] } }),
    )

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { blocker: 'i2' } })
  })

  test('an item cannot wait for one that waits for it through others [Q22]', () => {
    const z = itemIn(task, 'todo', { id: 'z', waitingFor: ['y'] })

    const refusal = refusalOf(() =>
      setItemBlockers(itemIn(task, 'todo', { id: 'x' }), task, {
        blockers: [z],
        dependents: ['y', 'z'],
        awaited: ['z', 'y', 'x'],
      }),
    )

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { item: 'x', blocker: 'z' } })
  })

  test('the walk over what an item is to wait for begins with its stack and its blockers [S5e-11]', () => {
    const parent = itemIn(merge, 'pending', { id: 'p', ancestors: ['root'] })
    const item = itemIn(merge, 'pending', { ancestors: ['old'] })
    const blockers = [itemIn(merge, 'pending', { id: 'b' })]

    expect(awaitedFirst({ parent, blockers }, item)).toEqual(['root', 'p', 'b'])
    expect(awaitedFirst({ blockers }, item)).toEqual(['old', 'b'])
    expect(awaitedFirst({ parent: null }, item)).toEqual([])
    expect(awaitedFirst({ blockers })).toEqual(['b'])
  })

  test('a cycle is found from whichever side was walked to its end [S5e-11]', () => {
    const many = Array.from({ length: maxWalked }, (_, number) => `m${number}`)
    const blockers = [itemIn(task, 'todo', { id: 'z' })]
    const x = itemIn(task, 'todo', { id: 'x' })
    const around = (dependents: readonly string[], awaited: readonly string[]) => ({
      blockers,
      dependents,
      awaited,
    })

    const seenUpwards = refusalOf(() => setItemBlockers(x, task, around(many, ['z', 'x'])))
    const seenDownwards = refusalOf(() => setItemBlockers(x, task, around(['y', 'z'], many)))

    expect(seenUpwards).toMatchObject({ code: 'INVALID', facts: { item: 'x', blocker: null } })
    expect(seenDownwards).toMatchObject({ code: 'INVALID', facts: { item: 'x', blocker: 'z' } })
    expect(setItemBlockers(x, task, around(many, ['z'])).waitingFor).toEqual(['z'])
    expect(setItemBlockers(x, task, around(['y'], many)).waitingFor).toEqual(['z'])
    // Neither side says that there is no circle.
    expect(refusalOf(() => setItemBlockers(x, task, around(many, many)))).toMatchObject({
      code: 'INVALID',
      facts: { maxWalked },
    })
  })

  test('new blockers make a free item wait until they succeed, and removing them all frees it', () => {
    const done = itemIn(task, 'done', { id: 'd' })
    const open = itemIn(task, 'todo', { id: 'o' })

    const waiting = setItemBlockers(itemIn(task, 'todo'), task, {
      blockers: [done, open],
      dependents: [],
      awaited: ['d', 'o'],
    })
    const free = setItemBlockers(waiting, task, { blockers: [], dependents: [], awaited: [] })

    expect(waiting).toMatchObject({
      blockers: ['d', 'o'],
      waitingFor: ['o'],
      phase: 'waiting',
      version: 2,
    })
    expect(free).toMatchObject({ blockers: [], waitingFor: [], phase: 'ready', version: 3 })
  })

  test('a closed item gets no new blockers', () => {
    const refusal = refusalOf(() =>
      setItemBlockers(itemIn(task, 'done'), task, { blockers: [], dependents: [], awaited: [] }),
    )

    expect(refusal.code).toBe('ILLEGAL_MOVE')
  })

  test('a closed item waits for nothing, unless it can be retried [Q22]', () => {
    const revocable: Workflow = {
      ...job,
      states: { ...job.states, cancelled: { closed: 'failed', moves: [], retryTo: 'pending' } },
    }
    const waiting = itemIn(job, 'pending', { waitingFor: ['b'] })

    const cancelled = cancelItem(waiting, job, at)
    const revoked = cancelItem(waiting, revocable, at)

    expect(cancelled).toMatchObject({ phase: 'closed', waitingFor: [] })
    expect(revoked).toMatchObject({ phase: 'closed', waitingFor: ['b'] })
    expect(retryItem(revoked, revocable, at)).toMatchObject({ phase: 'waiting', waitingFor: ['b'] })
  })

  test('a task in review goes back to work only on request [T2]', () => {
    const review = itemIn(task, 'review')

    const claimed = claimItemByName(review, task, ada, at)
    const refusal = refusalOf(() => claimItem(review, task, ada, at))

    expect(review.phase).toBe('waiting')
    expect(claimed).toMatchObject({ state: 'in_progress', phase: 'held', agent: 'ada', attempts: 1 })
    expect(refusal.code).toBe('ILLEGAL_MOVE')
  })

  test.each<[string, Partial<Item>]>([
    ['delayed', { runAt: at.wall + 1 }],
    ['waiting for another', { waitingFor: ['b'] }],
    ['quarantined', { quarantinedAt: at.wall }],
  ])('a task in review that is %s cannot be claimed by name either [T2]', (_, fields) => {
    const refusal = refusalOf(() => claimItemByName(itemIn(task, 'review', fields), task, ada, at))

    expect(refusal.code).toBe('ILLEGAL_MOVE')
  })

  test('a ready item is claimed by name as it is claimed as the next one', () => {
    expect(claimItemByName(itemIn(task, 'todo'), task, ada, at)).toEqual(
      claimItem(itemIn(task, 'todo'), task, ada, at),
    )
  })

  test('a damaged row quarantined in a closed state is released as fully closed [Q1]', () => {
    const damaged = { ...itemIn(job, 'running'), state: 'done' }
    const aside = quarantineItem(damaged, 'not a held state', at)

    const released = releaseItemFromQuarantine(aside, job, at)

    const isClosed = released.phase === 'closed'
    expect([released.outcome !== null, released.closedAt !== null]).toEqual([isClosed, isClosed])
  })
})

test('the machine of a manual claim is kept while it is held, that of a bound one is its instance [S5c-45]', () => {
  const holder = { ...ada, holderHost: 'workshop' }
  const byHand = claimItem(newItem(job), job, { ...holder, instance: null }, at)
  const unknown = claimItem(newItem(job), job, { ...ada, instance: null }, at)
  const bound = claimItem(newItem(job), job, holder, at)

  const free = releaseItem(byHand, job, at)

  expect([byHand, unknown, bound, free].map(({ holderHost }) => holderHost)).toEqual([
    'workshop',
    null,
    null,
    null,
  ])
})

test.each([
  [[], null],
  [['b'], 'b waits for it'],
  [['b', 'c'], 'b, c wait for it'],
])('an item for which %j wait may be removed or not', (ids, words) => {
  const remove = () =>
    assertUnneeded(
      newItem(job),
      ids.map((id) => ({ id })),
      'remove those first',
    )

  if (words === null) expect(remove).not.toThrow()
  else expect(refusalOf(remove)).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { waiting: ids } })
  if (words !== null) expect(refusalOf(remove).what).toContain(words)
})
