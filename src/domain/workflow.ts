/**
 * Workflows are data: the states an item of a queue can be in, and which operation leads from one to another. One claim
 * path, one recovery and one test suite serve all of them, both the built-in ones and those that users define.
 */
import { InvalidError } from '../errors.ts'
import { canonicalJson } from './json.ts'
import { isName, nearestName } from './name.ts'

/** What may happen in one state of a workflow. */
export interface State {
  /** Claimable; a claim moves the item to this held state. */
  readonly claimTo?: string | undefined
  /** Claimable only by name; a claim moves the item to this held state. Never handed out as the next item. */
  readonly claimByNameTo?: string | undefined
  /** An agent holds the item under a lease while it is in this state. */
  readonly held?: true | undefined
  /** Where a held item goes when its holder is lost or releases it. */
  readonly lostTo?: string | undefined
  /** Finished: its key is free and it may be cleaned up; `succeeded` also unblocks the items that waited for it. */
  readonly closed?: 'succeeded' | 'failed' | undefined
  /** Where `move` may lead. */
  readonly moves: readonly string[]
  /** Where completing an item leads. */
  readonly completeTo?: string | undefined
  /** Where a failure leads that is not retried. */
  readonly failTo?: string | undefined
  /** Where a retryable failure leads while attempts are left. */
  readonly failRetryableTo?: string | undefined
  /** Where `retry` leads; a separate transition, not a `move`. */
  readonly retryTo?: string | undefined
  /** Where `returnToRebasing` leads; allowed only when what was tested is out of date. */
  readonly returnTo?: string | undefined
}

/** The states an item can be in, and how it moves between them. */
export interface WorkflowDefinition {
  /** Queues refer to it by this name. */
  readonly name: string
  /** The state of a new item. */
  readonly initial: string
  /** Where `cancel` leads, from every state that lists it in its moves. */
  readonly cancelTo?: string | undefined
  /** A failure is retryable unless the caller says otherwise; default true. */
  readonly failsRetryably?: boolean | undefined
  /** `retry` resets the failure count (an operator's decision); default true. */
  readonly retryForgives?: boolean | undefined
  /** Slots of the processing lock; absent = claims need no lock. */
  readonly slots?: number | undefined
  /** The states by name. */
  readonly states: Readonly<Record<string, State>>
}

/** A workflow as it is stored, with its defaults filled in. */
export interface Workflow extends WorkflowDefinition {
  readonly failsRetryably: boolean
  readonly retryForgives: boolean
}

const job: Workflow = {
  name: 'job',
  initial: 'pending',
  cancelTo: 'cancelled',
  failsRetryably: true,
  retryForgives: true,
  states: {
    pending: { claimTo: 'running', moves: ['cancelled'] },
    running: {
      held: true,
      lostTo: 'pending',
      moves: ['done', 'failed', 'pending', 'cancelled'],
      completeTo: 'done',
      failTo: 'failed',
      failRetryableTo: 'pending',
    },
    failed: { closed: 'failed', moves: [], retryTo: 'pending' },
    done: { closed: 'succeeded', moves: [] },
    cancelled: { closed: 'failed', moves: [] },
  },
}

const failing = { failTo: 'failed_terminal', failRetryableTo: 'failed_retryable' }
const failures = ['failed_retryable', 'failed_terminal'] as const

const merge: Workflow = {
  name: 'merge',
  initial: 'pending',
  cancelTo: 'cancelled',
  failsRetryably: false,
  retryForgives: false,
  slots: 1,
  states: {
    pending: { claimTo: 'claimed', moves: ['cancelled'] },
    claimed: {
      held: true,
      lostTo: 'pending',
      moves: ['pending', 'rebasing', ...failures, 'cancelled'],
      ...failing,
    },
    rebasing: { held: true, lostTo: 'pending', moves: ['testing', ...failures, 'cancelled'], ...failing },
    testing: {
      held: true,
      lostTo: 'pending',
      moves: ['ready_to_merge', ...failures, 'cancelled'],
      ...failing,
    },
    ready_to_merge: {
      held: true,
      lostTo: 'pending',
      moves: ['merging', ...failures, 'cancelled'],
      returnTo: 'rebasing',
      ...failing,
    },
    // A merge in progress cannot be cancelled: half of it may already be visible to others.
    merging: {
      held: true,
      lostTo: 'pending',
      moves: ['merged', ...failures],
      completeTo: 'merged',
      ...failing,
    },
    failed_retryable: { moves: ['cancelled'], retryTo: 'pending' },
    merged: { closed: 'succeeded', moves: [] },
    failed_terminal: { closed: 'failed', moves: [] },
    cancelled: { closed: 'failed', moves: [] },
  },
}

