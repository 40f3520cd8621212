/** The lease a command acts under, and its token: from `--token`, `HOLDFAST_TOKEN` or the lease file. */

import { processingLockName } from '../domain/queue.ts'
import { quotedWord } from '../domain/shell-word.ts'
import { withoutCredentials } from '../domain/store-url.ts'
import { taskQueue } from '../domain/task.ts'
import type { ErrorFacts } from '../error-facts.ts'
import { HeldError, type HoldfastError, InvalidError, LeaseLostError } from '../errors.ts'
import type { AnyOperation } from '../operations/operation.ts'
import type { CommandCall } from './call.ts'
import { fieldsOf } from './field.ts'
import type { Leased } from './lease-file.ts'
import { located } from './settings.ts'
import type { Verb } from './verb.ts'

export interface Holding extends Leased {
  readonly token: number | undefined
}

type Text = string | undefined

type Holds = 'item' | 'lock' | 'queueLock' | 'run'

/** What a caller of the operation holds, by what its input names beside the token. Null if a token proves nothing. */
function holdsOf(operation: AnyOperation): Holds | null {
  const fields = fieldsOf(operation)
  if (!fields.has('token') || operation.tokenIdentifies === 'request') return null
  if (fields.has('ref')) return 'item'
  if (fields.has('queue')) return 'queueLock'
  return fields.has('run') && !fields.has('name') ? 'run' : 'lock'
}

/** The lease that the verb's input refers to; null if the verb needs none. */
export async function holdingOf(
  verb: Verb,
  operation: AnyOperation | null,
  call: CommandCall,
): Promise<Holding | null> {
  const holds = operation && holdsOf(operation)
  if (holds === null) return null
  const { token } = call.input
  const direct = await leasedBy(holds, call, false)
  if (token !== undefined) return { ...direct, token: token as number }
  const granted = await grantOf(verb, call, direct, [direct.name])
  if (granted !== null) return granted
  // Lease files are stored by id, so a key has to be looked up first.
  const leased = direct.kind === 'lock' ? direct : await leasedBy(holds, call, true)
  const known = await grantOf(verb, call, leased, [direct.name, leased.name])
  return known ?? { ...leased, token: await endedToken(verb, call, leased) }
}

/** Under `run`, the lease that it exported, unless the same thing was claimed again or given back since. */
async function grantOf(
  { completes, needsNoLease }: Verb,
  call: CommandCall,
  leased: Leased,
  names: readonly string[],
): Promise<Holding | null> {
  const exported = exportedToken(call, leased.kind, names)
  const name = exported === undefined ? leased.name : call.io.env.HOLDFAST_ID || leased.name
  const granted = { kind: leased.kind, name }
  const kept = call.leases.find(granted, exported)
  if (exported === undefined) return kept === undefined ? null : { ...granted, token: kept }
  // The command may have ended the lease itself.
  if (kept === undefined && needsNoLease?.(call.input) && (await leasesOn(call, granted)).length === 0)
    return { ...granted, token: undefined }
  const done = completes ? call.leases.findEnded(granted, ['done'], exported) : undefined
  const token = kept ?? done ?? exported
  return { ...granted, token: (await givenBack(call, granted, token)) ?? token }
}

/**
 * A lock that was transferred away from `run` and back went to the agent, so its commands may use it. Another slot of
 * the lock may have gone to the agent while `run` still holds its own.
 */
async function givenBack(call: CommandCall, leased: Leased, token: number): Promise<number | undefined> {
  if (leased.kind !== 'lock' || !call.io.env.HOLDFAST_ID) return undefined
  const given = call.leases.findTransferred(leased, token)
  if (given === undefined) return undefined
  const { slots } = await call.execute('locks.getCurrentLockInfo', { name: leased.name })
  return slots.some(({ lease }) => lease.token === token) ? undefined : given
}

/** The token that `run` exported for something that the command has just claimed again. */
export function replacedToken(call: CommandCall, { kind, name }: Leased): number | undefined {
  return call.io.env.HOLDFAST_ID ? exportedToken(call, kind, [name]) : undefined
}

/**
 * A completion may be repeated. What was lost stays lost until its agent is granted it again, here or elsewhere. That
 * does not matter for a change that needs no lease, once nobody holds the thing.
 */
async function endedToken(
  { completes, grants, needsNoLease }: Verb,
  call: CommandCall,
  leased: Leased,
): Promise<number | undefined> {
  if (grants) return undefined
  const ended = call.leases.findEnded(leased, completes ? ['done', 'lost'] : ['lost'])
  if (ended === undefined) return undefined
  const leases = await leasesOn(call, leased)
  if (leases.length === 0 && needsNoLease?.(call.input)) return undefined
  const own = leases.filter(({ agent }) => agent === call.settings.agent.value)
  return own.some(({ token }) => Number(token) > ended) ? undefined : ended
}

