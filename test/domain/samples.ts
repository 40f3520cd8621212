/** Rows as the store would hand them to a rule. They are frozen: a rule that changed its input would throw. */

import { builtInWorkflows } from '../../src/domain/built-in-workflows.ts'
import { type Clocks, type Item, phaseOf } from '../../src/domain/item.ts'
import { createItem, type NewItem } from '../../src/domain/item-creation.ts'
import type { LeaseColumns } from '../../src/domain/lease.ts'
import { type Lock, plainLock } from '../../src/domain/lock.ts'
import { type State, stateOf, type Workflow } from '../../src/domain/workflow.ts'
import { type HoldfastError, isHoldfastError } from '../../src/errors.ts'

export const at: Clocks = Object.freeze({ now: 5_000_000, wall: 1_700_000_000_000 })
export const ada = Object.freeze({ agent: 'ada', instance: 'ada-1', leaseMs: 30_000 })

export const { job, merge, task } = builtInWorkflows as Record<'job' | 'merge' | 'task', Workflow>
const workflows: readonly Workflow[] = [job, merge, task]

/** A workflow as a user might define it, with none of the built-in state names. */
export const printing: Workflow = {
  name: 'printing',
  initial: 'queued',
  cancelTo: 'dropped',
  failsRetryably: true,
  retryForgives: true,
  slots: 2,
  states: {
    queued: { claimTo: 'inking', moves: [] },
    inking: { held: true, lostTo: 'queued', moves: ['drying', 'dropped'], failTo: 'smudged' },
    drying: { held: true, lostTo: 'queued', moves: [], completeTo: 'printed' },
    printed: { closed: 'succeeded', moves: [] },
    smudged: { closed: 'failed', moves: [], retryTo: 'queued' },
    dropped: { closed: 'failed', moves: [] },
  },
}

export function workflowNamed(name: string): Workflow {
  const found = [...workflows, printing].find((workflow) => workflow.name === name)
  if (!found) throw new Error(`no sample workflow is named ${name}`)
  return found
}

/** Every pair of a built-in workflow's name and one of its states for which `holds`. */
export function statesWhere(
  holds: (state: State, name: string, workflow: Workflow) => boolean,
): [string, string][] {
  return workflows.flatMap((workflow) =>
    Object.entries(workflow.states)
      .filter(([name, state]) => holds(state, name, workflow))
      .map(([name]): [string, string] => [workflow.name, name]),
  )
}

export function newItem(workflow: Workflow, input: Partial<NewItem> = {}): Item {
  const defaults = { id: 'i1', queue: 'q', maxAttempts: 3, submittedBy: 'eve', payload: '{}', data: {} }
  return Object.freeze(createItem({ ...defaults, ...input }, workflow, at.wall))
}

/** An item in `state`: held by ada since `at` where the state is held, closed where it is closed. */
export function itemIn(workflow: Workflow, state: string, fields: Partial<Item> = {}): Item {
  const { held, closed } = stateOf(workflow, state)
  const item: Item = {
    ...newItem(workflow),
    state,
    ...(held ? { ...adasLease(), startedAt: at.wall, attempts: 1 } : {}),
    ...(closed ? { outcome: closed, closedAt: at.wall } : {}),
    ...fields,
  }
  return Object.freeze({ ...item, phase: fields.phase ?? phaseOf(item, workflow) })
}

/** A lock taken by ada at `at`. */
export function aLock(fields: Partial<Lock> = {}): Lock {
  return Object.freeze({
    ...plainLock,
    ...adasLease(),
    name: 'press',
    slot: 0,
    reason: null,
    item: null,
    itemToken: null,
    acquiredAt: at.wall,
    version: 1,
    ...fields,
  })
}

/** Granted to ada at `at`, for 30 s. */
function adasLease(): LeaseColumns {
  const { now } = at
  return { ...ada, token: now * 1000, grantedAt: now, renewedAt: now, expiresAt: now + ada.leaseMs }
}

export function statesOf(workflow: Workflow): string[] {
  return Object.keys(workflow.states)
}

export function heldStatesOf(workflow: Workflow): string[] {
  return statesOf(workflow).filter((state) => stateOf(workflow, state).held)
}

export function later(ms: number): Clocks {
  return { now: at.now + ms, wall: at.wall + ms }
}

/** The typed refusal of an act; an act that succeeds, or breaks in another way, fails the test. */
export function refusalOf(act: () => unknown): HoldfastError {
  try {
    act()
  } catch (error) {
    if (isHoldfastError(error)) return error
    throw error
  }
  throw new Error('it was not refused')
}