const task: Workflow = {
  name: 'task',
  initial: 'todo',
  failsRetryably: true,
  retryForgives: true,
  states: {
    todo: { claimTo: 'in_progress', moves: ['review'] },
    in_progress: {
      held: true,
      lostTo: 'todo',
      moves: ['done', 'review', 'todo'],
      completeTo: 'done',
      failTo: 'todo',
      failRetryableTo: 'todo',
    },
    // Goes back to work only when claimed by name: a task awaiting review must not be handed out as someone's next
    // task.
    review: { claimByNameTo: 'in_progress', moves: ['todo', 'done'] },
    done: { closed: 'succeeded', moves: [] },
  },
}

export const builtInWorkflows: Readonly<Record<string, Workflow>> = Object.freeze({ job, merge, task })

/** Whether an agent can complete or fail an item right after claiming it, without moving it through other states. */
export function isOneStep(workflow: Workflow): boolean {
  return Object.values(workflow.states).every(({ claimTo }) => {
    if (claimTo === undefined) return true
    const claimed = knownState(workflow, claimTo)
    return claimed?.completeTo !== undefined && claimed.failTo !== undefined
  })
}

/** The state, or undefined. Names inherited by every object (`constructor`) are not states. */
export function knownState(workflow: Workflow, name: string): State | undefined {
  return Object.hasOwn(workflow.states, name) ? workflow.states[name] : undefined
}

/** The built-in workflow with this name, if any. */
export function builtInWorkflow(name: string): Workflow | undefined {
  return Object.hasOwn(builtInWorkflows, name) ? builtInWorkflows[name] : undefined
}

export function stateOf(workflow: Workflow, name: string): State {
  const state = knownState(workflow, name)
  if (state) return state
  const nearest = nearestName(name, Object.keys(workflow.states))
  throw new InvalidError({
    what: `workflow ${workflow.name} has no state "${name}"`,
    next: nearest
      ? `did you mean "${nearest}"?`
      : `its states are ${Object.keys(workflow.states).join(', ')}`,
    facts: { workflow: workflow.name, state: name },
  })
}

/** How an item in this state ended; null while it is open, and for a state the workflow does not know. */
export function endingOf(workflow: Workflow, name: string): 'succeeded' | 'failed' | 'cancelled' | null {
  const closed = knownState(workflow, name)?.closed
  if (closed === undefined) return null
  if (closed === 'succeeded') return 'succeeded'
  return name === workflow.cancelTo ? 'cancelled' : 'failed'
}

/** Every transition, for tests and diagrams: [from, act, to]. */
export function arrows(workflow: Workflow): readonly (readonly [from: string, act: string, to: string])[] {
  return Object.entries(workflow.states).flatMap(([from, state]) => [
    ...state.moves.map((to) => [from, 'move', to] as const),
    ...actTargets(state).map(([act, to]) => [from, act, to] as const),
  ])
}

function actTargets(state: State): [act: string, to: string][] {
  const acts: [string, string | undefined][] = [
    ['claim', state.claimTo],
    ['claimByName', state.claimByNameTo],
    ['lose', state.lostTo],
    ['complete', state.completeTo],
    ['fail', state.failTo],
    ['failRetryable', state.failRetryableTo],
    ['retry', state.retryTo],
    ['returnToRebasing', state.returnTo],
  ]
  return acts.filter((pair): pair is [string, string] => pair[1] !== undefined)
}

/** Whether two definitions are equivalent; the order of states, fields and moves does not matter. */
export function isSameWorkflow(left: Workflow, right: Workflow): boolean {
  return canonicalJson(unordered(left)) === canonicalJson(unordered(right))
}

function unordered(workflow: Workflow) {
  const states = Object.entries(workflow.states).map(
    ([name, state]) => [name, { ...state, moves: [...new Set(state.moves)].sort() }] as const,
  )
  return { ...workflow, states: Object.fromEntries(states) }
}

