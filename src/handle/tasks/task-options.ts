/** What the calls of tasks take. */
import type { AskedOf } from '../../operations/table.ts'
import type { ClaimOptions, OptionsFor } from '../call-options.ts'

/** A new task. */
export interface AddTaskOptions extends OptionsFor<'tasks.addTask', 'title'> {}

/** A change, and the conditions under which it is made. Fields you leave out stay as they are. */
export interface UpdateTaskOptions extends OptionsFor<'tasks.updateTask', 'ref'> {}

/** What to change; fields you leave out stay as they are. */
export interface TaskChanges
  extends Omit<AskedOf<'tasks.updateTask'>, 'ref' | 'token' | 'expectedVersion' | 'force' | 'reason'> {}

/** How a task is removed, and why. */
export interface RemoveTaskOptions extends OptionsFor<'tasks.removeTask', 'ref'> {}

/** Which tasks to list, and how many per page. */
export interface ListTasksOptions extends AskedOf<'tasks.listTasks'> {}

/** How a task is claimed. */
export interface ClaimTaskOptions extends OptionsFor<'tasks.claimTaskForAgent', 'ref'>, ClaimOptions {}

/** Which task to claim, and how many this agent and this host may hold. */
export interface ClaimNextOptions extends OptionsFor<'tasks.claimNext'>, Omit<ClaimOptions, 'token'> {}
