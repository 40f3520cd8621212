import { describe, expect, test } from 'vitest'
import type { Item } from '../../src/domain/item.ts'
import type { Lock } from '../../src/domain/lock.ts'
import {
  countRecovered,
  type Deaths,
  evidenceOfLoss,
  type ItemRules,
  reclaimStaleItem,
  recoverItem,
  recoverLock,
} from '../../src/domain/recovery.ts'
import type { Workflow } from '../../src/domain/workflow.ts'
import { ada, aLock, at, itemIn, job, later, merge, statesWhere, workflowNamed } from './samples.ts'

const nobodyDied: Deaths = new Map()
const adaDied: Deaths = new Map([['ada-1', { evidence: 'its process 42 is gone', isReboot: false }]])
const alone = { items: 1, suspects: 0 }
const lapse = later(ada.leaseMs + 1)
const rules = (workflow: Workflow, maxCrashes = 3): ItemRules => ({ workflow, maxCrashes, held: alone })

const everyHeldState = statesWhere(({ held }) => held === true)

describe('evidence of a loss', () => {
  test('there is none while a live process keeps its lease', () => {
    expect(evidenceOfLoss(aLock(), nobodyDied, at.now)).toBeNull()
  })

  test('there is none at the very last millisecond, and there is at the next', () => {
    const lock = aLock({ expiresAt: at.now })

    const evidence = [at.now, at.now + 1].map((now) => evidenceOfLoss(lock, nobodyDied, now))

    expect(evidence).toEqual([null, 'its lease lapsed 1 ms ago'])
  })

  test('proof of death counts at once, even if the lease is live [Q13]', () => {
    expect(evidenceOfLoss(aLock(), adaDied, at.now)).toBe('its process 42 is gone')
  })

  test('proof of death is named rather than the lapse when there are both', () => {
    expect(evidenceOfLoss(aLock(), adaDied, lapse.now)).toBe('its process 42 is gone')
  })

  test('the death of another process of the same agent proves nothing', () => {
    expect(evidenceOfLoss(aLock({ instance: 'ada-2' }), adaDied, at.now)).toBeNull()
  })

  test('no death can end a manual lease before it lapses', () => {
    const dead = { evidence: 'dead', isReboot: false }
    const everybodyDied = new Map([...adaDied, ['ada', dead], ['null', dead], ['', dead]])

    expect(evidenceOfLoss(aLock({ instance: null }), everybodyDied, at.now)).toBeNull()
  })

  test('a manual lease ends by its lapse like any other', () => {
    const evidence = evidenceOfLoss(aLock({ instance: null }), nobodyDied, lapse.now)

    expect(evidence).toBe('its lease lapsed 1 ms ago')
  })

  test('a held row without an expiry is lost, not held forever', () => {
    expect(evidenceOfLoss(aLock({ expiresAt: null }), nobodyDied, at.now)).toBe('it is held but has no lease')
  })
})

