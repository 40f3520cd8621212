/** What the holder of an item may ask: to change, finish or release it. Fills in the token where it is remembered. */
import type { InputOf, ResultOf } from '../../operations/table.ts'
import type { ItemView } from '../../operations/view.ts'
import type { NamedItem } from '../../runtime/lease/grants.ts'
import { type LeaseLeft, leftByRelease } from '../../runtime/lease/lease-ending.ts'
import { optionsOf } from '../../runtime/session/input.ts'
import type { TokenOptions } from '../call-options.ts'
import type { QueueItem } from './queue-answers.ts'
import type { OptionsHere, QueueOperation, QueueRequests } from './queue-requests.ts'

/** Writes that return the item they changed. */
type ItemWrite = {
  [Name in QueueOperation]: ResultOf<Name> extends ItemView ? Name : never
}[QueueOperation]

export class HeldItems<Input> {
  readonly #requests: QueueRequests<Input, unknown>

  constructor(requests: QueueRequests<Input, unknown>) {
    this.#requests = requests
  }

  get #grants() {
    return this.#requests.session.grants
  }

  /** Forgets the grant once the item is no longer held. */
  async change<Name extends ItemWrite, Fields extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    fields: Fields,
    options: OptionsHere<Name, keyof Fields | 'ref'>,
  ): Promise<QueueItem<Input>> {
    const by = optionsOf(operation, options) as TokenOptions
    const { sent, id, token } = this.#named(ref, by) ?? (await this.#find(ref, by))
    try {
      const request = this.#requests.of(operation, { ...fields, ref: sent, token }, by)
      const item: ItemView = await this.#requests.send(request)
      if (item.phase !== 'held') this.#grants.ended('item', item.id, token, by, item)
      return item as QueueItem<Input>
    } catch (error) {
      this.#grants.refused(error, 'item', id, token, by)
      throw error
    }
  }

  /** A write by which the holder gives up the item, successfully or not. */
  async finish<Name extends ItemWrite, Fields extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    fields: Fields,
    options: OptionsHere<Name, keyof Fields | 'ref'>,
  ): Promise<QueueItem<Input>> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#named(ref, by) ?? (await this.#find(ref, by))
    return await this.#end(operation, subject, fields, by)
  }

  /** Without a token, a repeated completion refers to the grant that was completed through this handle. */
  async complete<Name extends ItemWrite, Fields extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    fields: Fields,
    options: OptionsHere<Name, keyof Fields | 'ref'>,
  ): Promise<QueueItem<Input>> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#named(ref, by) ?? (await this.#find(ref, by))
    const token = subject.token ?? this.#grants.completedUnder(subject.id, by)
    const item = await this.#end(operation, { ...subject, token }, fields, by)
    if (token !== undefined && by.token === undefined) this.#grants.noteCompleted(item.id, token, by)
    return item
  }

  async release(ref: string, options: TokenOptions & { reason?: string | undefined }): Promise<boolean> {
    optionsOf('queue.release', options)
    const { sent, id, token } = this.#named(ref, options) ?? (await this.#find(ref, options))
    const request = this.#requests.of('queue.release', { ref: sent, token }, options)
    return await this.#requests.session.endGrant(request, { kind: 'item', name: id, token }, leftByRelease)
  }

  /** Skips defining the queue: it exists, since somebody holds an item of it. */
  async #end(
    operation: ItemWrite,
    { sent, id, token }: NamedItem,
    fields: object,
    by: TokenOptions,
  ): Promise<QueueItem<Input>> {
    const request = this.#requests.of(operation, { ...fields, ref: sent, token }, by)
    const grant = { kind: 'item', name: id, token } as const
    return (await this.#requests.session.endGrant(request, grant, leftBy)) as QueueItem<Input>
  }

  #named(ref: string, options: TokenOptions): NamedItem | null {
    return this.#grants.itemNamed(this.#requests.queue, ref, options)
  }

  /** Grants are remembered by id, so a key is looked up first. */
  async #find(ref: string, options: TokenOptions): Promise<NamedItem> {
    const id = (await this.#requests.get(ref))?.id ?? ref
    return { sent: id, id, token: this.#grants.tokenFor('item', id, options) }
  }
}

function leftBy({ phase }: Pick<ItemView, 'phase'>): LeaseLeft {
  return phase === 'held' ? 'held' : 'ended'
}
