/**
 * Runs one command against rows, no matter who loads them: a generator that yields what it needs (once, and at most
 * once more) and returns the decision. Idempotency lives here so that it works the same for every operation.
 */
import { createHash } from 'node:crypto'
import type { Item } from '../domain/item.ts'
import { canonicalJson, JsonFault, jsonCopy, maxDepth } from '../domain/json.ts'
import { renew } from '../domain/lease.ts'
import type { Lock } from '../domain/lock.ts'
import { assertName, isName, maxNameLength } from '../domain/name.ts'
import { isText, shown } from '../domain/text.ts'
import { HoldfastError, InvalidError, LeaseLostError } from '../errors.ts'
import type { Answer, Grant } from '../port/answer.ts'
import type { Caller, Command, Context } from '../port/command.ts'
import type { Change, Decision } from '../port/decision.ts'
import type { Claims } from '../port/healing.ts'
import type { Loaded, Needs } from '../port/selector.ts'
import { leaseNeeds, lostLeases } from './lease/lease.ts'
import { type AnyOperation, parseInput, reply } from './operation.ts'
import { operations } from './table.ts'

/** A command whose input has been checked. */
export interface Prepared {
  readonly command: Command
  readonly operation: AnyOperation
  readonly input: unknown
  readonly requestHash: string | null
}

export function prepare(command: Command): Prepared {
  const operation = operations.get(command.operation)
  if (!operation) {
    throw new InvalidError({
      what: `there is no operation ${shown(command.operation)}`,
      next: 'check the name, or the version of the other side',
    })
  }
  const { checked } = command
  if (checked) return { command, operation, input: command.input, requestHash: checked.requestHash }
  if (!isName(command.caller.agent)) assertName('agent', command.caller.agent)
  const { instance } = command.caller
  if (instance !== null && !isInstance(instance)) throw unusableInstance()
  if (command.idempotencyKey === undefined) {
    return { command, operation, input: parseInput(operation, command.input), requestHash: null }
  }
  assertIdempotencyKey(command.idempotencyKey)
  // Copied once, so that the hash covers exactly what is executed even if an object serializes differently each time.
  const given = asJson(command.input, operation)
  return {
    command,
    operation,
    input: parseInput(operation, given),
    requestHash: hashRequest({ ...command, input: given }, operation),
  }
}

/** The same command with its input checked, as plain data: it can go to another thread and is not checked again. */
export function checkCommand(command: Command): Command {
  const { input, requestHash } = prepare(command)
  // Written out: a field added to a spread costs a hidden class per object.
  return {
    operation: command.operation,
    input,
    namespace: command.namespace,
    caller: command.caller,
    idempotencyKey: command.idempotencyKey,
    patienceMs: command.patienceMs,
    checked: { requestHash },
    entropy: command.entropy,
  }
}

function asJson(input: unknown, operation: AnyOperation): unknown {
  try {
    return jsonCopy(input, requestBounds)
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    const where = [operation.name, error.path.join('.')].filter((part) => part !== '').join(': ')
    throw new InvalidError({ what: `${where}: ${error.message}`, next: error.next, facts: error.facts })
  }
}

/** Large enough for a thousand payloads of any size and depth: the schema limits each one. */
const requestBounds = { maxBytes: 400_000_000, maxDepth: maxDepth + 10 }

function isInstance(instance: unknown): boolean {
  return (
    typeof instance === 'string' && instance !== '' && instance.length <= maxNameLength && isText(instance)
  )
}

function unusableInstance(): InvalidError {
  return new InvalidError({
    what: 'the instance is not an id',
    next: 'give the id that instance.join returned, or leave it out',
  })
}

/** The claims among these commands, of which there is at least one: who makes the first, and from which queues. */
export function claimsIn(batch: readonly { readonly prepared: Prepared }[]): Claims {
  const claims = batch.map(({ prepared }) => prepared).filter(({ operation }) => operation.claims)
  const [first] = claims as [Prepared]
  const { namespace, caller } = first.command
  const queues = new Set(claims.map(({ operation, input }) => operation.claims?.(input) as string))
  return { namespace, caller, queues: [...queues] }
}

