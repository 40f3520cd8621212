/** Messages and their deliveries: by id, by due time, by lease, by recipient. */
import type { Delivery } from '../../../domain/delivery.ts'
import type { Message } from '../../../domain/message.ts'
import { inboxCursor, inboxPage, pageOf } from '../../page.ts'
import { QueryTexts } from '../../query-texts.ts'
import type { Value } from '../driver.ts'
import { inList, ofInstances, ofInstancesValues, type Source, select } from '../rows.ts'
import { decode, decodeDamaged, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectMessage = select(tables.message)
const selectDelivery = select(tables.delivery)

const messageTexts = new QueryTexts()
const deliveryTexts = new QueryTexts()

function messages(source: Source, where: string, ...values: Value[]): Message[] {
  return source.connection
    .all(
      messageTexts.of(where, () => `${selectMessage}\n${where}`),
      source.namespace,
      ...values,
    )
    .map((row) => decodeDamaged<Message>(tables.message, row))
}

function deliveries(source: Source, where: string, ...values: Value[]): Delivery[] {
  return source.connection
    .all(
      deliveryTexts.of(where, () => `${selectDelivery}\n${where}`),
      source.namespace,
      ...values,
    )
    .map((row) => decode<Delivery>(tables.delivery, row))
}

function earliest(source: Source, sql: string, ...values: Value[]): number {
  return Number(source.connection.get(sql, source.namespace, ...values)?.[0] ?? Number.POSITIVE_INFINITY)
}

/** Greater than every character an id may have. */
const beyond = '\u007f'

/**
 * Nobody waits for an answer any more, but one would still count, and this recipient was not sent the message again.
 */
const isAnswerable = `state = 'unanswered' and exists (
  select 1 from message
  where message.namespace = delivery.namespace and message.id = delivery.message and message.state in ('escalated', 'dead')
) and not exists (
  select 1 from delivery as later
  where later.namespace = delivery.namespace and later.message = delivery.message and later.recipient = delivery.recipient
  and (later.row > delivery.row or later.closed_at is null)
)`

export const messageLoaders = {
  messageByRef(source, { ref }) {
    const exact = messages(source, 'where namespace = ? and id = ?', ref)
    if (exact.length > 0) return exact
    return messages(
      source,
      'where namespace = ? and id > ? and id < ?\norder by id\nlimit 2',
      ref,
      `${ref}${beyond}`,
    )
  },

  messagesById: (source, { ids }) =>
    messages(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  deliveriesOf: (source, { messages: ids }) =>
    deliveries(
      source,
      'where namespace = ? and message in (select value from json_each(?))\norder by row',
      inList(ids),
    ),

  deliveriesById: (source, { ids }) =>
    deliveries(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  dueDeliveries(source, { adapters, limit }) {
    const found = adapters.flatMap((adapter) =>
      deliveries(
        source,
        `where namespace = ? and adapter = ? and next_due_at <= ?\norder by next_due_at\nlimit ${limit}`,
        adapter,
        BigInt(source.now),
      ),
    )
    return found.sort((left, right) => (left.nextDueAt ?? 0) - (right.nextDueAt ?? 0)).slice(0, limit)
  },

  unansweredMessages: (source, { limit }) =>
    messages(
      source,
      `where namespace = ?1 and id in (
  select message from delivery
  where delivery.namespace = ?1 and gives_up_at <= ?2 and agent is null
  order by gives_up_at
  limit ${limit}
)`,
      BigInt(source.now),
    ),

  strandedDeliveries: (source, { limit }) =>
    deliveries(
      source,
      // The plus disables the namespace index, which would lead through all rows of the namespace; the subquery has
      // already narrowed them down.
      `where +namespace = ?1 and row in (
  select row from delivery
  where delivery.namespace = ?1 and gives_up_at <= ?2 and agent is null
  order by gives_up_at
  limit ${limit}
)
and not exists (select 1 from message where message.namespace = ?1 and message.id = delivery.message)`,
      BigInt(source.now),
    ),

  dueMessages: (source, { limit }) =>
    messages(
      source,
      `where namespace = ? and due_at <= ?\norder by due_at\nlimit ${limit}`,
      BigInt(source.now),
    ),

  nextRedeliveryAt(source, { adapters }) {
    const sending = adapters.map((adapter) =>
      earliest(
        source,
        'select min(next_due_at) from delivery where namespace = ? and adapter = ? and next_due_at is not null',
        adapter,
      ),
    )
    const expiry = earliest(
      source,
      'select min(gives_up_at) from delivery where namespace = ? and gives_up_at is not null and agent is null',
    )
    const level = earliest(
      source,
      'select min(due_at) from message where namespace = ? and due_at is not null',
    )
    const next = Math.min(...sending, expiry, level)
    return Number.isFinite(next) ? next : null
  },

  overdueDeliveries: (source, { overdueMs, limit }) =>
    source.connection
      .all(
        // One seek per adapter, however many deliveries it has.
        `with recursive found (adapter) as (
  select min(adapter) from delivery indexed by delivery_due where namespace = ?1 and next_due_at is not null
  union all
  select (select min(adapter) from delivery indexed by delivery_due where namespace = ?1 and next_due_at is not null and adapter > found.adapter)
  from found
  where adapter is not null
  limit 1000
), first as (
  select adapter, (select min(next_due_at) from delivery where namespace = ?1 and delivery.adapter = found.adapter and next_due_at is not null) as due_at
  from found
  where adapter is not null
)
select adapter, due_at
from first
where due_at < ?2
order by due_at
limit ${limit}`,
        source.namespace,
        BigInt(source.now - overdueMs),
      )
      .map(([adapter, dueAt]) => ({ adapter: String(adapter), dueAt: Number(dueAt) })),

  heldDeliveries: (source, { limit }) =>
    deliveries(source, `where namespace = ? and agent is not null\norder by expires_at\nlimit ${limit}`),

  lapsedDeliveries: (source, { limit }) =>
    deliveries(
      source,
      `where namespace = ? and agent is not null and expires_at < ?\norder by expires_at\nlimit ${limit}`,
      BigInt(source.now),
    ),

  deliveriesOfInstances: (source, { limit, ...whose }) =>
    deliveries(
      source,
      `where namespace = ? and agent is not null ${ofInstances}\nlimit ${limit}`,
      ...ofInstancesValues(whose),
    ),

  inbox(source, { recipient, isUnread, isAll, limit, after }) {
    const unread = isUnread ? 'and read_at is null' : ''
    // A delivery with no other channel shows up once it was attempted; one with another channel always does.
    const visible = "and (attempts > 0 or adapter <> 'inbox')"
    if (isAll) {
      const from = after === null ? '' : 'and id < ?'
      const rows = deliveries(
        source,
        `where namespace = ? and recipient = ? ${from} ${unread} ${visible}\norder by id desc\nlimit ${limit + 1}`,
        recipient,
        ...(after === null ? [] : [after]),
      )
      return pageOf(rows, limit, ({ id }) => id)
    }
    const cursor = inboxCursor(after)
    const from = cursor === null ? '' : 'and (priority, id) > (?, ?)'
    const cursorValues = cursor === null ? [] : [BigInt(cursor[0]), cursor[1]]
    // Two queries, each with its own index: a combined condition would read everything the recipient ever got.
    const found = [`closed_at is null ${visible}`, isAnswerable].flatMap((which) =>
      deliveries(
        source,
        `where namespace = ? and recipient = ? and ${which} ${from} ${unread}\norder by priority, id\nlimit ${limit + 1}`,
        recipient,
        ...cursorValues,
      ),
    )
    return inboxPage(found, limit)
  },

  messages(source, { phase, sender, limit, after }) {
    const where = phase === 'dead' ? "state = 'dead'" : 'closed_at is null'
    const one = sender === null ? '' : 'and sender = ?'
    const from = after === null ? '' : 'and id > ?'
    const rows = messages(
      source,
      `where namespace = ? and ${where} ${one} ${from}\norder by id\nlimit ${limit + 1}`,
      ...(sender === null ? [] : [sender]),
      ...(after === null ? [] : [after]),
    )
    return pageOf(rows, limit, ({ id }) => id)
  },

  openMessageCount(source, { sender }) {
    const one = sender === null ? '' : 'and sender = ?'
    const sql = `select count(*) from message where namespace = ? and closed_at is null ${one}`
    return Number(source.connection.get(sql, source.namespace, ...(sender === null ? [] : [sender]))?.[0])
  },

  closedMessagesBefore: (source, { before, limit }) =>
    messages(
      source,
      `where namespace = ? and closed_at <= ?\norder by closed_at\nlimit ${limit}`,
      BigInt(before),
    ),
} satisfies Partial<Loaders>
