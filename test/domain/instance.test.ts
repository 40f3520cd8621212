import { describe, expect, test } from 'vitest'
import {
  endableInstances,
  endInstance,
  type Instance,
  isSameProcess,
  isSilent,
  lastSweptAt,
  silentAfterMs,
  startInstance,
} from '../../src/domain/instance.ts'
import { endSilent } from '../../src/operations/agent/instance.ts'
import { at } from './samples.ts'

const running: Instance = Object.freeze({
  id: 'ada-1',
  agent: 'ada',
  bootId: 'boot',
  pidNamespace: 'pid:[1]',
  hostName: 'here',
  pid: 42,
  startTime: '7',
  startedAt: at.wall,
  beatAt: at.now,
  seenAt: at.now,
  sweptAt: null,
  endedAt: null,
  endReason: null,
  registeredBy: null,
  lostAt: null,
  lostItems: 0,
  lostSuspects: 0,
  version: 4,
})

describe('an instance that ends', () => {
  test('records when and why, one version later, and stays the same instance', () => {
    const ended = endInstance(running, 'its process is gone', at.wall + 10)

    expect(ended).toEqual({
      ...running,
      endedAt: at.wall + 10,
      endReason: 'its process is gone',
      version: 5,
    })
  })

  test('never ends before it started, even if the wall clock was set back', () => {
    const ended = endInstance(running, 'closed', at.wall - 3_600_000)

    expect(ended.endedAt).toBe(running.startedAt)
  })
})

describe('a process that joins', () => {
  const { id, bootId, pidNamespace, hostName, pid, startTime } = running
  const identity = { id, bootId, pidNamespace, hostName, pid, startTime }

  test('is alive from its first moment [T12]', () => {
    expect(startInstance(identity, { agent: 'ada', registeredBy: 'bob', seenAt: at.now }, at.wall)).toEqual({
      ...running,
      beatAt: at.wall,
      registeredBy: 'bob',
      version: 1,
    })
  })

  test.each(['bootId', 'pidNamespace', 'hostName', 'pid', 'startTime'] as const)(
    'is another one when its %s differs [T12]',
    (field) => {
      const other = { ...identity, [field]: field === 'pid' ? 43 : 'other' }

      expect(isSameProcess(identity, running)).toBe(true)
      expect(isSameProcess(identity, other)).toBe(false)
    },
  )
})

describe('a silent process', () => {
  const silent = { ...running, seenAt: at.now - silentAfterMs - 1 }

  test('counts as silent after ten minutes on the lease clock, not before [S5c-1]', () => {
    expect(silentAfterMs).toBe(600_000)
    expect(isSilent(silent, at.now)).toBe(true)
    expect(isSilent({ ...silent, seenAt: at.now - silentAfterMs }, at.now)).toBe(false)
  })

  test('does not include one that has ended, or that never beats [S5c-1]', () => {
    expect(isSilent({ ...silent, endedAt: at.wall }, at.now)).toBe(false)
    expect(isSilent({ ...silent, seenAt: null }, at.now)).toBe(false)
  })

  test('is left alone while the clock is in doubt [S5c-1]', () => {
    const context = {
      ...at,
      agent: 'bob',
      instance: null,
      ids: [],
      random: 0,
      outage: null,
      manualGraceMs: 0,
    }
    const end = (isDoubtful: boolean) =>
      endSilent.decide({ found: [silent], held: [] }, { ids: [silent.id] }, { ...context, isDoubtful })

    expect(end(true)).toMatchObject({ changes: [], result: 0 })
    expect(end(false)).toMatchObject({ result: 1 })
  })

  test('ends only when it holds no more than is taken from it [S5c-1]', () => {
    const held = [{ instance: 'ada-1', count: 2 }]

    expect(endableInstances([running], [], [])).toEqual([running])
    expect(endableInstances([running], held, [{ instance: 'ada-1' }, { instance: null }])).toEqual([])
    expect(endableInstances([running], held, [{ instance: 'ada-1' }, { instance: 'ada-1' }])).toEqual([
      running,
    ])
  })
})

describe('the last look for things to heal', () => {
  test('is the latest of all processes, and null while none has looked', () => {
    const looked = [at.wall + 5, at.wall + 9, null].map((sweptAt) => ({ ...running, sweptAt }))

    expect(lastSweptAt(looked)).toBe(at.wall + 9)
    expect(lastSweptAt([running])).toBeNull()
  })
})