const maxIdempotencyKey = 255

/** Any text that can be stored and shown. An empty key would make the requests of strangers look like one. */
function assertIdempotencyKey(key: unknown): void {
  if (typeof key === 'string' && /^[^\p{Cc}\p{Surrogate}]+$/u.test(key) && key.trim() !== '') {
    if (key.length <= maxIdempotencyKey) return
  }
  throw new InvalidError({
    what: `${shown(key)} is not a usable idempotency key`,
    next: `give 1 to ${maxIdempotencyKey} characters of one line, such as a UUID, or none`,
  })
}

/**
 * The same text for the same request, regardless of field order and of who asks: a program that repeats its request
 * after a crash has another pid, and so another name unless it was given one.
 */
function hashRequest({ operation, input }: Command, { tokenIdentifies }: AnyOperation): string {
  const { token, ...rest } = (input ?? {}) as Record<string, unknown>
  const digest = createHash('sha256')
    .update(canonicalJson([operation, tokenIdentifies === 'request' ? input : rest]))
    .digest('hex')
  return tokenIdentifies === 'grant' && token !== undefined ? `${digest}.${token}` : digest
}

/** The handle forgets a grant that ended, so a repeated request may lack the token of the first. */
function isSameRequest(one: string, other: string): boolean {
  const [[digest, token], [otherDigest, otherToken]] = [one.split('.'), other.split('.')]
  if (digest !== otherDigest) return false
  return token === otherToken || token === undefined || otherToken === undefined
}

/** The store's clocks. An engine whose server has its own clock says whether that clock can be trusted. */
type Clocks = Pick<Context, 'now' | 'wall' | 'outage'> &
  Partial<Pick<Context, 'isDoubtful' | 'manualGraceMs'>>

export function* decide(prepared: Prepared, clocks: () => Clocks): Generator<Needs, Decision, Loaded<Needs>> {
  const { command, operation, input } = prepared
  const caller: Caller = command.caller
  const needs = operation.needs(input, caller)
  const key = command.idempotencyKey
  const introduces = isIntroduced(operation, caller)
  if (key === undefined && !introduces) {
    const step = operation.decide(yield needs, input, contextOf(command, clocks()))
    return 'ask' in step ? step.then(yield step.ask) : step
  }
  const { earlier, introduced, ...rows } = yield {
    ...needs,
    earlier: key === undefined ? null : { select: 'answer', key },
    introduced: introduces ? { select: 'addressable', name: caller.agent } : null,
  }
  if (earlier) return yield* repeat(earlier as unknown as Answer, prepared, clocks)
  const context = contextOf(command, clocks())
  const step = operation.decide(rows, input, context)
  const decision = 'ask' in step ? step.then(yield step.ask) : step
  return {
    ...decision,
    changes: [
      ...decision.changes,
      ...(introduces && introduced === null ? introduction(decision, context) : []),
      ...(key === undefined ? [] : [remember(prepared, decision, context.wall)]),
    ],
  }
}

/** Whether the caller can be sent messages once it has done this. */
function isIntroduced({ introduces }: AnyOperation, { instance }: Caller): boolean {
  return introduces === 'everybody' || (introduces === 'unbound' && instance === null)
}

/** Only for a caller that changed something: one that keeps asking in vain leaves no trace. */
function introduction({ changes }: Decision, { agent, wall }: Context): Change[] {
  return changes.length === 0
    ? []
    : [{ table: 'addressable', before: null, after: { name: agent, at: wall } }]
}

