/** How queries treat rows that others hold, and other forms of the same queries. */
import type { Query } from './plan.ts'

const locking = /for no key update( of \w+)?( skip locked)?/g

/** Makes the query fail at once if another transaction holds a row. */
export function withoutWaiting(query: Query): Query {
  if (query.hold === undefined) return query
  return { ...query, text: query.text.replace(locking, 'for no key update$1 nowait'), hold: 'fail' }
}

/** Counts the rows, whoever has locked them. */
export function counting({ text, values }: Query): Query {
  return { text: `select count(*) from (${text.replace(locking, '')}) found`, values }
}
