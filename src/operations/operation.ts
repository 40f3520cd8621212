/**
 * What an operation is: one row of the table from which the library's methods, the CLI, HTTP routes, MCP tools
 * and the reference are made. `needs` names rows from the input alone; `decide` is pure and synchronous.
 */
import type * as z from 'zod'
import type { Ask, Caller, Context, Decision, Grant, Loaded, Needs } from '../engines/engine.ts'
import { InvalidError } from '../errors.ts'
import { check, type Issue } from '../issue.ts'
import { lazily } from '../lazily.ts'

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
  /** The queue it claims from: recovery runs before a batch that claims, and begins there. */
  readonly claims?: (input: z.output<Schema>) => string
  /** What it leases to its caller: so it can be claimed for another process, or by hand. */
  readonly grants?: 'item' | 'lock'
  /** A read whose answer depends on who asks. */
  readonly answersAgent?: true
  /** The library's method can wait for it: with `waitMs`, until `signal` fires. */
  readonly waits?: true
  /**
   * Whoever does this can be written to from then on. `unbound`: only where no process stands behind the caller, since
   * those are known by their processes.
   */
  readonly introduces?: 'everybody' | 'unbound'
  /**
   * Who calls it: anybody, unless it says so. `client`: the runtime of a process, which may be far from the store.
   * `internal`: the runtime beside the store.
   */
  readonly class?: 'client' | 'internal'
  /** Input that only the runtime may fill: a caller who could state it could forge a proof of death. */
  readonly facts?: readonly Fact[]
  /** It may bring work to a queue: a worker that waits there claims in the same transaction. */
  readonly addsWork?: true
  /** It keeps leases alive: nothing else goes before it. */
  readonly isUrgent?: true
  /**
   * What a token says to an idempotency key. `caller`, the default: it proves who asks, and a later holder may repeat the
   * request. `request`: it is part of what is asked. `grant`: the same, but one left out is the caller's own grant.
   */
  readonly tokenIdentifies?: 'caller' | 'request' | 'grant'
  /** Who asks is part of what is asked, as when a recipient answers: another agent's request is another one. */
  readonly agentIdentifies?: 'request'
  /**
   * Of a claim of several things: its answer without those whose grants have ended, null when nothing is left. Repeated
   * under its idempotency key, it is answered so; where this is missing, one that ended ends them all.
   */
  readonly withoutLost?: (answer: Output, lost: readonly Grant[]) => Output | null
  /** How many fresh ids the command must bring along; none unless it says so. */
  readonly freshIds?: (input: z.input<Schema>) => number
  readonly input: Schema
  readonly output: z.ZodType<Output>
  needs(input: z.output<Schema>, caller: Caller): N
  decide(rows: Loaded<N>, input: z.output<Schema>, context: Context): Step<NoInfer<Output>>
}

/** What a decision leads to: the changes, or one more question. */
export type Step<Output> = Decision<Output> | Ask<Needs, Output>

/** The operation as the engine runs it, its types erased after they were checked here. */
export interface AnyOperation
  extends Omit<Operation, 'needs' | 'decide' | 'freshIds' | 'claims' | 'withoutLost'> {
  readonly freshIds?: (input: unknown) => number
  readonly claims?: (input: unknown) => string
  readonly withoutLost?: (answer: unknown, lost: readonly Grant[]) => unknown
  needs(input: unknown, caller: Caller): Needs
  decide(rows: Loaded<Needs>, input: unknown, context: Context): Decision | Ask
}

/** An operation as it is written down, with schemas that are made when they are first asked for. */
interface Definition<
  Name extends string,
  Schema extends z.ZodType,
  N extends Needs,
  Output,
  Fact extends string,
> extends Omit<Operation<Name, Schema, N, Output, Fact>, 'input' | 'output'> {
  readonly input: () => Schema
  readonly output: () => z.ZodType<Output>
}

/** An operation that still knows its name and the types of its input and output; the table is made of these. */
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
  Schema extends z.ZodType,
  N extends Needs,
  Output,
  const Fact extends Extract<keyof z.input<Schema>, string> = never,
>(definition: Definition<Name, Schema, N, Output, Fact>): Row<Name, Schema, Output, Fact> {
  const input = lazily(definition.input)
  const output = lazily(definition.output)
  return {
    ...definition,
    get input() {
      return input()
    },
    get output() {
      return output()
    },
  } as unknown as Row<Name, Schema, Output, Fact>
}

/** What a schema made lazily reads. */
export type OutputOf<Make extends () => z.ZodType> = z.output<ReturnType<Make>>

/** Keeps the type of the rows asked for. */
export function ask<N extends Needs, Output>(
  needs: N,
  then: (more: Loaded<N>) => Decision<Output>,
): Ask<Needs, Output> {
  return { ask: needs, then } as unknown as Ask<Needs, Output>
}

/** The same step with its result told differently. */
export function mapStep<From, To>(step: Step<From>, tell: (result: From) => To): Step<To> {
  const mapped = (decision: Decision<From>): Decision<To> => ({ ...decision, result: tell(decision.result) })
  return 'ask' in step ? ask(step.ask, (more) => mapped(step.then(more))) : mapped(step)
}

/** Checks input; the error names the field, what was wrong, and the nearest known name of an unknown one. */
export function parseInput(
  operation: Pick<AnyOperation, 'name' | 'input'> &
    Partial<Pick<AnyOperation, 'effect' | 'grants' | 'answersAgent' | 'waits'>>,
  input: unknown,
): unknown {
  const checked = check(operation.input, input, [...callNamesOf(operation)])
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

/** Refuses what only the runtime can know, where somebody else says it. */
export function assertNoFact(
  { name, facts = [] }: Pick<AnyOperation, 'name' | 'facts'>,
  given: unknown,
): void {
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

/** What the library's methods take beside the input: who calls, and how. */
export function callNamesOf(
  operation: Partial<Pick<AnyOperation, 'effect' | 'grants' | 'answersAgent' | 'waits'>>,
): ReadonlySet<string> {
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
