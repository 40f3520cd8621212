import { expect, test } from 'vitest'
import { decideLines } from '../../src/domain/item-lines.ts'
import { builtInWorkflow } from '../../src/domain/workflow.ts'

const job = builtInWorkflow('job') ?? null
const anything = { states: null, standing: null, quarantined: null }

test('a list of everything looks everywhere', () => {
  expect(decideLines(anything, job)).toEqual({
    lines: ['ready', 'suspect', 'waiting', 'held', 'closed'],
    failedOnly: false,
  })
})

test.each([
  [['pending'], ['ready', 'suspect', 'waiting'], false],
  [['running'], ['held'], false],
  [['done'], ['closed'], false],
  [['failed'], ['closed'], true],
  [['failed', 'cancelled'], ['closed'], true],
  [['failed', 'done'], ['closed'], false],
  [['running', 'failed'], ['held', 'closed'], true],
  [['no such state'], [], false],
  [['constructor'], [], false],
])('items in %j can only stand in %j [S5e-3]', (states, lines, failedOnly) => {
  expect(decideLines({ ...anything, states }, job)).toEqual({ lines, failedOnly })
})

test('what is set aside waits, and what an agent has is held [S5e-3]', () => {
  expect(decideLines({ ...anything, quarantined: true }, job).lines).toEqual(['waiting'])
  expect(decideLines({ ...anything, quarantined: false }, job).lines).toHaveLength(5)
  expect(decideLines({ ...anything, isHeld: true }, job).lines).toEqual(['held'])
  expect(decideLines({ ...anything, standing: 'ready', states: ['running'] }, job).lines).toEqual([])
})

test('of a workflow that nobody knows, items may stand anywhere', () => {
  expect(decideLines({ ...anything, states: ['failed'] }, null)).toEqual({
    lines: ['ready', 'suspect', 'waiting', 'held', 'closed'],
    failedOnly: false,
  })
})
