import { describe, expect, test } from 'vitest'
import { endInstance, type Instance, isSameProcess, startInstance } from '../../src/domain/instance.ts'
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
  test('says when and why, one version later, and stays the same incarnation', () => {
    const ended = endInstance(running, 'its process is gone', at.wall + 10)

    expect(ended).toEqual({
      ...running,
      endedAt: at.wall + 10,
      endReason: 'its process is gone',
      version: 5,
    })
  })

  test('never ends before it started, though the wall clock was set back', () => {
    const ended = endInstance(running, 'closed', at.wall - 3_600_000)

    expect(ended.endedAt).toBe(running.startedAt)
  })
})

describe('a process that joins', () => {
  const { id, bootId, pidNamespace, hostName, pid, startTime } = running
  const identity = { id, bootId, pidNamespace, hostName, pid, startTime }

  test('lives from its first moment on [T12]', () => {
    expect(startInstance(identity, { agent: 'ada', registeredBy: 'bob' }, at.wall)).toEqual({
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
