/** Names stand for things, existing or not. A transaction that decides on a thing holds its name until it commits. */
import { createHash } from 'node:crypto'
import type { Change } from '../../port/decision.ts'
import type { Query } from './plan.ts'

const queueName = (queue: string) => `queue:${queue}`
const workflowName = (workflow: string) => `workflow:${workflow}`

/** An item that does not exist yet is decided on by its key. */
export const keyName = (queue: string, key: string) => `key:${queue}\n${key}`
export const dedupeKeyName = (queue: string, key: string) => `dedupe:${queue}\n${key}`

/** A command that joins a line counts the places its agent already has. */
export const waitersName = (agent: string) => `waiters:${agent}`

/** Held alone by commands that change what existing items wait for or are stacked on. */
export const blockersName = 'blockers'

/** The names under which later commands of the same batch know a change. */
export function namesOf(change: Change): string[] {
  const row = (change.after ?? change.before) as unknown as Record<string, string>
  switch (change.table) {
    case 'lock':
      return row.patterns == null ? [`lock:${row.name}`] : [`lock:${row.name}`, 'reservations']
    case 'waiter':
      return change.before === null
        ? [`lock:${row.name}`, waitersName(row.agent as string)]
        : [`lock:${row.name}`]
    case 'run':
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

/** A batch locks up to this many names of one family one by one. */
const maxSingle = 64

/** Kinds of names that come by the hundred: each call of a program may bring a new one. */
const manifold = new Set([
  ...['lock', 'state', 'answer', 'message', 'delivery', 'waiters'],
  ...['run', 'instance', 'agent', 'recipient', 'allowance', 'workflow'],
])

/** The name that stands for all names of a kind; null for kinds that have none. */
function familyOf(name: string): string | null {
  const kind = kindOf(name)
  if (kind === 'key' || kind === 'dedupe') return `keys:${name.slice(kind.length + 1, name.indexOf('\n'))}`
  return manifold.has(kind) ? `every ${kind}` : null
}

function kindOf(name: string): string {
  return name.slice(0, name.indexOf(':'))
}

/**
 * Almost every batch wants some queue, and hardly ever alone. A name for all queues would be one more lock for each
 * batch, and would let a batch with many queues wait for all others; so queues share a few locks instead.
 */
const queueLocks = 64

/** What is locked for a name. */
function lockOf(name: string): string {
  if (kindOf(name) !== 'queue') return name
  return `queues:${BigInt.asUintN(64, BigInt(lockNumber('', '', name))) % BigInt(queueLocks)}`
}

/**
 * The names a transaction holds. The server's lock table has a few thousand slots for all its users, so a batch must
 * not take one for each of a thousand keys. A batch that wants a few names of a family locks the family's name shared
 * and each of its own names alone; one that wants many locks the family's name alone, and no others.
 */
export class HeldNames {
  /** What is locked, and whether it is shared. */
  readonly #locked = new Map<string, boolean>()
  readonly #alone = new Set<string>()

  isAlone(name: string): boolean {
    const family = familyOf(name)
    return this.#alone.has(name) || (family !== null && this.#locked.get(family) === false)
  }

  /** What else to lock in order to hold these too, and whether each lock is shared. */
  lacking({
    alone,
    shared = none,
  }: {
    alone: ReadonlySet<string>
    shared?: ReadonlySet<string>
  }): NameLock[] {
    const wanted = [...alone, ...[...shared].filter((name) => !alone.has(name))]
    const counts = new Map<string | null, number>()
    for (const name of wanted) counts.set(familyOf(name), (counts.get(familyOf(name)) ?? 0) + 1)
    const locks = new Map<string, boolean>()
    for (const name of wanted) {
      const family = familyOf(name)
      const isMany = family !== null && (counts.get(family) ?? 0) > maxSingle
      if (family !== null) locks.set(family, !isMany)
      if (isMany) continue
      const lock = lockOf(name)
      locks.set(lock, !alone.has(name) && locks.get(lock) !== false)
    }
    return [...locks].filter(([name, isShared]) => !this.#isLocked(name, isShared))
  }

  #isLocked(name: string, isShared: boolean): boolean {
    const held = this.#locked.get(name)
    return held === false || (held === true && isShared)
  }

  note(locks: readonly NameLock[], alone: Iterable<string>): void {
    for (const [lock, isShared] of locks) this.#locked.set(lock, isShared)
    for (const name of alone) this.#alone.add(name)
  }
}

/** A name, or the number it is locked by, and whether others may hold it too. */
export type NameLock = readonly [name: string, isShared: boolean]

const none: ReadonlySet<string> = new Set()

const numbers = new Map<string, string>()
const maxNumbers = 10_000

/** The number an advisory lock is taken on. */
export function lockNumber(schema: string, namespace: string, name: string): string {
  const whole = `${schema}\n${namespace}\n${name}`
  const known = numbers.get(whole)
  if (known !== undefined) return known
  const number = createHash('sha1').update(whole).digest().readBigInt64BE(0).toString()
  // Names of queues come with every batch; those of keys and locks come and go.
  if (numbers.size >= maxNumbers) numbers.clear()
  numbers.set(whole, number)
  return number
}

const takeShared = 'select pg_advisory_xact_lock_shared($1)'
const takeAlone = 'select pg_advisory_xact_lock($1)'
const takeNames = `select count(
  case when shared then pg_advisory_xact_lock_shared(number) is null else pg_advisory_xact_lock(number) is null end
)
from unnest($1::bigint[], $2::boolean[]) as given (number, shared)`
/** Up to this many names are taken faster one by one. */
const fewNames = 3
/** Returns whether all of them could be taken. */
const tryNames = `select coalesce(bool_and(
  case when shared then pg_try_advisory_xact_lock_shared(number) else pg_try_advisory_xact_lock(number) end
), true)
from unnest($1::bigint[], $2::boolean[]) as given (number, shared)`

/** Locks numbers for the transaction, in the order given. */
export function taking(names: readonly NameLock[]): Query[] {
  if (names.length <= fewNames) {
    return names.map(([number, isShared]) => ({ text: isShared ? takeShared : takeAlone, values: [number] }))
  }
  return [{ text: takeNames, values: columnsOf(names) }]
}

/** Takes them if nobody has them. */
export function trying(names: readonly NameLock[]): Query[] {
  return names.length === 0 ? [] : [{ text: tryNames, values: columnsOf(names) }]
}

function columnsOf(names: readonly NameLock[]): [string[], boolean[]] {
  return [names.map(([number]) => number), names.map(([, isShared]) => isShared)]
}
