import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  concurrencyFor,
  countOutcomes,
  failRun,
  type Outcome,
  outcomeId,
  paceOf,
  pauseRun,
  processedOf,
  type Run,
  type RunStatus,
  recordRun,
  reopenRun,
  resumeRun,
  runMoves,
  startRun,
  trimRun,
} from '../../src/domain/run.ts'
import { at, later, refusalOf } from './samples.ts'

const request = {
  run: 'r1',
  lock: 'global',
  token: 7,
  total: 10,
  cursor: null,
  completion: 'processed',
} as const

const begun = startRun(null, request, at)
const inStatus: Record<RunStatus, Run> = {
  running: begun,
  paused: pauseRun(begun, 'tea', at) as Run,
  completed: recordRun(begun, { done: 10 }, at),
  failed: failRun(begun, 'gave up', at),
}
const statuses = Object.keys(inStatus) as RunStatus[]

/** Every way to get from one status to another, by name. */
const acts: Record<string, (known: Run) => Run | null> = {
  running: (known) => resumeRun(known, { lock: 'global', token: known.token, total: undefined }, at),
  paused: (known) => (known.status === 'completed' ? reopenRun(known, 20, at) : pauseRun(known, 'x', at)),
  completed: (known) => recordRun(known, { done: 10 }, at),
  failed: (known) => failRun(known, 'x', at),
}

describe('a run', () => {
  test('begins running, with nothing done [L6]', () => {
    expect(begun).toMatchObject({
      status: 'running',
      done: 0,
      failed: 0,
      skipped: 0,
      startedAt: at.wall,
      version: 1,
    })
  })

  test('without items is completed as it starts [L7]', () => {
    expect(startRun(null, { ...request, total: 0 }, at)).toMatchObject({
      status: 'completed',
      endedAt: at.wall,
    })
  })

  test.each(statuses)('that is known and %s is resumed, not started again [L7]', (status) => {
    expect(refusalOf(() => startRun(inStatus[status], request, at)).code).toBe('ILLEGAL_MOVE')
  })

  test.each(statuses.flatMap((from) => statuses.map((to) => ({ from, to }))))(
    'moves from $from to $to only where the table says so [L7]',
    ({ from, to }) => {
      const reached = () => {
        const after = (acts[to] as (typeof acts)[string])(inStatus[from])
        return after !== null && after.status === to && from !== to
      }
      const isAllowed = (runMoves[from] as readonly string[]).includes(to)

      const moved = isAllowed ? reached() : attempt(reached)

      expect(moved).toBe(isAllowed)
    },
  )
})

function attempt(act: () => boolean): boolean {
  try {
    return act()
  } catch {
    return false
  }
}

describe('recording', () => {
  test('adds to the counts, and keeps cursor and total unless given [L6] [L8]', () => {
    const first = recordRun(begun, { done: 2, failed: 1, cursor: 'c' }, later(5))
    const second = recordRun(first, { skipped: 1, total: 20 }, later(9))

    expect(first).toMatchObject({ done: 2, failed: 1, skipped: 0, cursor: 'c', total: 10, version: 2 })
    expect(second).toMatchObject({
      done: 2,
      failed: 1,
      skipped: 1,
      cursor: 'c',
      total: 20,
      updatedAt: later(9).wall,
    })
    expect(recordRun(second, { cursor: null }, at).cursor).toBeNull()
  })

  test('completes a run when done, failed and skipped reach the total [L7]', () => {
    const after = recordRun(begun, { done: 8, failed: 1, skipped: 1 }, later(1))

    expect(after).toMatchObject({ status: 'completed', endedAt: later(1).wall, runningSince: null })
  })

  test('does not complete a run in which none may fail while one has [L7]', () => {
    const strict = startRun(null, { ...request, completion: 'successful' }, at)

    const failed = recordRun(strict, { done: 9, failed: 1 }, at)
    const mended = recordRun(failed, { done: 1, failed: -1 }, at)

    expect(failed.status).toBe('running')
    expect(mended.status).toBe('completed')
  })

  test('never completes a run with an unknown total', () => {
    expect(recordRun({ ...begun, total: null }, { done: 1000 }, at).status).toBe('running')
  })

  test.each(['paused', 'failed', 'completed'] as const)(
    'counts finished items even if it is %s, and leaves it so [L8]',
    (status) => {
      const after = recordRun(inStatus[status], { done: 10 }, at)

      expect(after).toMatchObject({
        status,
        done: inStatus[status].done + 10,
        pauseReason: inStatus[status].pauseReason,
      })
    },
  )
})

