import { expect, test } from 'vitest'
import type { Item } from '../../src/domain/item.ts'
import { brokenRule } from '../../src/domain/item-soundness.ts'
import { itemIn, job, merge, printing, statesOf, task } from './samples.ts'

test('an item in any state of any workflow satisfies every rule', () => {
  for (const workflow of [job, merge, task, printing]) {
    for (const state of statesOf(workflow)) expect(brokenRule(itemIn(workflow, state)), state).toBeNull()
  }
})

const held = itemIn(job, 'running')
const ready = itemIn(job, 'pending')

test.each<[rule: string, item: Item]>([
  ['it is held exactly while it has a holder', { ...held, agent: null }],
  ['it is held exactly while it has a holder', { ...ready, agent: 'ada' }],
  ['it is held exactly while its lease has an end', { ...held, expiresAt: null }],
  ['only a holder has a machine', { ...ready, holderHost: 'workshop' }],
  ['what is held was started', { ...held, startedAt: null }],
  ['it was started before its state changed last', { ...held, startedAt: held.stateChangedAt + 1 }],
  ['it is closed exactly when it has an outcome', { ...ready, outcome: 'succeeded' }],
  ['it is closed exactly when it has an end', { ...ready, closedAt: 1 }],
  ['only what waits has a time to wait for', { ...ready, runAt: 1 }],
])('that %s is told of an item that breaks it', (rule, item) => {
  expect(brokenRule(item)).toBe(rule)
})
