/** Who can receive messages, and what the limits per minute have let through. */
import type { Allowance } from '../../../domain/allowance.ts'
import type { Addressable, Recipient } from '../../../domain/recipient.ts'
import { decodeAll, decodeDamaged, decodeFirst, now, Parameters, query } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectRunning =
  'select distinct agent from holdfast.instance where namespace = $1 and ended_at is null order by agent'

const selectAnybody = `select agent from holdfast.instance where namespace = $1 and ended_at is null
union
select name from holdfast.addressable where namespace = $1
order by 1`

/** One lookup per name: an agent of short-lived processes may have had thousands of them. */
const selectNamed = `select distinct wanted.name collate "C" as name
from unnest($2::text[]) as wanted (name)
where exists (select 1 from holdfast.instance i where i.namespace = $1 and i.agent = wanted.name)
or exists (select 1 from holdfast.addressable a where a.namespace = $1 and a.name = wanted.name)
order by name`

export const recipientLoaders = {
  recipients({ names, limit, isAnybody }, scope) {
    const registered = new Parameters(scope)
    const among = names === null ? '' : `and t.name = any(${registered.add(names)})`
    const rest = `${among}\norder by t.name\nlimit ${registered.add(limit)}`
    const agents = new Parameters(scope)
    if (names !== null) agents.add(names)
    const everybody = isAnybody ? selectAnybody : selectRunning
    const text = `${names === null ? everybody : selectNamed}\nlimit ${agents.add(limit)}`
    return {
      // Read by everybody who sends, changed only by those who register.
      sharedNames: (names ?? []).map((name) => `recipient:${name}`),
      queries: [query(scope, tables.recipient, 'none', rest, registered), { text, values: agents.values }],
      searched: names === null ? ['recipient', 'instance', 'addressable'] : ['instance', 'addressable'],
      read: ([rows, running]) => ({
        registered: decodeAll<Recipient>(tables.recipient, rows),
        agents: (running ?? []).map(([agent]) => String(agent)),
      }),
    }
  },

  addressable({ name }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.name = ${parameters.add(name)}`
    return {
      // The same name as for claims that look for the process behind an agent: it is new only once.
      names: [`agent:${name}`],
      queries: [query(scope, tables.addressable, 'none', rest, parameters)],
      read: ([rows]) => decodeFirst<Addressable>(tables.addressable, rows),
    }
  },

  unusedNames({ before, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.at <= ${parameters.add(before)}
and not exists (select 1 from holdfast.delivery d where d.namespace = $1 and d.recipient = t.name)
and not exists (select 1 from holdfast.message m where m.namespace = $1 and m.sender = t.name and m.closed_at is null)
order by t.at
limit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.addressable, 'skip', rest, parameters)],
      searched: ['addressable', 'delivery', 'message'],
      read: ([rows]) => decodeAll<Addressable>(tables.addressable, rows),
    }
  },

  allowances({ names }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.name = any(${parameters.add(names)})\norder by t.name`
    return {
      names: names.map((name) => `allowance:${name}`),
      queries: names.length === 0 ? [] : [query(scope, tables.allowance, 'wait', rest, parameters)],
      read: ([rows]) => decodeDamaged<Allowance>(tables.allowance, rows),
    }
  },

  allowancesBefore({ ageMs, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.at < ${now} - ${parameters.add(ageMs)}\norder by t.at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.allowance, 'skip', rest, parameters)],
      searched: ['allowance'],
      read: ([rows]) => decodeDamaged<Allowance>(tables.allowance, rows),
    }
  },
} satisfies Partial<Loaders>