function contextOf(
  { caller, entropy }: Command,
  { now, wall, isDoubtful = false, manualGraceMs = 0, outage }: Clocks,
): Context {
  const { agent, instance, renews, leaseMs, quotas, host, isForAnother, searched } = caller
  return {
    agent,
    instance,
    renews,
    leaseMs,
    quotas,
    host,
    isForAnother,
    searched,
    now,
    wall,
    isDoubtful,
    manualGraceMs,
    outage,
    ids: entropy.ids,
    random: entropy.random,
  }
}

/** Repeats the first answer, as far as the grants it handed out are still current. */
function* repeat(
  earlier: Answer,
  prepared: Prepared,
  clocks: () => { now: number },
): Generator<Needs, Decision, Loaded<Needs>> {
  if (!isSameRequest(earlier.requestHash, prepared.requestHash as string)) {
    throw new HoldfastError('IDEMPOTENCY_MISMATCH', {
      what: `idempotency key "${earlier.key}" was used for another request (${earlier.operation})`,
      next: 'use a new key for a new request',
      facts: { key: earlier.key, operation: earlier.operation },
    })
  }
  const { agent } = prepared.command.caller
  if (earlier.agent !== null && earlier.agent !== agent) {
    throw new HoldfastError('IDEMPOTENCY_MISMATCH', {
      what: `idempotency key "${earlier.key}" was used by ${earlier.agent} (${earlier.operation}), and its answer is for that agent only`,
      next: `use a new key, or ask as ${earlier.agent}`,
      facts: { key: earlier.key, operation: earlier.operation, agent: earlier.agent },
    })
  }
  const answer: unknown = JSON.parse(earlier.answer)
  if (earlier.grants.length === 0) return reply(answer)
  const rows = (yield leaseNeeds(earlier.grants)) as unknown as Granted
  const { now } = clocks()
  const lost = lostLeases(rows, earlier.grants, now)
  const [first] = lost
  const left = first === undefined ? answer : prepared.operation.withoutLost?.(answer, lost)
  if (left != null) return { changes: renewals(rows, lost, agent, now), result: left }
  const { kind, id, token } = first as Grant
  throw new LeaseLostError({
    subject: `${kind} ${id}`,
    token,
    currentToken: token,
    holder: null,
    reason: 'the claim made under this idempotency key has ended',
    lost,
  })
}

type Granted = Loaded<ReturnType<typeof leaseNeeds>>

/**
 * A holder counts its lease from its request, even a repeated one. The store has to renew too, or the holder would
 * trust the lease for longer than the store does.
 */
function renewals({ items, locks }: Granted, lost: readonly Grant[], agent: string, now: number): Change[] {
  const isOwn = (row: Item | Lock) => row.agent === agent
  // The same agent may hold a lost item again, under another grant.
  const isLost = ({ id }: Item) => lost.some((grant) => grant.kind === 'item' && grant.id === id)
  return [
    ...items
      .filter((item) => isOwn(item) && !isLost(item))
      .map((before) => ({ table: 'item', before, after: renew(before, now) }) as const),
    ...locks.filter(isOwn).map((before) => ({ table: 'lock', before, after: renew(before, now) }) as const),
  ]
}

/** Whether the answer is only for the agent that asked: it describes a lease that another must not take for its own. */
function isPersonal({ operation, command }: Prepared, { granted = [], changes }: Decision): boolean {
  const holds = ({ after }: Change) =>
    after !== null && 'expiresAt' in after && after.expiresAt !== null && after.agent === command.caller.agent
  const isAboutCaller = operation.agentIdentifies === 'request' || operation.tokenIdentifies === 'grant'
  return isAboutCaller || granted.length > 0 || changes.some(holds)
}

function remember(prepared: Prepared, decision: Decision, wall: number) {
  const after: Answer = {
    key: prepared.command.idempotencyKey as string,
    operation: prepared.operation.name,
    agent: isPersonal(prepared, decision) ? prepared.command.caller.agent : null,
    requestHash: prepared.requestHash as string,
    answer: JSON.stringify(decision.result ?? null),
    grants: decision.granted ?? [],
    at: wall,
  }
  return { table: 'answer', before: null, after } as const
}
