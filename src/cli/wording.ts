/**
 * Summaries, descriptions and errors of operations in the words of a command: `--run-at` instead of `runAt`, durations
 * with their units, and options that are left out instead of null.
 */
import type { Facts } from '../error-facts.ts'
import { InvalidError, isHoldfastError, revive } from '../errors.ts'
import type { AnyOperation } from '../operations/operation.ts'
import { type Field, fieldsOf, offeredFields, positionalOf, typedName } from './field.ts'
import type { Verb } from './verb.ts'

/** `` `force` ``, `` `dependents: release` ``, or a word that only a program would write: `runAt`. */
const libraryName = /`(\w+)(?:: (\w+))?`|\b([a-z]+[A-Z]\w*)\b/g

/** A text of the verb's operation in the words of the command. */
export function inCommandWords(text: string, verb: Verb, fields: ReadonlyMap<string, Field>): string {
  const typed = (name: string): string | null => {
    if (positionalOf(verb, fields).includes(name)) return typedName({ name }, true)
    const isOffered = offeredFields(verb, fields).some((field) => field.name === name)
    return isOffered ? typedName({ name }, false) : null
  }
  return text.replace(libraryName, (found, quoted?: string, value?: string, plain?: string) => {
    const option = typed(quoted ?? plain ?? '')
    if (option === null) return found
    return value === undefined ? option : `${option} ${value}`
  })
}

/** What a field is for. Durations and times are typed with a unit, and `--no-…` takes the place of null. */
export function describeField(field: Field, verb: Verb, fields: ReadonlyMap<string, Field>): string {
  const { kind, description, isNullable } = field
  const isTimed = kind === 'duration' || kind === 'durations' || kind === 'time'
  const inUnits = isTimed ? description.replace(/(?:,| in) ms\b(?: since 1970)?/g, '') : description
  const given = isNullable ? inUnits.replace(/; null = [^.;]*/, '') : inUnits
  return inCommandWords(given, verb, fields)
}

/** The same error about what was typed. */
export function asTyped(error: unknown, verb: Verb, operation: AnyOperation | null): unknown {
  if (operation === null || !isHoldfastError(error)) return error
  const fields = fieldsOf(operation)
  const facts: Facts = error.facts
  const [issue] = (facts.issues ?? []) as readonly { path: string; message: string }[]
  const field = issue && fields.get(issue.path.split('.')[0] ?? '')
  if (field && facts.operation === operation.name) {
    const typed = typedName(field, positionalOf(verb, fields).includes(field.name))
    return new InvalidError({
      what: `${typed}: ${issue.message}`,
      next: 'fix it; --help lists what the command accepts',
      facts,
    })
  }
  const { what, next, cause } = error
  const words = (text: string) => inCommandWords(text, verb, fields)
  const said = { ...error.toJSON(), what: words(what), next: words(next), cause }
  return said.what === what && said.next === next ? error : revive(said)
}
