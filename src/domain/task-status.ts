/** Where tasks are kept, and what their states are called. */

/** The queue that holds all tasks of a namespace. */
export const taskQueue = 'tasks'

/** States as the source of the tasks spells them. */
const statusByState = {
  todo: 'Todo',
  in_progress: 'In Progress',
  review: 'Review',
  done: 'Done',
} as const
/** The status of a task, as people see it. */
export type TaskStatus = (typeof statusByState)[keyof typeof statusByState]
export const taskStatuses = Object.values(statusByState)

export function statusOf(state: string): TaskStatus {
  return statusByState[state as keyof typeof statusByState]
}

export function stateOfStatus(status: TaskStatus): string {
  return status.toLowerCase().replace(' ', '_')
}
