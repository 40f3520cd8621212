/** Who can be written to, and what the limits of a minute have let through. */
import type { Allowance } from '../../../domain/allowance.ts'
import type { Recipient } from '../../../domain/recipient.ts'
import { decodeAll, decodeDamaged, now, Parameters, query } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectRunning =
  'select distinct agent from holdfast.instance where namespace = $1 and ended_at is null order by agent'

/** One look a name: an agent of short-lived processes may have had thousands. */
const selectNamed = `select distinct wanted.name collate "C" as name
from unnest($2::text[]) as wanted (name)
where exists (select 1 from holdfast.instance i where i.namespace = $1 and i.agent = wanted.name)
order by name`

export const recipientLoaders = {
  recipients({ names, limit }, place) {
    const registered = new Parameters(place)
    const among = names === null ? '' : `and t.name = any(${registered.add(names)})`
    const rest = `${among}\norder by t.name\nlimit ${registered.add(limit)}`
    const agents = new Parameters(place)
    if (names !== null) agents.add(names)
    const text = `${names === null ? selectRunning : selectNamed}\nlimit ${agents.add(limit)}`
    return {
      // Read by everybody who sends, changed by those who register.
      sharedNames: (names ?? []).map((name) => `recipient:${name}`),
      queries: [query(place, tables.recipient, 'none', rest, registered), { text, values: agents.values }],
      searched: names === null ? ['recipient', 'instance'] : ['instance'],
      read: ([rows, running]) => ({
        registered: decodeAll<Recipient>(tables.recipient, rows),
        agents: (running ?? []).map(([agent]) => String(agent)),
      }),
    }
  },

  allowances({ names }, place) {
    const parameters = new Parameters(place)
    const rest = `and t.name = any(${parameters.add(names)})\norder by t.name`
    return {
      names: names.map((name) => `allowance:${name}`),
      queries: names.length === 0 ? [] : [query(place, tables.allowance, 'wait', rest, parameters)],
      read: ([rows]) => decodeDamaged<Allowance>(tables.allowance, rows),
    }
  },

  allowancesBefore({ ageMs, limit }, place) {
    const parameters = new Parameters(place)
    const rest = `and t.at < ${now} - ${parameters.add(ageMs)}\norder by t.at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(place, tables.allowance, 'skip', rest, parameters)],
      searched: ['allowance'],
      read: ([rows]) => decodeDamaged<Allowance>(tables.allowance, rows),
    }
  },
} satisfies Partial<Loaders>