async function leasedBy(holds: Holds, call: CommandCall, looksUp: boolean): Promise<Leased> {
  const { queue = taskQueue, ref, name, run, lock } = call.input as Record<string, Text>
  switch (holds) {
    case 'item':
      return { kind: 'item', name: looksUp ? await idOf(call, queue, ref as string) : (ref as string) }
    case 'lock':
      return { kind: 'lock', name: name as string }
    case 'queueLock':
      return { kind: 'lock', name: processingLockName(queue) }
    case 'run':
      return { kind: 'lock', name: lock ?? (await lockOf(call, run as string)) }
    default:
      return holds satisfies never
  }
}

async function idOf(call: CommandCall, queue: string, ref: string): Promise<string> {
  const item = await call.execute('queue.get', { queue, ref })
  return item?.id ?? ref
}

async function lockOf(call: CommandCall, run: string): Promise<string> {
  const progress = await call.execute('runs.get', { run })
  return progress?.lock ?? run
}

/**
 * The right one of two refusals: without a token, nothing can have been lost, so whoever holds it is named (HELD); with
 * an older token than the current one, the lease was lost (LEASE_LOST). Null if nobody holds it, or under this token.
 */
export async function refusalOf(call: CommandCall, holding: Holding): Promise<HoldfastError | null> {
  const { kind, name, token } = holding
  const lease = kind === 'lock' ? await lockLease(call, name) : await itemLease(call, name)
  if (lease === null || lease.token === token) return null
  const { queue, ref = name } = call.input as Record<string, Text>
  const subject = kind === 'item' && queue === undefined ? `task ${ref}` : `${kind} ${ref}`
  const holder = lease.agent ?? 'an unknown agent'
  if (token !== undefined) {
    const { token: currentToken } = lease
    return new LeaseLostError({ subject, token, currentToken, holder, reason: 'it was granted again' })
  }
  return new HeldError(
    { subject, holder, expiresAt: lease.expiresAt },
    'give the token of your grant with --token, or wait until the lease ends',
  )
}

/** The agent itself holds it, but its token is not kept here: it was granted by a program, or on another machine. */
export function withOwnToken(
  error: HoldfastError,
  call: CommandCall,
  { name, token }: Holding,
): HoldfastError {
  const facts = error.facts as ErrorFacts['HELD']
  if (error.code !== 'HELD' || token !== undefined || facts.holder !== call.settings.agent.value) return error
  const explain = `holdfast explain ${quotedWord(name)}`
  const next = `if that grant is yours, give the token that \`${explain}\` shows with --token; else wait until the lease ends`
  return new HeldError(facts, next)
}

async function lockLease(call: CommandCall, name: string) {
  const { isLocked, holder, expiresAt, token } = await call.execute('locks.getCurrentLockInfo', { name })
  return isLocked ? { agent: holder, expiresAt, token } : null
}

async function itemLease(call: CommandCall, id: string) {
  const queue = (call.input.queue as Text) ?? taskQueue
  const item = await call.execute('queue.get', { queue, ref: id })
  return item?.phase === 'held' ? item.lease : null
}

/** Whoever holds it: several agents, if it is a lock with slots. */
async function leasesOn(call: CommandCall, { kind, name }: Leased) {
  if (kind === 'item') {
    const lease = await itemLease(call, name)
    return lease === null ? [] : [lease]
  }
  const { slots } = await call.execute('locks.getCurrentLockInfo', { name })
  return slots.map(({ lease }) => lease)
}

/** The token that `run` exported belongs to one lease. For another it would be refused, with a misleading error. */
function exportedToken(
  call: CommandCall,
  kind: Leased['kind'],
  names: readonly string[],
): number | undefined {
  const { HOLDFAST_TOKEN: token, HOLDFAST_ID: id } = call.io.env
  if (!token || (id && !isMeant(call, kind, names))) return undefined
  if (/^\d{1,16}$/.test(token)) return Number(token)
  throw new InvalidError({
    what: `HOLDFAST_TOKEN "${token}" is not a token`,
    next: 'unset it, or give the token that the claim returned',
  })
}

/** A name alone is not enough: stores, namespaces, locks and items may share names, and queues may share keys. */
function isMeant(
  { io, settings, input }: CommandCall,
  kind: Leased['kind'],
  names: readonly string[],
): boolean {
  const { HOLDFAST_ID: id = '', HOLDFAST_KEY: key, HOLDFAST_KIND: givenKind, HOLDFAST_QUEUE: queue } = io.env
  const { HOLDFAST_URL: store, HOLDFAST_NAMESPACE: namespace } = io.env
  // `run` may have removed the password.
  if (store && withoutCredentials(located(store, io.cwd)) !== withoutCredentials(settings.store.value))
    return false
  if (namespace && namespace !== settings.namespace.value) return false
  if (givenKind && (givenKind === 'lock') !== (kind === 'lock')) return false
  if (names.includes(id)) return true
  return Boolean(key && names.includes(key)) && (!queue || queue === (input.queue ?? taskQueue))
}
