import { expect, test } from 'vitest'
import { builtInWorkflows } from '../../src/domain/built-in-workflows.ts'
import { countQueue } from '../../src/domain/queue-counts.ts'

test('every item is counted once, under what can be done with it [S5-22] [Q6]', () => {
  const merge = builtInWorkflows.merge ?? expect.fail('it is built in')

  const counts = countQueue(
    {
      byState: { pending: 6, testing: 2, merged: 3, failed_terminal: 4, failed_retryable: 5, cancelled: 1 },
      byPhase: { ready: 1, suspect: 0, waiting: 10, held: 2, closed: 8 },
      quarantinedByState: { pending: 2, failed_retryable: 1 },
    },
    merge,
  )

  expect(counts).toEqual({
    total: 21,
    pending: 1,
    blocked: 3,
    quarantined: 3,
    processing: 2,
    completed: 3,
    failed: 8,
    cancelled: 1,
  })
})

test('an item that was imported as held and quarantined is counted once, until it is given back and after [Q6]', () => {
  const job = builtInWorkflows.job ?? expect.fail('it is built in')
  const phases = { ready: 0, suspect: 0, waiting: 0, held: 0, closed: 0 }
  const [held, released] = [{ running: 1 }, { pending: 1 }]

  const before = countQueue(
    { byState: { running: 2 }, byPhase: { ...phases, held: 2 }, quarantinedByState: held },
    job,
  )
  const after = countQueue(
    { byState: released, byPhase: { ...phases, waiting: 1 }, quarantinedByState: released },
    job,
  )

  expect(before).toMatchObject({ total: 2, blocked: 0, quarantined: 1, processing: 1, pending: 0 })
  expect(after).toMatchObject({ total: 1, blocked: 0, quarantined: 1, processing: 0, pending: 0 })
})

test('a state that the workflow does not have is counted too', () => {
  const job = builtInWorkflows.job ?? expect.fail('it is built in')

  const counts = countQueue(
    {
      byState: { lost: 1 },
      byPhase: { ready: 1, suspect: 0, waiting: 0, held: 0, closed: 0 },
      quarantinedByState: {},
    },
    job,
  )

  expect(counts).toMatchObject({ total: 1, pending: 1 })
})