describe('recovering an item', () => {
  test.each(everyHeldState)(
    '%s: %s heals after its lapse, with a crash counted [Q14] [Z2]',
    (name, state) => {
      const workflow = workflowNamed(name)
      const item = itemIn(workflow, state)

      const recovered = recoverItem(item, rules(workflow), nobodyDied, lapse)

      expect(recovered).toMatchObject({
        before: item,
        after: { state: workflow.initial, phase: 'ready', agent: null, startedAt: null, crashes: 1 },
        evidence: 'its lease lapsed 1 ms ago',
        expiredForMs: 1,
      })
    },
  )

  test.each(everyHeldState)('%s: %s is left to a holder with a live lease [Q13]', (name, state) => {
    const workflow = workflowNamed(name)
    const lastMoment = later(ada.leaseMs)

    expect(recoverItem(itemIn(workflow, state), rules(workflow), nobodyDied, lastMoment)).toBeNull()
  })

  test('recovery does not wait for a dead holder’s lease, which had not expired', () => {
    const recovered = recoverItem(itemIn(job, 'running'), rules(job), adaDied, at)

    expect(recovered).toMatchObject({ after: { state: 'pending', crashes: 1 }, expiredForMs: 0 })
  })

  test.each([
    ['no start time', { startedAt: null }],
    ['an agent that is empty', { agent: '', instance: null }],
    ['an owner that nobody knows', { agent: null, instance: 'never-seen' }],
    ['no times at all', { grantedAt: null, renewedAt: null, expiresAt: null, leaseMs: null }],
  ])('a damaged row with %s heals [Q1] [Q14] [EC-007]', (_, damage) => {
    const item = itemIn(job, 'running', damage)

    const recovered = recoverItem(item, rules(job), nobodyDied, lapse)

    expect(recovered?.after).toMatchObject({
      state: 'pending',
      phase: 'ready',
      agent: null,
      startedAt: null,
    })
  })

  test('a row without an expiry is reclaimed as expired for 0 ms', () => {
    const item = itemIn(job, 'running', { expiresAt: null })

    expect(recoverItem(item, rules(job), nobodyDied, at)).toMatchObject({ expiredForMs: 0 })
  })

  test.each(statesWhere(({ held }) => !held))(
    '%s: %s is not held, so there is nothing to recover',
    (name, state) => {
      const workflow = workflowNamed(name)

      expect(recoverItem(itemIn(workflow, state), rules(workflow), adaDied, lapse)).toBeNull()
    },
  )

  test('the second recovery of the same item finds nothing [HP-013]', () => {
    const recovered = recoverItem(itemIn(job, 'running'), rules(job), adaDied, lapse)

    expect(recoverItem(recovered?.after as Item, rules(job), adaDied, lapse)).toBeNull()
  })

  test('the third crash without progress quarantines, with its evidence [Q17] [Z9]', () => {
    const item = itemIn(job, 'running', { crashes: 2 })

    const recovered = recoverItem(item, rules(job, 3), adaDied, lapse)

    expect(recovered?.after).toMatchObject({
      state: 'pending',
      phase: 'waiting',
      crashes: 3,
      quarantinedAt: lapse.wall,
      quarantineReason: expect.stringContaining('its process 42 is gone'),
    })
  })

  test('the second crash of three does not quarantine', () => {
    const item = itemIn(job, 'running', { crashes: 1 })

    const recovered = recoverItem(item, rules(job, 3), nobodyDied, lapse)

    expect(recovered?.after).toMatchObject({ phase: 'waiting', crashes: 2, quarantinedAt: null })
  })

  test('with a limit of 0 no number of crashes quarantines [Q17]', () => {
    const item = itemIn(job, 'running', { crashes: 1_000 })

    const recovered = recoverItem(item, rules(job, 0), nobodyDied, lapse)

    expect(recovered?.after).toMatchObject({ phase: 'waiting', crashes: 1_001, quarantinedAt: null })
  })

  test.each([
    ['a state its workflow does not know', { ...itemIn(job, 'running'), state: 'dreaming' }, rules(job)],
    ['a state every object answers to', { ...itemIn(job, 'running'), state: 'constructor' }, rules(job)],
    ['a state that nobody can hold', { ...itemIn(job, 'running'), state: 'pending' }, rules(job)],
    ['a workflow nobody knows', itemIn(job, 'running'), { workflow: undefined, maxCrashes: 3, held: alone }],
  ])('a held row in %s is set aside for a person, out of the line', (_, item, itsRules) => {
    const recovered = recoverItem(item, itsRules, nobodyDied, lapse)

    expect(recovered?.after).toMatchObject({
      state: item.state,
      phase: 'waiting',
      agent: null,
      instance: null,
      startedAt: null,
      token: item.token,
      grantedAt: null,
      renewedAt: null,
      expiresAt: null,
      leaseMs: null,
      quarantinedAt: lapse.wall,
      quarantineReason: expect.stringContaining(`"${item.state}"`),
      version: item.version + 1,
    })
  })
})

describe('recovering a lock', () => {
  test('a lapsed lock is freed, with its evidence [HP-001]', () => {
    const lock = aLock()

    const recovered = recoverLock(lock, nobodyDied, lapse.now)

    expect(recovered).toEqual({
      before: lock,
      after: null,
      evidence: 'its lease lapsed 1 ms ago',
      expiredForMs: 1,
    })
  })

  test('the lock of a dead process is freed before it lapses', () => {
    expect(recoverLock(aLock(), adaDied, at.now)).toMatchObject({ after: null, expiredForMs: 0 })
  })

  test('a lock at exactly its expiry is kept [EC-006]', () => {
    expect(recoverLock(aLock({ expiresAt: at.now }), nobodyDied, at.now)).toBeNull()
  })

  test('a lock whose agent is empty heals [EC-010]', () => {
    expect(recoverLock(aLock({ agent: '' }), nobodyDied, lapse.now)?.after).toBeNull()
  })

  test('with a delay stays to keep others out; the end of the delay is not another loss', () => {
    const lost = recoverLock(aLock({ delayMs: 5_000 }), adaDied, at.now)
    const delayed = lost?.after as Lock
    const over = recoverLock(delayed, nobodyDied, at.now + 5_001)

    expect(lost).toMatchObject({ after: { delayedSince: at.now }, evidence: 'its process 42 is gone' })
    expect(recoverLock(delayed, adaDied, at.now + 5_000)).toBeNull()
    expect(over).toMatchObject({ after: null, evidence: 'the delay after its loss is over' })
    expect(
      countRecovered(
        [],
        [lost, over].flatMap((each) => each ?? []),
      ).locksCleaned,
    ).toBe(1)
  })
})

