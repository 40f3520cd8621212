import { expect, test } from 'vitest'
import { builtInWorkflow } from '../../src/domain/built-in-workflows.ts'
import { decideLines } from '../../src/domain/item-lines.ts'

const job = builtInWorkflow('job') ?? null
const anything = { states: null, phase: null, quarantined: null }

test('a list of everything searches all phases', () => {
  expect(decideLines(anything, job)).toEqual({
    lines: ['ready', 'suspect', 'waiting', 'held', 'closed'],
    failedOnly: false,
    quarantinedOnly: false,
  })
})

const everywhere = ['ready', 'suspect', 'waiting', 'held', 'closed']

test.each([
  [['pending'], ['ready', 'suspect', 'waiting'], false, false],
  [['running'], ['waiting', 'held'], false, true],
  [['done'], ['waiting', 'closed'], false, true],
  [['failed'], ['waiting', 'closed'], true, true],
  [['failed', 'cancelled'], ['waiting', 'closed'], true, true],
  [['failed', 'done'], ['waiting', 'closed'], false, true],
  [['running', 'failed'], ['waiting', 'held', 'closed'], true, true],
  [['pending', 'failed'], ['ready', 'suspect', 'waiting', 'closed'], true, false],
  [['no such state'], everywhere, false, false],
  [['failed', 'constructor'], everywhere, false, false],
  [[], ['waiting'], false, true],
])('items in %j can only be in %j [S5e-3]', (states, lines, failedOnly, quarantinedOnly) => {
  expect(decideLines({ ...anything, states }, job)).toEqual({ lines, failedOnly, quarantinedOnly })
})

test('quarantined items wait or were held, and an agent’s items are held [S5e-3]', () => {
  expect(decideLines({ ...anything, quarantined: true }, job).lines).toEqual(['waiting', 'held'])
  expect(decideLines({ ...anything, quarantined: false, states: ['running'] }, job).lines).toEqual(['held'])
  expect(decideLines({ ...anything, quarantined: false }, job).lines).toHaveLength(5)
  expect(decideLines({ ...anything, isHeld: true }, job).lines).toEqual(['held'])
  expect(decideLines({ ...anything, phase: 'ready', states: ['running'] }, job).lines).toEqual([])
})

test('items of an unknown workflow may be anywhere', () => {
  expect(decideLines({ ...anything, states: ['failed'] }, null)).toEqual({
    lines: everywhere,
    failedOnly: false,
    quarantinedOnly: false,
  })
})
