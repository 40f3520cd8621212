/** What another program left, as it arrives: in its state, lapsed where it was held, with times that fit here. */
import { describe, expect, test } from 'vitest'
import {
  type ArrivingItem,
  type ArrivingLock,
  type ArrivingRun,
  arriveItem,
  arriveLock,
  arriveRun,
} from '../../src/domain/arrival.ts'
import { isExpired } from '../../src/domain/lease.ts'
import { recoverItem, recoverLock } from '../../src/domain/recovery.ts'
import { at, itemIn, merge, statesWhere, task, workflowNamed } from './samples.ts'

function arriving(fields: Partial<ArrivingItem> = {}): ArrivingItem {
  return {
    id: 'i1',
    queue: 'q',
    key: 'k',
    state: 'pending',
    holder: null,
    keptBack: null,
    attempts: 2,
    failures: 1,
    maxAttempts: 5,
    addedAt: at.wall - 1000,
    startedAt: null,
    error: { message: 'it broke' },
    result: '1',
    submittedBy: 'eve',
    payload: '{}',
    data: { bead: 'bd-1' },
    ...fields,
  }
}

describe('an item', () => {
  test('is imported in line with its counts, its age and its texts', () => {
    const item = arriveItem(arriving(), merge, at)

    expect(item).toMatchObject({
      state: 'pending',
      phase: 'ready',
      attempts: 2,
      failures: 1,
      maxAttempts: 5,
      addedAt: at.wall - 1000,
      startedAt: null,
      error: { message: 'it broke' },
      result: '1',
      data: { bead: 'bd-1' },
      version: 1,
    })
  })

  test.each(statesWhere(({ held }) => held === true))(
    'of workflow %s that was held in %s arrives lapsed, and recovery gives it back',
    (name, state) => {
      const workflow = workflowNamed(name)

      const item = arriveItem(arriving({ state, holder: 'ada', tokenFloor: 7e15 }), workflow, at)

      expect(item).toMatchObject({
        phase: 'held',
        agent: 'ada',
        instance: null,
        startedAt: at.wall - 1000,
      })
      expect(item.token).toBeGreaterThan(7e15)
      expect(isExpired(item, at.now)).toBe(true)
      const given = recoverItem(item, { workflow, maxCrashes: 3, held: null }, new Map(), at)
      expect(given?.after).toMatchObject({ phase: 'ready', agent: null, crashes: 1 })
    },
  )

  test('keeps when its work began, but not a time in the future', () => {
    const begun = arriveItem(arriving({ state: 'testing', holder: 'ada', startedAt: 500 }), merge, at)
    const ahead = { startedAt: at.wall + 9, addedAt: at.wall + 5 }
    const early = arriveItem(arriving({ state: 'testing', holder: 'ada', ...ahead }), merge, at)

    expect(begun.startedAt).toBe(500)
    expect(early).toMatchObject({ startedAt: at.wall, addedAt: at.wall })
  })

  test('with an unknown holder is imported as released', () => {
    const item = arriveItem(arriving({ state: 'in_progress', holder: null }), task, at)

    expect(item).toMatchObject({ state: 'todo', phase: 'ready', agent: null, startedAt: null })
  })

  test.each([
    ['merged', 'succeeded', 1000],
    ['failed_terminal', 'failed', null],
  ])('that was %s is imported as closed %s, at the time of the import', (state, outcome, startedAt) => {
    const blocker = itemIn(merge, 'pending', { id: 'other' })
    const fields = { state, startedAt, blockers: [blocker], runAt: at.wall + 1, keptBack: 'no' }
    const item = arriveItem(arriving(fields), merge, at)

    expect(item).toMatchObject({
      phase: 'closed',
      outcome,
      closedAt: at.wall,
      startedAt,
      blockers: ['other'],
      waitingFor: [],
      runAt: null,
      quarantinedAt: null,
      quarantineReason: null,
    })
  })

  test('that waits, or needs a look before it is claimed, is not in line', () => {
    const blocker = itemIn(merge, 'pending', { id: 'other' })
    const waiting = arriveItem(arriving({ blockers: [blocker], runAt: at.wall + 1 }), merge, at)
    const kept = arriveItem(arriving({ keptBack: 'deferred there' }), merge, at)

    expect(waiting).toMatchObject({ phase: 'waiting', waitingFor: ['other'], runAt: at.wall + 1 })
    expect(kept).toMatchObject({
      phase: 'waiting',
      quarantinedAt: at.wall,
      quarantineReason: 'deferred there',
    })
  })
})

describe('a lock', () => {
  const old: ArrivingLock = {
    name: 'global',
    holder: 'ada',
    user: 'carol',
    run: 'spring',
    reason: 'evaluating',
    slots: 1,
    acquiredAt: 500,
  }

  test('is imported as lapsed, above all former tokens, and is freed', () => {
    const lock = arriveLock(old, [], { ...at, floor: 8e15 })

    expect(lock).toMatchObject({
      name: 'global',
      slot: 0,
      agent: 'ada',
      user: 'carol',
      run: 'spring',
      acquiredAt: 500,
    })
    expect(lock?.token).toBeGreaterThan(8e15)
    expect(lock && recoverLock(lock, new Map(), at.now)?.after).toBeNull()
  })

  test('without a time counts as taken now', () => {
    expect(arriveLock({ ...old, acquiredAt: null }, [], { ...at, floor: 0 })?.acquiredAt).toBe(at.wall)
  })

  test('that is held here is not imported', () => {
    const [held] = [arriveLock(old, [], { ...at, floor: 0 })]

    expect(arriveLock(old, held ? [held] : [], { ...at, floor: 0 })).toBeNull()
  })
})

describe('a run', () => {
  const old: ArrivingRun = {
    run: 'spring',
    lock: 'global',
    token: 7,
    status: 'running',
    total: 10,
    done: 3,
    failed: 1,
    skipped: 0,
    pauseReason: 'as it was',
    startedAt: 1000,
    updatedAt: 5000,
  }

  test.each([
    ['running', { runningSince: at.now, endedAt: null, pauseReason: null }],
    ['paused', { runningSince: null, endedAt: null, pauseReason: 'as it was' }],
    ['failed', { runningSince: null, endedAt: null, pauseReason: 'as it was' }],
    ['completed', { runningSince: null, endedAt: at.wall, pauseReason: null }],
  ] as const)('is imported as %s with its counts and duration', (status, fields) => {
    const run = arriveRun({ ...old, status }, at)

    expect(run).toMatchObject({ status, done: 3, failed: 1, activeMs: 4000, token: 7, version: 1, ...fields })
  })

  test('has no times in the future, nor an end before its beginning', () => {
    expect(arriveRun({ ...old, startedAt: at.wall + 5, updatedAt: 7 }, at)).toMatchObject({
      startedAt: at.wall,
      updatedAt: at.wall,
      activeMs: 0,
    })
  })
})
