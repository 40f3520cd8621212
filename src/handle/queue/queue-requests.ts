/** The requests of one queue: fills in its name, checks payloads, and defines the queue before the first write to it. */
import type { QueueView } from '../../operations/queue/define.ts'
import { type InputOf, type OperationName, operations, type ResultOf } from '../../operations/table.ts'
import type { ItemView } from '../../operations/view.ts'
import { orReject } from '../../runtime/session/input.ts'
import { type OptionsOf, type Request, requestOf } from '../../runtime/session/request.ts'
import type { Session } from '../../runtime/session/session.ts'
import { parsed, payloadOf, storable } from '../payload.ts'
import type { QueueItem } from './queue-answers.ts'
import type { QueueOptions } from './queue-options.ts'

/** Operations that take a queue; its name is filled in here. */
export type QueueOperation = {
  [Name in OperationName]: { readonly queue: string } extends Pick<
    InputOf<Name>,
    keyof InputOf<Name> & 'queue'
  >
    ? Name
    : never
}[OperationName]

/** Options of a method on a queue, minus the fields that the method passes itself. */
export type OptionsHere<Name extends QueueOperation, Named extends PropertyKey = never> = OptionsOf<
  Name,
  Named | 'queue'
>

/** The same answer with typed payloads. */
type Typed<Answer, Payload> = Answer extends ItemView
  ? Omit<Answer, 'payload'> & { readonly payload: Payload }
  : Answer extends { item: ItemView }
    ? Omit<Answer, 'item'> & { readonly item: QueueItem<Payload> }
    : Answer extends { items: ItemView[] }
      ? Omit<Answer, 'items'> & { items: QueueItem<Payload>[] }
      : Answer

export class QueueRequests<Input, Output> {
  readonly session: Session
  readonly queue: string
  readonly #options: QueueOptions<Input, Output>
  readonly #hasSettings: boolean
  #defined: Promise<unknown> | null = null

  constructor(session: Session, queue: string, options: QueueOptions<Input, Output>) {
    this.session = session
    this.queue = queue
    this.#options = options
    const { schema, ...settings } = options
    this.#hasSettings = Object.values(settings).some((value) => value !== undefined)
  }

  async define(): Promise<QueueView> {
    const { schema, workflow, ...limits } = this.#options
    if (typeof workflow === 'object') await this.session.call('workflow.define', { workflow })
    const named = typeof workflow === 'object' ? workflow.name : workflow
    return this.session.ask('queue.define', { workflow: named, queue: this.queue }, limits)
  }

  /** Runs before the first write: a queue with another workflow must refuse before anything is added to it. */
  async defineOnce(): Promise<void> {
    if (!this.#hasSettings) return
    this.#defined ??= this.define().catch((error) => {
      // The next write tries again: the cause of a refusal may have been fixed, and a busy store is busy only briefly.
      this.#defined = null
      throw error
    })
    await this.#defined
  }

  of<Name extends QueueOperation>(operation: Name, named: object, options: object): Request<Name> {
    const request = requestOf<Name, object>(operation, named, options as never)
    ;(request.input as { queue: string }).queue = this.queue
    return request
  }

  write<Name extends QueueOperation, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    named: Named,
    options: OptionsHere<Name, keyof Named>,
  ): Promise<Typed<ResultOf<Name>, Input>> {
    return orReject(() => this.send(this.of(operation, named, options))) as Promise<
      Typed<ResultOf<Name>, Input>
    >
  }

  /** Sends a write. Without settings to define first, it is sent in the same tick. */
  send<Name extends QueueOperation>(
    { operation, input, options }: Request<Name>,
    patienceMs?: number,
  ): Promise<ResultOf<Name>> {
    const by = patienceMs === undefined ? options : { ...options, patienceMs }
    const write = () => {
      const answer = this.session.call(operation, input, by)
      if (operations.get(operation)?.addsWork) this.session.expectedWork.call(this.queue)
      return answer
    }
    return this.#hasSettings ? this.defineOnce().then(write) : write()
  }

  read<Name extends QueueOperation, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    named: Named,
    options: OptionsHere<Name, keyof Named>,
  ): Promise<Typed<ResultOf<Name>, Input>> {
    return orReject(() => {
      const { input } = this.of(operation, named, options)
      return this.session.call(operation, input) as Promise<Typed<ResultOf<Name>, Input>>
    })
  }

  get(ref: string): Promise<QueueItem<Input> | null> {
    return this.read('queue.get', { ref }, {})
  }

  get hasSchema(): boolean {
    return this.#options.schema !== undefined
  }

  async storable(payload: unknown): Promise<unknown> {
    return (await storable(this.#options.schema, payload, payloadOf(this.queue))).input
  }

  parsed(stored: unknown): Promise<Output> {
    return parsed(this.#options.schema, stored, payloadOf(this.queue))
  }
}