/** Rejects a bad definition when it is defined and reports every fault at once; nothing is checked again later. */
export function assertWorkflow(workflow: Workflow): void {
  const faults = [
    ...shapeFaults(workflow),
    ...Object.entries(workflow.states).flatMap(([name, state]) => stateFaults(workflow, name, state)),
  ]
  if (faults.length === 0) return
  throw new InvalidError({
    what: `workflow "${workflow.name}" cannot work: ${faults.join('; ')}`,
    next: 'correct the definition and define it again',
    facts: { workflow: workflow.name, faults },
  })
}

function shapeFaults(workflow: Workflow): string[] {
  const faults: string[] = []
  const states = Object.entries(workflow.states)
  if (!isName(workflow.name)) faults.push('its name is not usable')
  if (builtInWorkflow(workflow.name)) faults.push('its name is that of a built-in workflow')
  if (states.length > 50) faults.push('it has more than 50 states')
  const initial = knownState(workflow, workflow.initial)
  if (!initial) faults.push(`initial state "${workflow.initial}" does not exist`)
  if (initial?.held || initial?.closed) faults.push(`initial state "${workflow.initial}" is held or closed`)
  if (!states.some(([, state]) => state.claimTo)) faults.push('no state can be claimed')
  if (!states.some(([, state]) => state.closed === 'succeeded'))
    faults.push('no state is closed as succeeded')
  if (workflow.cancelTo !== undefined && knownState(workflow, workflow.cancelTo)?.closed !== 'failed') {
    faults.push(`cancelTo "${workflow.cancelTo}" must be a state that is closed as failed`)
  }
  if (
    workflow.slots !== undefined &&
    !(Number.isSafeInteger(workflow.slots) && workflow.slots >= 1 && workflow.slots <= 100)
  ) {
    faults.push('slots must be a whole number from 1 to 100')
  }
  return faults
}

function stateFaults(workflow: Workflow, name: string, state: State): string[] {
  const faults: string[] = []
  const held = (target: string) => knownState(workflow, target)?.held === true
  const targets = [...state.moves, ...actTargets(state).map(([, to]) => to)]
  for (const to of new Set(targets)) {
    if (!knownState(workflow, to)) faults.push(`${name} leads to "${to}", which does not exist`)
  }
  if (!isName(name)) faults.push(`state name "${name}" is not usable`)
  for (const to of [state.claimTo, state.claimByNameTo]) {
    if (to !== undefined && !held(to)) faults.push(`${name} is claimed to "${to}", which is not held`)
  }
  if (state.held && state.lostTo === undefined)
    faults.push(`${name} is held but has no lostTo, so it could never be recovered`)
  if (state.lostTo !== undefined && (!state.held || !isOpenAndFree(workflow, state.lostTo))) {
    faults.push(`lostTo of ${name} must lead from a held state to an open one that is not held`)
  }
  if (state.retryTo !== undefined && !isOpenAndFree(workflow, state.retryTo)) {
    faults.push(`retryTo of ${name} must lead to an open state that is not held`)
  }
  if (!state.closed && !canClose(workflow, name)) faults.push(`nothing leads from ${name} to a closed state`)
  const isClaimable = state.claimTo !== undefined || state.claimByNameTo !== undefined
  if (state.held && (state.closed || isClaimable))
    faults.push(`${name} is held and closed or claimable at once`)
  if (state.closed && (state.moves.length > 0 || isClaimable))
    faults.push(`${name} is closed but can be left`)
  if (state.closed === 'succeeded' && state.retryTo)
    faults.push(`${name} is closed as succeeded but can be retried`)
  if (state.completeTo !== undefined && knownState(workflow, state.completeTo)?.closed !== 'succeeded') {
    faults.push(`completeTo of ${name} must be a state that is closed as succeeded`)
  }
  const acts = [state.completeTo, state.failTo, state.failRetryableTo, state.returnTo]
  if (!state.held && acts.some((to) => to !== undefined))
    faults.push(`${name} is not held, so nobody can complete, fail or return it`)
  return faults
}

function isOpenAndFree(workflow: Workflow, name: string): boolean {
  const state = knownState(workflow, name)
  return state !== undefined && !state.held && !state.closed
}

function canClose(workflow: Workflow, start: string): boolean {
  const reached = new Set([start])
  const all = arrows(workflow)
  for (const from of reached) {
    for (const [source, , to] of all) if (source === from) reached.add(to)
  }
  return [...reached].some((name) => knownState(workflow, name)?.closed !== undefined)
}
