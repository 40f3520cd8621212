/** Errors in an operation's input, in terms of the command line: `--lease` instead of `leaseMs`. */
import { InvalidError } from '../errors.ts'
import type { AnyOperation } from '../operations/operation.ts'
import { fieldsOf, typedName } from './field.ts'
import type { Verb } from './verb.ts'

/** The same error, but naming what was typed; any other error unchanged. */
export function asTyped(error: unknown, verb: Verb, operation: AnyOperation | null): unknown {
  if (!(error instanceof InvalidError) || operation === null) return error
  const { facts } = error
  const [issue] = (facts.issues ?? []) as readonly { path: string; message: string }[]
  if (facts.operation !== operation.name || !issue) return error
  const field = fieldsOf(operation).get(issue.path.split('.')[0] ?? '')
  if (!field) return error
  const isPositional = verb.positional?.includes(field.name) === true
  const typed = typedName(field, isPositional)
  return new InvalidError({
    what: `${typed}: ${issue.message}`,
    next: 'fix it; --help lists what the command accepts',
    facts,
  })
}
