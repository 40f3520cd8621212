/** Messages and their deliveries: by id, by due time, by lease, by recipient. */
import type { Delivery } from '../../../domain/delivery.ts'
import type { Message } from '../../../domain/message.ts'
import { inboxCursor, inboxPage, pageOf } from '../../page.ts'
import { noneLapsed, type Plan, type PlanScope } from '../plan.ts'
import { decodeAll, decodeDamaged, type Hold, now, ofInstances, Parameters, query } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** Greater than every character an id may have. */
const beyond = '\u007f'

function planMessages(
  scope: PlanScope,
  parameters: Parameters,
  rest: string,
  hold: Hold = 'skip',
): Plan<readonly Message[]> {
  return {
    queries: [query(scope, tables.message, hold, rest, parameters)],
    searched: ['message'],
    read: ([rows]) => decodeDamaged<Message>(tables.message, rows),
  }
}

function planDeliveries(
  scope: PlanScope,
  parameters: Parameters,
  rest: string,
  hold: Hold = 'skip',
): Plan<readonly Delivery[]> {
  return {
    queries: [query(scope, tables.delivery, hold, rest, parameters)],
    searched: ['delivery'],
    read: ([rows]) => decodeAll<Delivery>(tables.delivery, rows),
  }
}

/** A delivery is named after its message. */
function nameOfDelivery(id: string): string {
  const end = id.lastIndexOf('/')
  return end === -1 ? `delivery:${id}` : `message:${id.slice(0, end)}`
}

function messageNames(ids: readonly string[]): string[] {
  return [...new Set(ids)].map((id) => `message:${id}`)
}

/** Nobody waits for it any more, but an answer would still count, and it was not sent to this recipient again. */
const isAnswerable = `t.state = 'unanswered' and exists (
  select 1 from holdfast.message m
  where m.namespace = t.namespace and m.id = t.message and m.state in ('escalated', 'dead')
) and not exists (
  select 1 from holdfast.delivery later
  where later.namespace = t.namespace and later.message = t.message and later.recipient = t.recipient
  and (later.row > t.row or later.closed_at is null)
)`

