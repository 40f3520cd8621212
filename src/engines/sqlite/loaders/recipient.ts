/** Who can be written to, and what the limits of a minute have let through. */
import type { Allowance } from '../../../domain/allowance.ts'
import type { Recipient } from '../../../domain/recipient.ts'
import { inList, select } from '../rows.ts'
import { decode, decodeDamaged, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectRecipient = select(tables.recipient)
const selectAllowance = select(tables.allowance)

const selectRunning =
  'select distinct agent from instance indexed by instance_running where namespace = ? and ended_at is null order by agent'

/** One look a name: an agent of short-lived processes may have had thousands. */
const selectNamed = `select distinct value
from json_each(?2)
where exists (select 1 from instance where namespace = ?1 and agent = value)
order by value`

export const recipientLoaders = {
  recipients({ connection, namespace }, { names, limit }) {
    const named = names === null ? [] : [inList(names)]
    const among = 'in (select value from json_each(?))'
    const registered = connection.all(
      `${selectRecipient}\nwhere namespace = ? ${names === null ? '' : `and name ${among}`}\norder by name\nlimit ${limit}`,
      namespace,
      ...named,
    )
    const agents = connection.all(
      `${names === null ? selectRunning : selectNamed}\nlimit ${limit}`,
      namespace,
      ...named,
    )
    return {
      registered: registered.map((row) => decode<Recipient>(tables.recipient, row)),
      agents: agents.map(([agent]) => String(agent)),
    }
  },

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
