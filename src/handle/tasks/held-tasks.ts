/** What the holder of a task may ask: to change, finish or release it. Fills in the token where it is remembered. */
import { taskQueue } from '../../domain/task.ts'
import type { ResultOf } from '../../operations/table.ts'
import type { NamedItem } from '../../runtime/lease/grants.ts'
import type { LeaseLeft } from '../../runtime/lease/lease-ending.ts'
import { optionsOf } from '../../runtime/session/input.ts'
import { type OptionsOf, requestOf } from '../../runtime/session/request.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { TokenOptions } from '../call-options.ts'
import type { Task } from './task-answers.ts'

export class HeldTasks {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** A write by the holder, if there is one. Forgets the grant once the task is no longer held. */
  async change<Name extends 'tasks.updateTask' | 'tasks.renewLease'>(
    operation: Name,
    ref: string,
    options: OptionsOf<Name, 'ref'>,
  ): Promise<Task> {
    const by = optionsOf(operation, options) as TokenOptions
    const { sent, id, token } = await this.find(ref, by)
    try {
      const request = requestOf<Name, object>(operation, { ref: sent, token }, options as never)
      const task: Task = await this.#session.call(operation, request.input, request.options)
      if (task.lease === null) this.#session.grants.ended('item', task.id, token, by)
      return task
    } catch (error) {
      this.#session.grants.refused(error, 'item', id, token, by)
      throw error
    }
  }

  /** A write by which the holder, if there is one, gives up the task. */
  async end<Name extends 'tasks.releaseTask' | 'tasks.reviewTask' | 'tasks.completeTask'>(
    operation: Name,
    ref: string,
    options: OptionsOf<Name, 'ref'>,
    leaves: (answer: ResultOf<Name>) => LeaseLeft,
  ): Promise<ResultOf<Name>> {
    const { sent, id, token } = await this.find(ref, optionsOf(operation, options) as TokenOptions)
    const request = requestOf<Name, object>(operation, { ref: sent, token }, options as never)
    return await this.#session.endGrant(request, { kind: 'item', name: id, token }, leaves)
  }

  /** Grants are remembered by id, so a key is looked up first unless the caller passes the token. */
  async find(ref: string, options: TokenOptions): Promise<NamedItem> {
    const { grants } = this.#session
    const named = grants.itemNamed(taskQueue, ref, options)
    if (named !== null) return named
    const id = (await this.#session.call('tasks.getTask', { ref }))?.id ?? ref
    return { sent: id, id, token: grants.tokenFor('item', id, options) }
  }
}
