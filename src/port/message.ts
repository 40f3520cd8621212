/** Messages, deliveries and recipients: how a command names them. */
import type { Allowance } from '../domain/allowance.ts'
import type { Delivery } from '../domain/delivery.ts'
import type { Message } from '../domain/message.ts'
import type { Addressable, Recipient } from '../domain/recipient.ts'
import type { OfInstances } from './instance.ts'
import type { Page } from './page.ts'

export interface MessageSelectors {
  nearDeliveries: [{ ids: readonly string[] | null; limit: number }, readonly Delivery[]]
  /** By id, or by a prefix of it; two if the prefix is ambiguous. */
  messageByRef: [{ ref: string }, readonly Message[]]
  messagesById: [{ ids: readonly string[] }, readonly Message[]]
  /** All deliveries of these messages, in the order they were created. */
  deliveriesOf: [{ messages: readonly string[] }, readonly Delivery[]]
  deliveriesById: [{ ids: readonly string[] }, readonly Delivery[]]
  /** Deliveries that one of these adapters has to send now, longest due first. */
  dueDeliveries: [{ adapters: readonly string[]; limit: number }, readonly Delivery[]]
  /** Messages with a delivery whose wait for an answer has ended and that nobody is sending. */
  unansweredMessages: [{ limit: number }, readonly Message[]]
  /** Among the first deliveries whose wait for an answer has ended, those whose message is missing. */
  strandedDeliveries: [{ limit: number }, readonly Delivery[]]
  /** Messages that have reached their next escalation level. */
  dueMessages: [{ limit: number }, readonly Message[]]
  /** When the next delivery, end of a wait or escalation is due, on the lease clock. */
  nextRedeliveryAt: [{ adapters: readonly string[] }, number | null]
  /** For each adapter with a delivery overdue by this much, when its first one was due; longest overdue first. */
  overdueDeliveries: [
    { overdueMs: number; limit: number },
    readonly { readonly adapter: string; readonly dueAt: number }[],
  ]
  /** Deliveries being sent, soonest expiry first. */
  heldDeliveries: [{ limit: number }, readonly Delivery[]]
  lapsedDeliveries: [{ limit: number }, readonly Delivery[]]
  deliveriesOfInstances: [OfInstances, readonly Delivery[]]
  /** What a recipient was sent: open deliveries by priority and age, or all of them, newest first. */
  inbox: [
    { recipient: string; isUnread: boolean; isAll: boolean; limit: number; after: string | null },
    Page<Delivery>,
  ]
  /** Open messages, or dead letters, by id, which is also by age. */
  messages: [
    { phase: 'open' | 'dead'; sender: string | null; limit: number; after: string | null },
    Page<Message>,
  ]
  openMessageCount: [{ sender: string | null }, number]
  closedMessagesBefore: [{ before: number; limit: number }, readonly Message[]]
  /**
   * Registered recipients, and agents that opened the store or acted in it. Without names: all running ones, or with
   * `isAnybody` everyone who can be sent a message.
   */
  recipients: [
    { names: readonly string[] | null; limit: number; isAnybody?: true },
    { registered: readonly Recipient[]; agents: readonly string[] },
  ]
  /** Null if nobody has acted under this name. */
  addressable: [{ name: string }, Addressable | null]
  /** Names known since then or earlier, without a delivery and without an open message of their own. */
  unusedNames: [{ before: number; limit: number }, readonly Addressable[]]
  allowances: [{ names: readonly string[] }, readonly Allowance[]]
  /** Allowances whose last mark is older than this, on the lease clock. */
  allowancesBefore: [{ ageMs: number; limit: number }, readonly Allowance[]]
}
