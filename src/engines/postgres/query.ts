/** How queries treat what others hold, and the same queries in other forms. */
import type { Query } from './plan.ts'

const locking = /for no key update( of \w+)?( skip locked)?/g

/** Whether it may wait for what others hold. */
export function waits({ text }: Query): boolean {
  return text.includes('for no key update') && !text.includes('skip locked')
}

/** Fails at once where a row is held by another. */
export function withoutWaiting(query: Query): Query {
  return { ...query, text: query.text.replace(locking, 'for no key update$1 nowait') }
}

/** How many rows there are, whoever has locked them. */
export function counting({ text, values }: Query): Query {
  return { text: `select count(*) from (${text.replace(locking, '')}) found`, values }
}
