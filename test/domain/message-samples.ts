/** Messages and deliveries as the store would hand them to a rule; frozen, so that a rule changing its input would throw. */
import type { Delivery } from '../../src/domain/delivery.ts'
import { createMessage, type NewMessage, type Thread } from '../../src/domain/message.ts'
import { type Recipient, unregistered } from '../../src/domain/recipient.ts'
import { makePolicy, type PolicyRequest } from '../../src/domain/redelivery-policy.ts'
import { at } from './samples.ts'

export const pigeonPost = (name: string): Recipient => ({ ...unregistered(name), adapter: 'pigeon' })

/** From ada, to these, by inbox unless told otherwise. */
export function aThread(
  names: readonly string[],
  request: Partial<NewMessage> & PolicyRequest & { firstAt?: number; by?: (name: string) => Recipient } = {},
): Thread {
  const { firstAt = at.now, by = unregistered, ...rest } = request
  const message: NewMessage = {
    id: 'm',
    sender: 'ada',
    type: 'INFO',
    content: '"hello"',
    context: null,
    parent: null,
    priority: 5,
    quorum: names.length,
    policy: makePolicy(request),
    ...rest,
  }
  return freeze(createMessage(message, names.map(by), { ...at, firstAt }))
}

export function freeze(thread: Thread): Thread {
  for (const delivery of thread.deliveries) Object.freeze(delivery)
  return Object.freeze({ message: Object.freeze(thread.message), deliveries: thread.deliveries })
}

/** The only delivery of a message to bob. */
export function toBob(fields: Partial<Delivery> = {}): Delivery {
  return Object.freeze({ ...(aThread(['bob'], { by: pigeonPost }).deliveries[0] as Delivery), ...fields })
}