describe('reclaiming by the last sign of life', () => {
  const manual = itemIn(job, 'running', { instance: null })
  const bound = itemIn(job, 'running')
  const request = (thresholdMs: number, force = false) => ({ thresholdMs, force })

  test('takes a manual item that was silent too long, even if its lease is live [Q15]', () => {
    const reclaimed = reclaimStaleItem(manual, rules(job), request(1_000), later(1_001))

    expect(reclaimed).toMatchObject({
      after: { state: 'pending', phase: 'ready' },
      evidence: 'no sign of life for 1001 ms; reclaimed by request',
      expiredForMs: 0,
    })
  })

  test('leaves items with a sign of life since, and uses the later sign [A-05] [A-06]', () => {
    const renewed = { ...manual, renewedAt: at.now + 5_000 }

    expect(reclaimStaleItem(manual, rules(job), request(1_000), later(999))).toBeNull()
    expect(reclaimStaleItem(renewed, rules(job), request(1_000), later(5_999))).toBeNull()
    expect(reclaimStaleItem(renewed, rules(job), request(1_000), later(6_001))).not.toBeNull()
  })

  test('with a threshold of 0 takes items claimed in this very millisecond [Q15]', () => {
    expect(reclaimStaleItem(manual, rules(job), request(0), at)?.after?.state).toBe('pending')
  })

  test('a second time finds nothing [A-07]', () => {
    const reclaimed = reclaimStaleItem(manual, rules(job), request(0), at)

    expect(reclaimStaleItem(reclaimed?.after as Item, rules(job), request(0), at)).toBeNull()
  })

  test('skips a lease with a process behind it, however long it was silent, while it is live [Q15]', () => {
    expect(reclaimStaleItem(bound, rules(job), request(0), later(ada.leaseMs))).toBeNull()
  })

  test('takes a lease with a process behind it once it has lapsed', () => {
    expect(reclaimStaleItem(bound, rules(job), request(0), lapse)?.after?.state).toBe('pending')
  })

  test('takes a lease with a process behind it when forced [Q15]', () => {
    expect(reclaimStaleItem(bound, rules(job), request(0, true), at)?.after?.state).toBe('pending')
  })

  test('respects its threshold even when forced', () => {
    expect(reclaimStaleItem(bound, rules(job), request(1_000, true), later(999))).toBeNull()
  })

  test.each([
    ['by hand before the lapse', manual, at, 2, null],
    ['by force before the lapse', bound, at, 2, null],
    ['after the lapse', bound, lapse, 3, lapse.wall],
  ])(
    '%s: a crash is counted only where the lease had lapsed too [Q17]',
    (_, held, moment, crashes, since) => {
      const item = { ...held, crashes: 2 }

      const reclaimed = reclaimStaleItem(item, rules(job, 3), request(0, true), moment)

      expect(reclaimed?.after).toMatchObject({ crashes, quarantinedAt: since })
    },
  )

  test('takes a damaged row without any sign of life', () => {
    const damaged = { ...manual, grantedAt: null, renewedAt: null, expiresAt: null }

    expect(reclaimStaleItem(damaged, rules(job), request(60_000), at)?.after?.state).toBe('pending')
  })

  test('never takes what is not held', () => {
    expect(reclaimStaleItem(itemIn(job, 'pending'), rules(job), request(0, true), lapse)).toBeNull()
  })
})

describe('the counts of a recovery', () => {
  const recover = (item: Item, workflow: Workflow) => {
    const recovered = recoverItem(item, rules(workflow), adaDied, lapse)
    return recovered ? [recovered] : []
  }

  test('say how many of what, in which states, and which ones [HP-003]', () => {
    const items = [
      ...recover(itemIn(job, 'running', { id: 'a' }), job),
      ...recover(itemIn(job, 'running', { id: 'b', crashes: 2 }), job),
      ...recover(itemIn(merge, 'testing', { id: 'c' }), merge),
    ]
    const lock = recoverLock(aLock(), adaDied, lapse.now)

    const counts = countRecovered(items, lock ? [lock] : [])

    expect(counts).toEqual({
      locksCleaned: 1,
      entriesReclaimed: 3,
      quarantined: 1,
      ids: ['a', 'b', 'c'],
      byState: { running: 2, testing: 1 },
    })
  })

  test('are all zero when nothing was lost', () => {
    const counts = countRecovered([], [])

    expect(counts).toEqual({ locksCleaned: 0, entriesReclaimed: 0, quarantined: 0, ids: [], byState: {} })
  })
})