describe('pausing and resuming', () => {
  test('a pause says why, and a second one changes nothing [L8]', () => {
    expect(inStatus.paused).toMatchObject({ status: 'paused', pauseReason: 'tea', runningSince: null })
    expect(pauseRun(inStatus.paused, 'again', at)).toBeNull()
  })

  test('a resume continues under the new grant with the finished items, and counts again [L11]', () => {
    const paused = pauseRun(recordRun(begun, { done: 4 }, at), 'tea', at) as Run

    const resumed = resumeRun(paused, { lock: 'other', token: 9, total: 12 }, later(60_000))

    expect(resumed).toMatchObject({
      status: 'running',
      done: 4,
      total: 12,
      lock: 'other',
      token: 9,
      pauseReason: null,
    })
  })

  test('resuming a run that is already done completes it', () => {
    const paused = recordRun(inStatus.paused, { done: 10 }, at)

    expect(resumeRun(paused, { lock: 'global', token: 9, total: undefined }, at).status).toBe('completed')
  })

  test('a run whose holder was lost is resumed even if nobody paused it [L9]', () => {
    const resumed = resumeRun(begun, { lock: 'global', token: 9, total: undefined }, at)

    expect(resumed).toMatchObject({ status: 'running', token: 9, version: 2 })
  })

  test.each(['running', 'paused', 'failed'] as const)('a run that is %s is not reopened [L7]', (status) => {
    expect(refusalOf(() => reopenRun(inStatus[status], 15, at)).code).toBe('ILLEGAL_MOVE')
  })

  test.each([
    [1, 'reopened with 1 item'],
    [15, 'reopened with 15 items'],
  ])('a run reopened with a total of %i says so [S5c-40]', (total, pauseReason) => {
    expect(reopenRun(inStatus.completed, total, at)).toMatchObject({ status: 'paused', total, pauseReason })
  })

  test('a run is reopened without a total if it is unknown [S5c-40]', () => {
    const reopened = reopenRun(inStatus.completed, null, at)

    expect(reopened).toMatchObject({ status: 'paused', total: null, pauseReason: 'reopened for more items' })
  })

  test('a run without its items keeps its counts, and is not reopened [S5c-40]', () => {
    const trimmed = trimRun({ ...inStatus.completed, cursor: 'here' }, later(9))

    expect(trimmed).toMatchObject({ status: 'completed', done: 10, cursor: null })
    expect(trimmed).toMatchObject({
      outcomesRemovedAt: later(9).wall,
      version: inStatus.completed.version + 1,
    })
    expect(refusalOf(() => reopenRun(trimmed, 15, at)).code).toBe('ILLEGAL_MOVE')
  })

  test('a reopened run has a new total and no end [L7]', () => {
    expect(reopenRun(inStatus.completed, 15, at)).toMatchObject({
      status: 'paused',
      total: 15,
      endedAt: null,
    })
  })
})

describe('pace', () => {
  test('uses the time it really ran, without pauses [L6]', () => {
    const worked = recordRun(begun, { done: 5 }, later(10_000))
    const paused = pauseRun(worked, 'tea', later(10_000)) as Run
    const resumed = resumeRun(paused, { lock: 'global', token: 9, total: undefined }, later(1_000_000))

    expect(paceOf(paused, later(500_000).now)).toEqual({ ratePerSecond: 0.5, etaMs: 10_000 })
    expect(paceOf(resumed, later(1_010_000).now)).toEqual({ ratePerSecond: 0.25, etaMs: 20_000 })
  })

  test('is unknown before the first item, before any time has passed, and its end without a total', () => {
    expect(paceOf(begun, later(10_000).now)).toEqual({ ratePerSecond: null, etaMs: null })
    expect(paceOf(recordRun(begun, { done: 1 }, at), at.now)).toEqual({
      ratePerSecond: null,
      etaMs: null,
    })
    const endless = recordRun({ ...begun, total: null }, { done: 1 }, at)
    expect(paceOf(endless, later(1_000).now)).toEqual({ ratePerSecond: 1, etaMs: null })
  })
})

describe('outcomes', () => {
  test('each key counts once, by its latest outcome [L13]', () => {
    const outcome = fc.constantFrom('done', 'failed', 'skipped' as const) as fc.Arbitrary<Outcome['outcome']>
    const given = fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), outcome }))
    fc.assert(
      fc.property(given, (steps) => {
        const known = new Map<string, { outcome: Outcome['outcome'] }>()
        const counts = { done: 0, failed: 0, skipped: 0 }
        for (const { key, outcome } of steps) {
          const more = countOutcomes([{ id: outcomeId('r', key), outcome }], known)
          for (const name of ['done', 'failed', 'skipped'] as const) counts[name] += more[name]
          known.set(outcomeId('r', key), { outcome })
        }
        expect(processedOf(counts)).toBe(known.size)
        expect(Math.min(...Object.values(counts))).toBeGreaterThanOrEqual(0)
      }),
    )
  })
})

test('concurrency grows with the number of items [L13]', () => {
  const sizes = [0, 1, 3, 4, 20, 21, 50, 51, 100, 101, 200, 201, 500, 501, Number.POSITIVE_INFINITY]

  expect(sizes.map(concurrencyFor)).toEqual([1, 1, 3, 3, 3, 5, 5, 8, 8, 10, 10, 15, 15, 20, 20])
})
