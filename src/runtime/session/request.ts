/** A call of an operation, made from what a method supplies itself and the options it was given. */
import type { InputOf, OperationName } from '../../operations/table.ts'
import { splitOptions } from './input.ts'

export interface CallOptions {
  /** Act for another agent than this handle's; its claims are manual leases. */
  readonly agent?: string | undefined
  /** False: the claim is a manual lease that nobody renews. */
  readonly renew?: boolean | undefined
  readonly idempotencyKey?: string | undefined
  /** The instance of another process that stands behind the claim; nobody renews it. */
  readonly instance?: string | undefined
  /** How long it waits for a store that is away, where that is not this handle's patience. */
  readonly patienceMs?: number | undefined
}

/** A call of an operation, before it becomes a command. */
export interface Request<Name extends OperationName> {
  readonly operation: Name
  readonly input: InputOf<Name>
  readonly options: CallOptions
}

/**
 * The options a method accepts: its operation's input, minus what the method itself supplies, plus who calls and how.
 */
export type OptionsOf<Name extends OperationName, Named extends PropertyKey = never> = Omit<
  InputOf<Name>,
  Named
> &
  CallOptions

/** Builds a method's request from what the method itself supplies and its options, split in two. */
export function requestOf<Name extends OperationName, Named extends Partial<InputOf<Name>>>(
  operation: Name,
  named: Named,
  options: OptionsOf<Name, keyof Named>,
): Request<Name> {
  const { input, by } = splitOptions(operation, options, named)
  // The schema checks all of it later; these types only say what a caller was allowed to pass.
  return { operation, input: input as InputOf<Name>, options: by }
}
