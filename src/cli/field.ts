/** What kind of thing a field of an operation's input is, so that a word of a command line can be read as one. */
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

/** Everything but the facts, which nobody can type. */
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

/** Wrappers say whether it may be left out or be null; what it is lies inside. */
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

/** One or several of the same are given like several. */
function unionOf(name: string, options: readonly z.ZodType[]): Pick<Field, 'kind' | 'choices'> {
  const kinds = options.map((option) => kindOf(name, unwrap(option).inner))
  const several = kinds.find(({ kind }) => kind === 'texts' || kind === 'choices')
  return several ?? { kind: 'text', choices: [] }
}

/** Fields that hold several are given one at a time, by the name of one; `--agent` is who acts. */
const optionNames: Readonly<Record<string, string>> = {
  labels: 'label',
  paths: 'path',
  blockers: 'blocker',
  states: 'state',
  keys: 'key',
  delaysMs: 'delay',
  agent: 'holder',
}

/** `leaseMs` is `--lease`, `labels` is `--label`, again for each. */
export function optionName({ name }: Pick<Field, 'name'>): string {
  return kebab(optionNames[name] ?? name.replace(/Ms$/, ''))
}

/** As it stands in the help: `<queue>` by position, `--lease` as an option. */
export function typedName(field: Pick<Field, 'name'>, isPositional: boolean): string {
  return isPositional ? `<${kebab(field.name.replace(/Ms$/, ''))}>` : `--${optionName(field)}`
}

export function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** What an operation takes and the verb neither fixes, hides nor takes by position. */
export function offeredFields(verb: Verb, fields: ReadonlyMap<string, Field>): Field[] {
  const taken = [...(verb.positional ?? []), ...(verb.hides ?? []), ...Object.keys(verb.fixed ?? {})]
  return [...fields.values()].filter(({ name }) => !taken.includes(name))
}
