/**
 * An operation: one row of the table from which the library's methods, the CLI and the reference are built. `needs` names the rows to load from the input and the caller alone; `decide` is pure and
 * synchronous.
 */
import * as z from 'zod'
import type { EventKind } from '../domain/event.ts'
import { InvalidError } from '../errors.ts'
import { check, type Issue } from '../issue.ts'
import { lazily } from '../lazily.ts'
import type { Grant } from '../port/answer.ts'
import type { Caller, Context } from '../port/command.ts'
import type { Ask, Change, Decision, EventDraft } from '../port/decision.ts'
import type { Loaded, Needs } from '../port/selector.ts'
import type { Tables } from '../port/tables.ts'

export interface Operation<
  Name extends string = string,
  Schema extends z.ZodType = z.ZodType,
  N extends Needs = Needs,
  Output = unknown,
  Fact extends string = string,
> {
  readonly name: Name
  /** One sentence for help texts and the reference. */
  readonly summary: string
  readonly effect: 'read' | 'write' | 'admin'
  /** The queue it claims from. Recovery runs before a batch that claims, and starts with that queue. */
  readonly claims?: (input: z.output<Schema>) => string
  /** What it leases to its caller, which means it can also be claimed for another process or by hand. */
  readonly grants?: 'item' | 'lock'
  /** A read whose answer depends on who asks. */
  readonly answersAgent?: true
  /** The library's method can wait for it, for `waitMs` or until `signal` fires. */
  readonly waits?: true
  /**
   * The caller can be sent messages from then on. `unbound`: only if the caller has no process, because an agent with a
   * process is already known by it.
   */
  readonly introduces?: 'everybody' | 'unbound'
  /**
   * Who calls it; anybody by default. `client`: the runtime of a process, which may be far from the store. `internal`:
   * the runtime next to the store.
   */
  readonly class?: 'client' | 'internal'
  /** Input that only the runtime may fill in: a caller that could state it could forge a proof of death. */
  readonly facts?: readonly Fact[]
  /** It takes something from its holder or overrides a setting, so a reason is required, and kept in the audit. */
  readonly needsReason?: true
  /** It may add work to a queue: a worker waiting there claims in the same transaction. */
  readonly addsWork?: true
  /** It keeps leases alive, so nothing else goes before it. */
  readonly isUrgent?: true
  /**
   * What a token means for an idempotency key. `caller`, the default: it proves who asks, and a later holder may repeat
   * the request. `request`: it is part of the request. `grant`: the same, but an omitted token means the caller's own
   * grant.
   */
  readonly tokenIdentifies?: 'caller' | 'request' | 'grant'
  /**
   * The caller is part of the request, as when a recipient answers: the same call by another agent is a new request.
   */
  readonly agentIdentifies?: 'request'
  /**
   * For a claim of several things: the answer without those whose grants have ended, or null when none are left. A
   * retry under the same idempotency key gets this answer. Without this function, one ended grant fails the whole
   * retry.
   */
  readonly withoutLost?: (answer: Output, lost: readonly Grant[]) => Output | null
  /** How many fresh ids the command must carry; none by default. */
  readonly freshIds?: (input: z.input<Schema>) => number
  readonly input: Schema
  readonly output: z.ZodType<Output>
  needs(input: z.output<Schema>, caller: Caller): N
  decide(rows: Loaded<N>, input: z.output<Schema>, context: Context): Step<NoInfer<Output>>
}

/** The result of `decide`: the decision, or a request for more rows. */
export type Step<Output> = Decision<Output> | Ask<Needs, Output>

/** An operation as the engine runs it. Its types are checked here and then erased. */
export interface AnyOperation
  extends Omit<Operation, 'needs' | 'decide' | 'freshIds' | 'claims' | 'withoutLost'> {
  readonly freshIds?: (input: unknown) => number
  readonly claims?: (input: unknown) => string
  readonly withoutLost?: (answer: unknown, lost: readonly Grant[]) => unknown
  needs(input: unknown, caller: Caller): Needs
  decide(rows: Loaded<Needs>, input: unknown, context: Context): Decision | Ask
}

/** The schema of an input with these fields and no others. */
type Input<Shape extends z.ZodRawShape> = z.ZodObject<Shape, z.core.$strict>

/** An operation as its file defines it, with schemas that are built on first use. */
interface Definition<
  Name extends string,
  Shape extends z.ZodRawShape,
  N extends Needs,
  Output,
  Fact extends string,
> extends Omit<Operation<Name, Input<Shape>, N, Output, Fact>, 'input' | 'output'> {
  /** The fields of the input; all others are refused. */
  readonly input: () => Shape
  readonly output: () => z.ZodType<Output>
}

