import { describe, expect, test } from 'vitest'
import { endInstance, type Instance } from '../../src/domain/instance.ts'
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
