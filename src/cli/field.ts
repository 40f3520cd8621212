/** The kinds of fields in an operation's input, so that words of a command line can be parsed as them. */
import * as z from 'zod'
import type { AnyOperation } from '../operations/operation.ts'
import type { Verb } from './verb.ts'

export type FieldKind =
  | 'text'
  | 'texts'
  | 'integer'
  | 'boolean'
  | 'duration'
  | 'durations'
  | 'time'
  | 'choice'
  | 'choices'
  | 'json'

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

/** Strips the wrappers that say whether a field may be omitted or null; its kind is inside. */
function unwrap(schema: z.ZodType): { inner: z.ZodType; isNullable: boolean; description: string } {
  let inner = schema
  let isNullable = false
  let description = schema.description ?? ''
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodNullable || inner instanceof z.ZodDefault) {
    isNullable ||= inner instanceof z.ZodNullable
    inner = inner.unwrap() as z.ZodType
    description ||= inner.description ?? ''
  }
  return { inner, isNullable, description }
}

function kindOf(name: string, schema: z.ZodType): Pick<Field, 'kind' | 'choices'> {
  const plain = (kind: FieldKind) => ({ kind, choices: [] })
  const isDuration = name.endsWith('Ms')
  if (schema instanceof z.ZodNumber) {
    if (isDuration) return plain('duration')
    return plain(name.endsWith('At') ? 'time' : 'integer')
  }
  if (schema instanceof z.ZodString) return plain('text')
  if (schema instanceof z.ZodBoolean) return plain('boolean')
  if (schema instanceof z.ZodEnum) return { kind: 'choice', choices: schema.options.map(String) }
  if (schema instanceof z.ZodArray) return listOf(name, schema.element as z.ZodType)
  if (schema instanceof z.ZodUnion) return unionOf(name, schema.options as readonly z.ZodType[])
  return plain('json')
}

function listOf(name: string, element: z.ZodType): Pick<Field, 'kind' | 'choices'> {
  const { kind, choices } = kindOf(name, unwrap(element).inner)
  if (kind === 'duration') return { kind: 'durations', choices }
  if (kind === 'choice') return { kind: 'choices', choices }
  return { kind: kind === 'text' ? 'texts' : 'json', choices: [] }
}

/** A union of one and several of the same kind is treated as several. */
function unionOf(name: string, options: readonly z.ZodType[]): Pick<Field, 'kind' | 'choices'> {
  const kinds = options.map((option) => kindOf(name, unwrap(option).inner))
  const several = kinds.find(({ kind }) => kind === 'texts' || kind === 'choices')
  return several ?? { kind: 'text', choices: [] }
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

export function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** The fields that the verb neither fixes, hides nor takes by position. */
export function offeredFields(verb: Verb, fields: ReadonlyMap<string, Field>): Field[] {
  const taken = [...(verb.positional ?? []), ...(verb.hides ?? []), ...Object.keys(verb.fixed ?? {})]
  return [...fields.values()].filter(({ name }) => !taken.includes(name))
}