/** An operation that still knows its name and its input and output types. The table consists of these. */
export interface Row<Name extends string, Schema extends z.ZodType, Output, Fact extends string>
  extends AnyOperation {
  readonly name: Name
  readonly facts?: readonly Fact[]
  readonly input: Schema
  readonly output: z.ZodType<Output>
  decide(rows: Loaded<Needs>, input: unknown, context: Context): Step<Output>
}

export function operation<
  Name extends string,
  Shape extends z.ZodRawShape,
  N extends Needs,
  Output,
  const Fact extends Extract<keyof Shape, string> = never,
>(definition: Definition<Name, Shape, N, Output, Fact>): Row<Name, Input<Shape>, Output, Fact> {
  const input = lazily(() => z.strictObject(definition.input()))
  const output = lazily(definition.output)
  return {
    ...definition,
    get input() {
      return input()
    },
    get output() {
      return output()
    },
  } as unknown as Row<Name, Input<Shape>, Output, Fact>
}

/** Something as callers see it: an object schema that is built on first use. */
export function view<Shape extends z.ZodRawShape>(make: () => Shape): () => z.ZodObject<Shape> {
  return lazily(() => z.object(make()))
}

/** The output type of a lazily built schema. */
export type OutputOf<Make extends () => z.ZodType> = z.output<ReturnType<Make>>

/** The type of a checked input with these fields. */
export type InputWith<Make extends () => z.ZodRawShape> = z.output<Input<ReturnType<Make>>>

/** A decision that changes nothing. */
export function reply<Output>(result: Output): Decision<Output> {
  return { changes: [], result }
}

/** A change to a row with its event: what nearly every operation ends with. */
export function change<Table extends keyof Tables>(
  table: Table,
  before: Tables[Table] | null,
  after: Tables[Table] | null,
  kind: EventKind,
  { agent }: Pick<Caller, 'agent'>,
  detail?: EventDraft['detail'],
): Extract<Change, { table: Table }> {
  // Two shapes, not a spread: this runs for every change.
  const event: EventDraft = detail === undefined ? { kind, agent } : { kind, agent, detail }
  return { table, before, after, event } as unknown as Extract<Change, { table: Table }>
}

/** Rows to load, each with the type of what its selector loads. */
export function need<N extends Needs>(needs: N): N {
  return needs
}

/** Asks for more rows, and keeps their type. */
export function ask<N extends Needs, Output>(
  needs: N,
  then: (more: Loaded<N>) => Decision<Output>,
): Ask<Needs, Output> {
  return { ask: needs, then } as unknown as Ask<Needs, Output>
}

/** The same step with its result mapped. */
export function mapStep<From, To>(step: Step<From>, tell: (result: From) => To): Step<To> {
  const mapped = (decision: Decision<From>): Decision<To> => ({ ...decision, result: tell(decision.result) })
  return 'ask' in step ? ask(step.ask, (more) => mapped(step.then(more))) : mapped(step)
}

/** What decides which names a call takes. */
type Callable = Partial<Pick<AnyOperation, 'effect' | 'grants' | 'answersAgent' | 'waits'>>

/** Checks input. The error names the field and what was wrong, and for an unknown field the nearest known name. */
export function parseInput(
  operation: Pick<AnyOperation, 'name' | 'input'> & Callable,
  input: unknown,
): unknown {
  const checked = check(operation.input, input, callNamesOf(operation))
  if (checked.isSound) return checked.value
  const [first] = checked.issues
  throw new InvalidError({
    what: `${operation.name}: ${describe(first)}`,
    next: first.next ?? 'correct it and call again',
    facts: {
      ...first.facts,
      operation: operation.name,
      issues: checked.issues.map(({ path, message }) => ({ path, message })),
    },
  })
}

/** Refuses facts that only the runtime can know when somebody else states them. */
export function assertNoFact(row: Pick<AnyOperation, 'name' | 'facts'>, given: unknown): void {
  const { name, facts = [] } = row
  const stated = facts.find((fact) => Object.hasOwn(Object(given), fact))
  if (stated === undefined) return
  throw new InvalidError({
    what: `${name}: ${stated}: only Holdfast itself can state this`,
    next: 'leave it out',
    facts: { operation: name, fact: stated },
  })
}

function describe({ path, message }: Issue): string {
  return path === '' ? message : `${path}: ${message}`
}

/** Names of what the library's methods take besides the input: who calls, and how. */
export function callNamesOf(operation: Callable): ReadonlySet<string> {
  const known = callNames.get(operation)
  if (known) return known
  const { effect, grants, answersAgent, waits } = operation
  const names = new Set([
    ...(answersAgent ? ['agent'] : []),
    ...(effect === undefined || effect === 'read' ? [] : ['agent', 'idempotencyKey']),
    ...(grants ? ['renew', 'instance'] : []),
    ...(waits ? ['waitMs', 'signal'] : []),
  ])
  callNames.set(operation, names)
  return names
}

const callNames = new WeakMap<object, ReadonlySet<string>>()
