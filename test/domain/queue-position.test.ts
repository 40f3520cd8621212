import { describe, expect, test } from 'vitest'
import { maxLine, positionOf } from '../../src/domain/queue-position.ts'
import { at, itemIn, job, merge, newItem } from './samples.ts'

const facts = { line: { ahead: 4, total: 9 }, before: null, blockers: [], wall: at.wall }

describe('the position of an item', () => {
  test('comes after what is ready before it, counted from 1 [S5c-43]', () => {
    expect(positionOf(newItem(job), facts)).toEqual({ position: 5, totalPending: 10, reason: null })
  })

  test.each([
    ['stays where it was', 5, 5, 9],
    ['moves forward', 1, 5, 9],
    ['moves back: then it was one of those ahead', 9, 4, 9],
  ])('that was already counted and %s [S5c-43]', (_, priority, position, totalPending) => {
    const before = newItem(job)

    const place = positionOf({ ...before, priority }, { ...facts, before })

    expect(place).toEqual({ position, totalPending, reason: null })
  })

  test('that leaves the line is no longer counted [S5c-43]', () => {
    const before = newItem(job)
    const delayed = newItem(job, { runAt: at.wall + 60_000 })

    expect(positionOf(delayed, { ...facts, before })).toMatchObject({ position: null, totalPending: 8 })
  })

  test('that joins the line counts from then on [S5c-43]', () => {
    const before = newItem(job, { runAt: at.wall + 60_000 })

    expect(positionOf(newItem(job), { ...facts, before })).toMatchObject({ position: 5, totalPending: 10 })
  })

  test('far back is not counted exactly [S5c-43]', () => {
    const line = { ahead: maxLine, total: maxLine }

    expect(positionOf(newItem(job), { ...facts, line })).toMatchObject({
      position: null,
      reason: '1000 or more are ahead of it',
    })
  })
})

describe('an item without a position says why', () => {
  const blocker = newItem(job, { id: 'b1', key: 'w0' })
  const failed = itemIn(job, 'failed', { id: 'b2', key: 'w9' })
  const cancelled = itemIn(job, 'cancelled', { id: 'b3' })
  const many = ['a', 'b', 'c', 'd', 'e'].map((id) => newItem(job, { id }))

  test.each([
    ['it is held', itemIn(job, 'running'), 'ada holds it'],
    ['its holder is not known', itemIn(job, 'running', { agent: null }), 'an unknown agent holds it'],
    ['it is suspected', itemIn(job, 'pending', { suspectedAt: at.wall }), 'it may be killing its holders'],
    [
      'it is quarantined',
      itemIn(job, 'pending', { quarantinedAt: at.wall, quarantineReason: 'it crashed' }),
      'it is quarantined: it crashed',
    ],
    ['it is delayed', newItem(job, { runAt: at.wall + 60_000 }), 'it is delayed for 1m'],
    [
      'its state is not handed out',
      itemIn(merge, 'failed_retryable'),
      'it cannot be claimed in state failed_retryable',
    ],
    ['it waits for one', newItem(job, { blockers: [blocker] }), 'it waits for w0'],
    [
      'it waits for one that is not known',
      newItem(job, { blockers: [newItem(job, { id: 'x' })] }),
      'it waits for x',
    ],
    ['it waits for many', newItem(job, { blockers: many }), 'it waits for a, b, c and 2 more'],
    [
      'it waits for a failed one',
      newItem(job, { blockers: [blocker, failed] }),
      'it waits for w9, which is failed: ',
    ],
    [
      'it waits for several failed ones',
      newItem(job, { blockers: [cancelled, failed] }),
      'it waits for b3, which is cancelled (and 1 more that failed): ',
    ],
  ])('when %s [S5c-43] [S5c-50]', (_, item, reason) => {
    const place = positionOf(item, { ...facts, blockers: [blocker, failed, cancelled] })

    expect(place.position).toBeNull()
    expect(place.reason).toContain(reason)
  })
})
