/** The fields of an operation's input, so that words of a command line can be parsed as them. */
import * as z from 'zod'
import type { AnyOperation } from '../operations/operation.ts'
import { type FieldKind, kindOf, unwrap } from './field-kind.ts'
import { kebab } from './kebab.ts'
import type { Verb } from './verb.ts'

export interface Field {
  readonly name: string
  readonly kind: FieldKind
  readonly choices: readonly string[]
  readonly isOptional: boolean
  readonly isNullable: boolean
  readonly description: string
}

/** Every field except the facts, which nobody can type. */
export function fieldsOf({
  input,
  facts = [],
}: Pick<AnyOperation, 'input' | 'facts'>): ReadonlyMap<string, Field> {
  if (!(input instanceof z.ZodObject)) throw new Error('the input of an operation is an object')
  const fields = Object.entries(input.shape as Record<string, z.ZodType>)
  return new Map(
    fields.filter(([name]) => !facts.includes(name)).map(([name, field]) => [name, fieldOf(name, field)]),
  )
}

function fieldOf(name: string, schema: z.ZodType): Field {
  const { inner, isNullable, description } = unwrap(schema)
  return {
    name,
    ...kindOf(name, inner),
    isOptional: schema.isOptional(),
    isNullable,
    description,
  }
}

/** A field with several values is given one at a time, by its singular. `--agent` is taken: it names who acts. */
const optionNames: Readonly<Record<string, string>> = {
  labels: 'label',
  paths: 'path',
  blockers: 'blocker',
  states: 'state',
  keys: 'key',
  delaysMs: 'delay',
  agent: 'holder',
}

/** `leaseMs` becomes `--lease`; `labels` becomes `--label`, repeated for each. */
export function optionName({ name }: Pick<Field, 'name'>): string {
  return kebab(optionNames[name] ?? name.replace(/Ms$/, ''))
}

/** The name as the help shows it: `<queue>` for an argument, `--lease` for an option. */
export function typedName(field: Pick<Field, 'name'>, isPositional: boolean): string {
  return isPositional ? `<${kebab(field.name.replace(/Ms$/, ''))}>` : `--${optionName(field)}`
}

/** The fields given by position: those that the row lists, or else all that the operation requires. */
export function positionalOf({ positional }: Verb, fields: ReadonlyMap<string, Field>): readonly string[] {
  const isRequired = ({ isOptional, kind }: Field) => !isOptional && kind !== 'boolean'
  return positional ?? [...fields.values()].filter(isRequired).map(({ name }) => name)
}

/** The fields that the verb neither fixes, hides nor takes by position. */
export function offeredFields(verb: Verb, fields: ReadonlyMap<string, Field>): Field[] {
  const taken = [...positionalOf(verb, fields), ...(verb.hides ?? []), ...Object.keys(verb.fixed ?? {})]
  return [...fields.values()].filter(({ name }) => !taken.includes(name))
}
