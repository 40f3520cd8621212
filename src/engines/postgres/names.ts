/** Names stand for things, there or not: whoever decides on one holds its name until the commit. */
import { createHash } from 'node:crypto'
import type { Change } from '../engine.ts'
import type { Query } from './plan.ts'

const queueName = (queue: string) => `queue:${queue}`
const workflowName = (workflow: string) => `workflow:${workflow}`

/** An item that is not there yet is decided on by its key. */
export const keyName = (queue: string, key: string) => `key:${queue}\n${key}`
export const dedupeKeyName = (queue: string, key: string) => `dedupe:${queue}\n${key}`

/** Whoever takes a place in line counts those it has. */
export const placesName = (agent: string) => `places:${agent}`

/** What items wait for that were there before: whoever sets it holds this name alone. */
export const blockersName = 'blockers'

/** What a change is known by to commands that come after it in the same batch. */
export function namesOf(change: Change): string[] {
  const row = (change.after ?? change.before) as unknown as Record<string, string>
  switch (change.table) {
    case 'lock':
      return row.patterns == null ? [`lock:${row.name}`] : [`lock:${row.name}`, 'reservations']
    case 'waiter':
      return change.before === null
        ? [`lock:${row.name}`, placesName(row.agent as string)]
        : [`lock:${row.name}`]
    case 'progress':
    case 'outcome':
      return [`run:${row.run}`]
    case 'queue':
      return [queueName(row.name as string)]
    case 'workflow':
      return [workflowName(row.name as string)]
    case 'instance':
      return [`instance:${row.id}`, `agent:${row.agent}`]
    case 'answer':
      return [`answer:${row.key}`]
    case 'message':
      return [`message:${row.id}`]
    case 'delivery':
      return [`message:${row.message}`, `delivery:${row.id}`]
    case 'recipient':
      return [`recipient:${row.name}`]
    case 'addressable':
      return [`agent:${row.name}`]
    case 'allowance':
      return [`allowance:${row.name}`]
    case 'state':
      return [`state:${row.key}`]
    case 'stateFloor':
      return ['state-floor']
    case 'recoveryTotal':
      return ['recovery-total']
    case 'recoveryFailure':
      return ['recovery-failure']
    case 'checkpoint':
      return ['checkpoint']
    case 'horizon':
      return ['horizon']
    default:
      return []
  }
}

const numbers = new Map<string, string>()
const numbersMax = 10_000

/** The number an advisory lock is taken on. */
export function lockNumber(schema: string, namespace: string, name: string): string {
  const whole = `${schema}\n${namespace}\n${name}`
  const known = numbers.get(whole)
  if (known !== undefined) return known
  const number = createHash('sha1').update(whole).digest().readBigInt64BE(0).toString()
  // Names of queues come with every batch; those of keys and locks come and go.
  if (numbers.size >= numbersMax) numbers.clear()
  numbers.set(whole, number)
  return number
}

const takeShared = 'select pg_advisory_xact_lock_shared($1)'
const takeAlone = 'select pg_advisory_xact_lock($1)'
const takeNames = `select count(
  case when shared then pg_advisory_xact_lock_shared(number) is null else pg_advisory_xact_lock(number) is null end
)
from unnest($1::bigint[], $2::boolean[]) as given (number, shared)`
/** So many names are taken faster one by one. */
const fewNames = 3
/** Answers whether all could be had. */
export const tryNames =
  'select coalesce(bool_and(pg_try_advisory_xact_lock(number)), true) from unnest($1::bigint[]) as number'

/** Takes numbers for the transaction, in the order given. */
export function taking(names: readonly (readonly [number: string, isShared: boolean])[]): Query[] {
  if (names.length <= fewNames) {
    return names.map(([number, isShared]) => ({ text: isShared ? takeShared : takeAlone, values: [number] }))
  }
  return [{ text: takeNames, values: [names.map(([number]) => number), names.map(([, is]) => is)] }]
}

/** Takes them if nobody has them. */
export function trying(numbers: readonly string[]): Query[] {
  return numbers.length === 0 ? [] : [{ text: tryNames, values: [numbers] }]
}
