/**
 * Workflows are data: the states an item of a queue can be in, and which operation leads from one to another. One claim
 * path, one recovery and one test suite serve all of them, both the built-in ones and those that users define.
 */
import { InvalidError } from '../errors.ts'
import { canonicalJson } from './json.ts'
import { nearestName } from './name.ts'

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

export function actTargets(state: State): [act: string, to: string][] {
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
