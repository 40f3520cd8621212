/** The built-in workflows: job, merge and task. */
import type { Workflow } from './workflow.ts'

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

/** The built-in workflow with this name, if any. */
export function builtInWorkflow(name: string): Workflow | undefined {
  return Object.hasOwn(builtInWorkflows, name) ? builtInWorkflows[name] : undefined
}