export const messageLoaders = {
  messageByRef({ ref }, scope) {
    const parameters = new Parameters(scope)
    // An exact match comes before ids that only begin with the reference.
    const rest = `and t.id >= ${parameters.add(ref)} and t.id < ${parameters.add(`${ref}${beyond}`)}\norder by t.id\nlimit 2`
    return {
      names: messageNames([ref]),
      queries: [query(scope, tables.message, 'wait', rest, parameters)],
      searched: ['message'],
      read([rows]) {
        const found = decodeDamaged<Message>(tables.message, rows)
        return found[0]?.id === ref ? found.slice(0, 1) : found
      },
    }
  },

  messagesById({ ids }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(${parameters.add(ids)})\norder by t.id`
    return {
      ...planMessages(scope, parameters, rest, 'wait'),
      names: messageNames(ids),
      searched: [],
    }
  },

  deliveriesOf({ messages }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.message = any(${parameters.add(messages)})\norder by t.row`
    return { ...planDeliveries(scope, parameters, rest, 'wait'), names: messageNames(messages) }
  },

  deliveriesById({ ids }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(${parameters.add(ids)})\norder by t.id`
    return {
      ...planDeliveries(scope, parameters, rest, 'wait'),
      names: [...new Set(ids.map(nameOfDelivery))],
      searched: [],
    }
  },

  dueDeliveries: ({ adapters, limit }, scope) => ({
    queries: adapters.map((adapter) => {
      const parameters = new Parameters(scope)
      const rest = `and t.adapter = ${parameters.add(adapter)} and t.next_due_at <= ${now}\norder by t.next_due_at, t.id\nlimit ${parameters.add(limit)}`
      return query(scope, tables.delivery, 'skip', rest, parameters)
    }),
    searched: ['delivery'],
    read: (answers) =>
      answers
        .flatMap((rows) => decodeAll<Delivery>(tables.delivery, rows))
        .sort((left, right) => (left.nextDueAt ?? 0) - (right.nextDueAt ?? 0))
        .slice(0, limit),
  }),

  unansweredMessages({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(array(
  select d.message
  from holdfast.delivery d
  where d.namespace = $1 and d.gives_up_at <= ${now} and d.agent is null
  order by d.gives_up_at
  limit ${parameters.add(limit)}
))`
    return { ...planMessages(scope, parameters, rest), searched: ['message', 'delivery'] }
  },

  strandedDeliveries({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(array(
  select d.id
  from holdfast.delivery d
  where d.namespace = $1 and d.gives_up_at <= ${now} and d.agent is null
  order by d.gives_up_at
  limit ${parameters.add(limit)}
))
and not exists (select 1 from holdfast.message m where m.namespace = $1 and m.id = t.message)`
    return {
      queries: [query(scope, tables.delivery, 'skip', rest, parameters)],
      searched: ['message', 'delivery'],
      read: ([rows]) => decodeAll<Delivery>(tables.delivery, rows),
    }
  },

  dueMessages({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.due_at <= ${now}\norder by t.due_at\nlimit ${parameters.add(limit)}`
    return planMessages(scope, parameters, rest)
  },

  nextRedeliveryAt({ adapters }, scope) {
    const text = `select least(
  (
    select min(next.at)
    from unnest($2::text[]) as wanted (adapter)
    cross join lateral (
      select min(d.next_due_at) as at
      from holdfast.delivery d
      where d.namespace = $1 and d.adapter = wanted.adapter and d.next_due_at is not null
    ) next
  ),
  (select min(d.gives_up_at) from holdfast.delivery d where d.namespace = $1 and d.gives_up_at is not null and d.agent is null),
  (select min(m.due_at) from holdfast.message m where m.namespace = $1 and m.due_at is not null)
)`
    return {
      queries: [{ text, values: [scope.namespace, adapters] }],
      searched: ['delivery', 'message'],
      read: ([rows]) => (rows?.[0]?.[0] ?? null) as number | null,
    }
  },

  overdueDeliveries({ overdueMs, limit }, scope) {
    const parameters = new Parameters(scope)
    const due = 'from holdfast.delivery t where t.namespace = $1 and t.next_due_at is not null'
    // One seek per adapter, however many deliveries it has.
    const text = `with recursive found (adapter, scope) as (
  select (select t.adapter ${due} order by t.adapter limit 1), 1
  union all
  select (select t.adapter ${due} and t.adapter > f.adapter order by t.adapter limit 1), f.scope + 1
  from found f
  where f.adapter is not null and f.scope < 1000
)
select first.adapter, first.due_at
from (
  select found.adapter, (select t.next_due_at ${due} and t.adapter = found.adapter order by t.next_due_at limit 1) as due_at
  from found
  where found.adapter is not null
) first
where first.due_at < ${now} - ${parameters.add(overdueMs)}
order by first.due_at
limit ${parameters.add(limit)}`
    return {
      queries: [{ text, values: parameters.values }],
      searched: ['delivery'],
      read: ([rows = []]) =>
        rows.map(([adapter, dueAt]) => ({ adapter: String(adapter), dueAt: Number(dueAt) })),
    }
  },

  heldDeliveries({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.agent is not null\norder by t.expires_at\nlimit ${parameters.add(limit)}`
    return planDeliveries(scope, parameters, rest, 'none')
  },

  lapsedDeliveries({ limit }, scope) {
    if (scope.isDoubtful) return noneLapsed
    const parameters = new Parameters(scope)
    const rest = `and t.agent is not null and t.expires_at < ${now}\norder by t.expires_at\nlimit ${parameters.add(limit)}`
    return planDeliveries(scope, parameters, rest)
  },

  deliveriesOfInstances({ limit, waits, ...whose }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.agent is not null ${ofInstances(whose, parameters)}\norder by t.id\nlimit ${parameters.add(limit)}`
    return planDeliveries(scope, parameters, rest, waits ? 'wait' : 'skip')
  },

  inbox({ recipient, isUnread, isAll, limit, after }, scope) {
    const parameters = new Parameters(scope)
    const mine = `and t.recipient = ${parameters.add(recipient)}`
    const unread = isUnread ? 'and t.read_at is null' : ''
    // A delivery that only the inbox can make appears once it was tried; one with another adapter appears in any case.
    const visible = "and (t.attempts > 0 or t.adapter <> 'inbox')"
    if (isAll) {
      const from = after === null ? '' : `and t.id < ${parameters.add(after)}`
      const rest = `${mine} ${from} ${unread} ${visible}\norder by t.id desc\nlimit ${parameters.add(limit + 1)}`
      return {
        queries: [query(scope, tables.delivery, 'none', rest, parameters)],
        searched: ['delivery'],
        read: ([rows]) => pageOf(decodeAll<Delivery>(tables.delivery, rows), limit, ({ id }) => id),
      }
    }
    const cursor = inboxCursor(after)
    const from =
      cursor === null
        ? ''
        : `and (t.priority, t.id) > (${parameters.add(cursor[0])}, ${parameters.add(cursor[1])})`
    const rest = `${from} ${unread}\norder by t.priority, t.id\nlimit ${parameters.add(limit + 1)}`
    // Each by its own index: one condition for both would read everything a recipient ever got.
    const which = [`t.closed_at is null ${visible}`, isAnswerable]
    return {
      queries: which.map((each) =>
        query(scope, tables.delivery, 'none', `${mine} and ${each} ${rest}`, parameters),
      ),
      searched: ['delivery', 'message'],
      read: (answers) =>
        inboxPage(
          answers.flatMap((rows) => decodeAll<Delivery>(tables.delivery, rows)),
          limit,
        ),
    }
  },

  messages({ phase, sender, limit, after }, scope) {
    const parameters = new Parameters(scope)
    const where = phase === 'dead' ? "t.state = 'dead'" : 't.closed_at is null'
    const one = sender === null ? '' : `and t.sender = ${parameters.add(sender)}`
    const from = after === null ? '' : `and t.id > ${parameters.add(after)}`
    const rest = `and ${where} ${one} ${from}\norder by t.id\nlimit ${parameters.add(limit + 1)}`
    return {
      queries: [query(scope, tables.message, 'none', rest, parameters)],
      searched: ['message'],
      read: ([rows]) => pageOf(decodeDamaged<Message>(tables.message, rows), limit, ({ id }) => id),
    }
  },

  openMessageCount({ sender }, scope) {
    const parameters = new Parameters(scope)
    const one = sender === null ? '' : `and t.sender = ${parameters.add(sender)}`
    return {
      queries: [
        {
          text: `select count(*) from holdfast.message t where t.namespace = $1 and t.closed_at is null ${one}`,
          values: parameters.values,
        },
      ],
      searched: ['message'],
      read: ([rows]) => Number(rows?.[0]?.[0]),
    }
  },

  closedMessagesBefore({ before, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.closed_at <= ${parameters.add(before)}\norder by t.closed_at\nlimit ${parameters.add(limit)}`
    return planMessages(scope, parameters, rest)
  },
} satisfies Partial<Loaders>
