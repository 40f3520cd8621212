import { describe, expect, test } from 'vitest'
import { describeHolding, isLost, type Judged, judgeProcess, runningHosts } from '../../src/domain/holding.ts'
import type { Instance } from '../../src/domain/instance.ts'
import { ada, aLock, at, later } from './samples.ts'

const instance = (fields: Partial<Instance> = {}): Instance => ({
  id: 'ada-1',
  agent: 'ada',
  bootId: 'boot',
  pidNamespace: 'ns',
  hostName: 'host',
  pid: 4711,
  startTime: 'then',
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
const seen = (liveness: Judged['liveness']): Judged => ({ instance: 'ada-1', liveness, evidence: 'as seen' })
const nobody = { instances: [], judged: [] }

describe('what is known about a holder', () => {
  test('for a manual lease, liveness is unknown', () => {
    const holding = describeHolding(aLock({ instance: null }), nobody, at.now)

    expect(holding).toMatchObject({
      agent: 'ada',
      kind: 'manual',
      liveness: 'unknown',
      remainingMs: ada.leaseMs,
    })
    expect(holding.evidence).toContain('manual')
  })

  test('a process that ended is dead, whatever was observed', () => {
    const ended = {
      instances: [instance({ endedAt: at.wall, endReason: 'closed' })],
      judged: [seen('alive')],
    }

    expect(judgeProcess('ada-1', ended)).toEqual({ liveness: 'dead', evidence: 'its process ended: closed' })
  })

  test.each(['alive', 'dead', 'unknown'] as const)('an observation counts: %s', (liveness) => {
    const judged = { instances: [instance()], judged: [seen(liveness)] }

    expect(judgeProcess('ada-1', judged)).toEqual({ liveness, evidence: 'as seen' })
  })

  test('without an observation, the lease decides', () => {
    expect(judgeProcess('ada-1', { instances: [instance()], judged: [] })).toEqual({
      liveness: 'unknown',
      evidence: 'nobody here can see process 4711 of host',
    })
    expect(judgeProcess('ada-1', nobody).evidence).toBe('its process is unknown here')
  })

  test('a row without an expiry has no time left', () => {
    expect(describeHolding(aLock({ expiresAt: null }), nobody, at.now)).toMatchObject({
      remainingMs: 0,
      status: 'stale',
    })
  })
})

test('a lease is lost when it has lapsed, or when its process is dead', () => {
  const bound = (liveness: Judged['liveness'], ms = 0) =>
    describeHolding(aLock(), { instances: [], judged: [seen(liveness)] }, later(ms).now)

  expect(isLost(bound('alive'))).toBe(false)
  expect(isLost(bound('dead'))).toBe(true)
  expect(isLost(bound('alive', ada.leaseMs + 1))).toBe(true)
  expect(isLost(bound('alive', ada.leaseMs + 300_002))).toBe(true)
  expect(isLost(describeHolding(aLock({ instance: null }), nobody, at.now))).toBe(false)
})

test('a machine counts as running while a process there has neither ended nor been found dead [S5c-48]', () => {
  const instances = [
    instance({ id: 'a', hostName: 'alive' }),
    instance({ id: 'b', hostName: 'unseen' }),
    instance({ id: 'c', hostName: 'ended', endedAt: at.wall }),
    instance({ id: 'd', hostName: 'dead' }),
  ]
  const judged = [
    { ...seen('alive'), instance: 'a' },
    { ...seen('dead'), instance: 'd' },
  ]

  expect([...runningHosts({ instances, judged })]).toEqual(['alive', 'unseen'])
})
