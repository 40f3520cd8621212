/** Who can be sent messages, and what the per-minute limits have let through. */
import type { Allowance } from '../../../domain/allowance.ts'
import type { Addressable, Recipient } from '../../../domain/recipient.ts'
import { inList, select } from '../rows.ts'
import { decode, decodeDamaged, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectRecipient = select(tables.recipient)
const selectAllowance = select(tables.allowance)
const selectAddressable = select(tables.addressable)

const selectRunning =
  'select distinct agent from instance indexed by instance_running where namespace = ? and ended_at is null order by agent'

const selectAnybody = `select agent from instance indexed by instance_running where namespace = ?1 and ended_at is null
union
select name from addressable where namespace = ?1
order by 1`

/** One lookup per name: an agent of short-lived processes may have had thousands of instances. */
const selectNamed = `select distinct value
from json_each(?2)
where exists (select 1 from instance where namespace = ?1 and agent = value)
or exists (select 1 from addressable where namespace = ?1 and name = value)
order by value`

export const recipientLoaders = {
  recipients({ connection, namespace }, { names, limit, isAnybody }) {
    const named = names === null ? [] : [inList(names)]
    const among = 'in (select value from json_each(?))'
    const registered = connection.all(
      `${selectRecipient}\nwhere namespace = ? ${names === null ? '' : `and name ${among}`}\norder by name\nlimit ${limit}`,
      namespace,
      ...named,
    )
    const everybody = isAnybody ? selectAnybody : selectRunning
    const agents = connection.all(
      `${names === null ? everybody : selectNamed}\nlimit ${limit}`,
      namespace,
      ...named,
    )
    return {
      registered: registered.map((row) => decode<Recipient>(tables.recipient, row)),
      agents: agents.map(([agent]) => String(agent)),
    }
  },

  addressable({ connection, namespace }, { name }) {
    const row = connection.get(`${selectAddressable}\nwhere namespace = ? and name = ?`, namespace, name)
    return row ? decode<Addressable>(tables.addressable, row) : null
  },

  unusedNames: ({ connection, namespace }, { before, limit }) =>
    connection
      .all(
        `${selectAddressable}
where namespace = ?1 and at <= ?2
and not exists (select 1 from delivery where delivery.namespace = ?1 and recipient = addressable.name)
and not exists (select 1 from message where message.namespace = ?1 and sender = addressable.name and closed_at is null)
order by at
limit ${limit}`,
        namespace,
        BigInt(before),
      )
      .map((row) => decode<Addressable>(tables.addressable, row)),

  allowances: ({ connection, namespace }, { names }) =>
    connection
      .all(
        `${selectAllowance}\nwhere namespace = ? and name in (select value from json_each(?))`,
        namespace,
        inList(names),
      )
      .map((row) => decodeDamaged<Allowance>(tables.allowance, row)),

  allowancesBefore: ({ connection, namespace, now }, { ageMs, limit }) =>
    connection
      .all(
        `${selectAllowance}\nwhere namespace = ? and at < ?\norder by at\nlimit ${limit}`,
        namespace,
        BigInt(now - ageMs),
      )
      .map((row) => decodeDamaged<Allowance>(tables.allowance, row)),
} satisfies Partial<Loaders>
