/** Names stand for things, there or not: whoever decides on one holds its name until the commit. */
import { createHash } from 'node:crypto'
import type { Change } from '../engine.ts'

const queueName = (queue: string) => `queue:${queue}`
const workflowName = (workflow: string) => `workflow:${workflow}`

/** An item that is not there yet is decided on by its key. */
export const keyName = (queue: string, key: string) => `key:${queue}\n${key}`
export const dedupeKeyName = (queue: string, key: string) => `dedupe:${queue}\n${key}`

/** What a change is known by to commands that come after it in the same batch. */
export function namesOf(change: Change): string[] {
  const row = (change.after ?? change.before) as unknown as Record<string, string>
  switch (change.table) {
    case 'lock':
      return row.patterns == null ? [`lock:${row.name}`] : [`lock:${row.name}`, 'reservations']
    case 'waiter':
      return [`lock:${row.name}`]
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
    case 'allowance':
      return [`allowance:${row.name}`]
    case 'state':
      return [`state:${row.key}`]
    case 'stateFloor':
      return ['state-floor']
    case 'recoveryTotal':
      return ['recovery-total']
    case 'checkpoint':
      return ['checkpoint']
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
