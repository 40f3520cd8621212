/** Whom a crash blames: `exposed`, `suspect` and `own crash`, and what clears them. */
import { describe, expect, test } from 'vitest'
import { type Blame, blameFor, crashWaitMs } from '../../src/domain/crash.ts'
import { type Instance, processesOf, recordedLoss, recordLoss } from '../../src/domain/instance.ts'
import type { Item } from '../../src/domain/item.ts'
import { claimItem } from '../../src/domain/item-claim.ts'
import { completeItem, failItem } from '../../src/domain/item-end.ts'
import { reclaimItem, recordProgress, releaseItemFromQuarantine } from '../../src/domain/item-loss.ts'
import { promoteItem } from '../../src/domain/item-waiting.ts'
import { recoverItem } from '../../src/domain/recovery.ts'
import { ada, at, itemIn, job, later, newItem } from './samples.ts'

const loss = (blame: Blame, maxCrashes = 3) => ({ evidence: 'process 42 is gone', blame, maxCrashes })

function claimed(item: Item): Item {
  return claimItem(item.runAt === null ? item : promoteItem(item, job), job, ada, at)
}

/** Claimed and lost again, so many times. */
function lostTimes(count: number, blame: Blame, from = newItem(job), maxCrashes = 3): Item {
  let item = from
  for (let round = 0; round < count; round++)
    item = reclaimItem(claimed(item), job, loss(blame, maxCrashes), at)
  return item
}

describe('blame', () => {
  const bound = itemIn(job, 'running')
  const suspect = itemIn(job, 'running', { suspectedAt: at.wall })

  test.each([
    ['an item that was alone in its process', bound, { items: 1, suspects: 0 }, 'own'],
    ['an item among others', bound, { items: 2, suspects: 0 }, 'exposed'],
    ['the only suspect among others', suspect, { items: 50, suspects: 1 }, 'own'],
    ['an item beside a suspect', bound, { items: 50, suspects: 1 }, 'exposed'],
    ['one of two suspects', suspect, { items: 50, suspects: 2 }, 'exposed'],
    ['a suspect that was alone', suspect, { items: 1, suspects: 1 }, 'own'],
    ['an item of which nobody knows what its process held', bound, null, 'exposed'],
    ['a manual lease', itemIn(job, 'running', { instance: null }), null, 'own'],
  ] as const)('%s', (_, item, held, blame) => {
    expect(blameFor(item, { held })).toBe(blame)
  })

  test('a reboot blames no item, not even one that was alone [S5-1]', () => {
    const rules = { workflow: job, maxCrashes: 3, held: { items: 1, suspects: 0 } }
    const reboot = new Map([['ada-1', { evidence: 'the machine has been restarted since', isReboot: true }]])

    const taken = recoverItem(itemIn(job, 'running', { crashes: 2 }), rules, reboot, at)

    expect(taken).toMatchObject({
      blame: 'none',
      after: { phase: 'ready', crashes: 2, exposures: 0, suspectedAt: null },
    })
  })
})

describe('an exposed item', () => {
  test('runs again at once and is not blamed [S5-1]', () => {
    expect(lostTimes(1, 'exposed')).toMatchObject({
      phase: 'ready',
      crashes: 0,
      exposures: 1,
      suspectedAt: null,
      runAt: null,
    })
  })

  test('is a suspect the second time, in a separate line [S5-1]', () => {
    expect(lostTimes(2, 'exposed')).toMatchObject({
      phase: 'suspect',
      crashes: 0,
      suspectedAt: at.wall,
    })
  })

  test('is never quarantined for its exposures alone', () => {
    expect(lostTimes(20, 'exposed')).toMatchObject({ quarantinedAt: null, crashes: 0 })
  })
})

describe('a suspect', () => {
  test('can be claimed, and stays a suspect until something clears it', () => {
    const held = claimed(lostTimes(2, 'exposed'))

    expect(held).toMatchObject({ phase: 'held', suspectedAt: at.wall })
    expect(reclaimItem(held, job, loss('own'), at)).toMatchObject({ phase: 'suspect', crashes: 1 })
  })

  test('is cleared once it has finished', () => {
    const done = completeItem(claimed(lostTimes(2, 'exposed')), job, null, at)

    expect(done).toMatchObject({ exposures: 0, suspectedAt: null })
  })

  test('is cleared once its handler returned, even with a failure', () => {
    const failure = { error: { message: 'no' }, retryable: true, random: 1 }
    const backoff = { baseMs: 1, factor: 1, maxMs: 1 }

    const failed = failItem(claimed(lostTimes(2, 'exposed')), job, { ...failure, backoff }, at)

    expect(promoteItem(failed, job)).toMatchObject({ phase: 'ready', exposures: 0 })
  })

  test('is not cleared by the same progress with its fields in another order [S5c-21]', () => {
    const before = recordProgress(claimed(newItem(job)), { done: 1, left: 2 })
    const lost = reclaimItem(before, job, loss('own'), at)

    const same = recordProgress(claimed(lost), { left: 2, done: 1 })

    expect([same.crashes, same.crashResets]).toEqual([1, 0])
  })

  test('is cleared by new progress', () => {
    const held = recordProgress(claimed(lostTimes(2, 'exposed')), 'half')

    expect(held).toMatchObject({ exposures: 0, suspectedAt: null, crashResets: 1 })
  })
})

