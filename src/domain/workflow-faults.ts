/** Refuses a workflow that could not work. */
import { InvalidError } from '../errors.ts'
import { builtInWorkflow } from './built-in-workflows.ts'
import { isName } from './name.ts'
import { actTargets, arrows, knownState, type State, type Workflow } from './workflow.ts'

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
