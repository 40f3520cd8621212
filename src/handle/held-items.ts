/**
 * What the holder of an item, or of a task, may ask: to change, finish or release it. Fills in the token where it is
 * remembered.
 */
import type { InputOf, OperationName, ResultOf } from '../operations/table.ts'
import type { NamedItem } from '../runtime/lease/grants.ts'
import { type LeaseLeft, leftByRelease } from '../runtime/lease/lease-ending.ts'
import { optionsOf } from '../runtime/session/input.ts'
import type { OptionsOf, Request } from '../runtime/session/request.ts'
import type { Session } from '../runtime/session/session.ts'
import type { TokenOptions } from './call-options.ts'

/** How the requests of a queue, or of tasks, are made. */
export interface ItemRequests<Operation extends OperationName> {
  readonly session: Session
  readonly queue: string
  get(ref: string): Promise<{ readonly id: string } | null>
  of<Name extends Operation>(operation: Name, named: object, options: object): Request<Name>
  send<Name extends Operation>(request: Request<Name>): Promise<ResultOf<Name>>
}

/** An item as a change of it is answered: without a lease once it is no longer held. */
interface Answered {
  readonly id: string
  readonly lease: object | null
}

/** `Operation`: what can be asked about the items; `Item`: what they look like to the caller. */
export class HeldItems<Operation extends OperationName, Item extends Answered> {
  readonly #requests: ItemRequests<Operation>

  constructor(requests: ItemRequests<Operation>) {
    this.#requests = requests
  }

  get #grants() {
    return this.#requests.session.grants
  }

  /** Forgets the grant once the item is no longer held. */
  async change<Name extends Operation, Fields extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    fields: Fields,
    options: OptionsOf<Name, keyof Fields | 'ref' | 'queue'>,
  ): Promise<Item> {
    const by = optionsOf(operation, options) as TokenOptions
    const { sent, id, token } = this.#known(ref, by) ?? (await this.find(ref, by))
    try {
      const request = this.#requests.of(operation, { ...fields, ref: sent, token }, by)
      const item = (await this.#requests.send(request)) as unknown as Item
      if (item.lease === null) this.#grants.ended('item', item.id, token, by, item)
      return item
    } catch (error) {
      this.#grants.refused(error, 'item', id, token, by)
      throw error
    }
  }

  /** A write by which the holder gives up the item, successfully or not. */
  async finish<Name extends Operation, Fields extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    fields: Fields,
    options: OptionsOf<Name, keyof Fields | 'ref' | 'queue'>,
  ): Promise<Item> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#known(ref, by) ?? (await this.find(ref, by))
    return await this.#end(operation, subject, fields, by, leftBy<Item>)
  }

  /** Without a token, a repeated completion refers to the grant that was completed through this handle. */
  async complete<Name extends Operation, Fields extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    fields: Fields,
    options: OptionsOf<Name, keyof Fields | 'ref' | 'queue'>,
  ): Promise<Item> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#known(ref, by) ?? (await this.find(ref, by))
    const token = subject.token ?? this.#grants.completedUnder(subject.id, by)
    const item = await this.#end(operation, { ...subject, token }, fields, by, leftBy<Item>)
    if (token !== undefined && by.token === undefined) this.#grants.noteCompleted(item.id, token, by)
    return item
  }

  async release<Name extends Operation>(
    operation: Name,
    ref: string,
    options: OptionsOf<Name, 'ref' | 'queue'>,
  ): Promise<boolean> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#known(ref, by) ?? (await this.find(ref, by))
    return await this.#end(operation, subject, {}, by, leftByRelease)
  }

  /** Skips defining the queue: it exists, since somebody holds an item of it. */
  async #end<Answer>(
    operation: Operation,
    { sent, id, token }: NamedItem,
    fields: object,
    by: TokenOptions,
    leaves: (answer: Answer) => LeaseLeft,
  ): Promise<Answer> {
    const request = this.#requests.of(operation, { ...fields, ref: sent, token }, by)
    const grant = { kind: 'item', name: id, token } as const
    const ended = this.#requests.session.endGrant(request, grant, (answer) => leaves(answer as Answer))
    return (await ended) as Answer
  }

  #known(ref: string, options: TokenOptions): NamedItem | null {
    return this.#grants.itemNamed(this.#requests.queue, ref, options)
  }

  /** Grants are remembered by id, so a key is looked up first, unless it is known here. */
  async find(ref: string, options: TokenOptions): Promise<NamedItem> {
    const known = this.#known(ref, options)
    if (known !== null) return known
    const id = (await this.#requests.get(ref))?.id ?? ref
    return { sent: id, id, token: this.#grants.tokenFor('item', id, options) }
  }
}

function leftBy<Item extends Answered>({ lease }: Item): LeaseLeft {
  return lease === null ? 'ended' : 'held'
}