test('an item that kills its process after new progress each time takes no healthy neighbour with it [S5-1] [S5-2]', () => {
  let poison = newItem(job)
  let healthy = Array.from({ length: 4 }, () => newItem(job))
  let crashes = 0
  while (poison.quarantinedAt === null && crashes < 100) {
    const isFree = (item: Item) => item.quarantinedAt === null && item.suspectedAt === null
    // One process: everything that is no suspect, and one suspect; the waits after own crashes are over.
    const suspect = [poison, ...healthy].find((item) => !isFree(item) && item.quarantinedAt === null)
    const [held, rest] = [healthy.filter(isFree), healthy.filter((item) => !isFree(item) && item !== suspect)]
    if (suspect !== undefined && suspect !== poison) held.push(suspect)
    const running = [recordProgress(claimed(poison), `run ${crashes}`), ...held.map(claimed)]
    const suspects = running.filter(({ suspectedAt }) => suspectedAt !== null).length
    const [first, ...others] = running.map((item) =>
      reclaimItem(item, job, loss(blameFor(item, { held: { items: running.length, suspects } })), at),
    )
    poison = first as Item
    healthy = [...others, ...rest]
    crashes++
  }

  expect(poison.quarantinedAt).not.toBeNull()
  expect(crashes).toBeLessThan(25)
  expect(healthy.filter(({ quarantinedAt }) => quarantinedAt !== null)).toEqual([])
})

describe('an item’s own crash', () => {
  test.each([
    [1, 0],
    [2, 5_000],
    [3, 30_000],
    [4, 180_000],
    [5, 300_000],
    [1_000, 300_000],
  ])('number %i delays it by %i ms [S5-2]', (crashes, waitMs) => {
    expect(crashWaitMs(crashes)).toBe(waitMs)
  })

  test('is followed by a delay that ends on its own [S5-2]', () => {
    const waiting = lostTimes(2, 'own')

    expect(waiting).toMatchObject({ phase: 'waiting', runAt: at.wall + 5_000 })
    expect(promoteItem(waiting, job)).toMatchObject({ phase: 'ready', runAt: null })
  })
})

describe('progress', () => {
  /** A poison item: reports `progress`, then kills its holder. */
  const attempt = (item: Item, progress: string) =>
    reclaimItem(recordProgress(claimed(item), progress), job, loss('own'), at)

  test('that was there at the last crash clears nothing, so poison that reports its start is stopped [S5-2]', () => {
    let item = newItem(job)
    let attempts = 0
    while (item.quarantinedAt === null && attempts < 100) {
      item = attempt(item, 'started')
      attempts++
    }

    expect(attempts).toBe(3)
  })

  test('that differs each time clears at most ten crashes [S5-2]', () => {
    let item = newItem(job)
    let attempts = 0
    while (item.quarantinedAt === null && attempts < 100) {
      item = attempt(item, `step ${attempts}`)
      attempts++
    }

    expect(attempts).toBe(13)
  })

  test('without an earlier crash uses up nothing', () => {
    let item = claimed(newItem(job))
    for (let page = 0; page < 20; page++) item = recordProgress(item, { page })

    expect(item.crashResets).toBe(0)
  })

  test('can clear an item again after a release from quarantine [S5-2]', () => {
    const quarantined = lostTimes(3, 'own', { ...newItem(job), crashResets: 10, exposures: 1 })

    expect(releaseItemFromQuarantine(quarantined, job, at)).toMatchObject({
      crashes: 0,
      exposures: 0,
      suspectedAt: null,
      progressAtLoss: null,
      crashResets: 0,
    })
  })
})

describe('what a process held when it was lost', () => {
  const instance = (id: string, fields: Partial<Instance> = {}): Instance => ({
    id,
    agent: 'ada',
    bootId: 'boot',
    pidNamespace: 'pid:[1]',
    hostName: 'here',
    pid: 42,
    startTime: '7',
    startedAt: at.wall,
    beatAt: at.wall,
    seenAt: at.now,
    sweptAt: null,
    endedAt: null,
    endReason: null,
    registeredBy: null,
    lostAt: null,
    lostItems: 0,
    lostSuspects: 0,
    version: 1,
    ...fields,
  })

  test('is the sum over all its instances, and over no other process [S5-1]', () => {
    const holds = new Map([
      ['one', { items: 2, suspects: 1 }],
      ['two', { items: 3, suspects: 0 }],
      ['other', { items: 7, suspects: 1 }],
    ])

    const processes = processesOf([instance('one'), instance('other', { pid: 43 }), instance('two')], holds)

    expect(processes.map(({ items, suspects, instances }) => [instances.length, items, suspects])).toEqual([
      [2, 5, 1],
      [1, 7, 1],
    ])
  })

  test('counts for items that have been silent since, and not for those that showed signs of life later [S5-1]', () => {
    const lost = recordLoss(instance('ada-1'), { items: 5, suspects: 1 }, at.now)
    const [process] = processesOf([lost], new Map([['ada-1', { items: 1, suspects: 0 }]]))
    const item = itemIn(job, 'running')

    expect(recordedLoss(process as never, item)).toEqual({ items: 5, suspects: 1 })
    expect(recordedLoss(process as never, { ...item, renewedAt: later(1).now })).toBeNull()
  })
})

test('items left behind by a process that ended cleanly are not blamed [S5-1]', () => {
  const rules = { held: { items: 1, suspects: 0 }, hasEnded: true }

  expect(blameFor({ instance: 'ada-1', suspectedAt: null }, rules)).toBe('none')
  expect(blameFor({ instance: null, suspectedAt: null }, rules)).toBe('own')
})
