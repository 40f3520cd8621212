/** Types that the source derives from the input of an operation, spelled out for readers. */
import * as z from 'zod'
import { operations } from '../../src/operations/table.ts'

interface InputField {
  readonly name: string
  readonly sentence: string
  readonly type: string
  readonly isOptional: boolean
  readonly schema: z.ZodType
}

/** `OptionsFor<'a.b', 'c'>`, `Omit<AskedOf<'a.b'>, 'c'>`, `Pick<AskedOf<'a.b'>, 'c'>` or `AskedOf<'a.b'>`. */
const derived = /(?:(OptionsFor)<|(?:(Omit|Pick)<)?AskedOf<)'([\w.]+)'(?:>?, ([^>]+)|>)?>?/

/** The fields of an operation that such a type has; null for any other type. */
export function inputFields(type: string): InputField[] | null {
  const found = derived.exec(type)
  if (!found || found[0] !== type) return null
  const [, options, means, operation = '', listed = ''] = found
  const row = operations.get(operation)
  if (!(row?.input instanceof z.ZodObject)) throw new Error(`there is no operation ${operation}`)
  const names = new Set([...listed.matchAll(/'(\w+)'/g)].map(([, name]) => name as string))
  if (options) names.add('queue')
  const isTaken = (name: string) => names.has(name) === (means === 'Pick') && !row.facts?.includes(name)
  const shape = Object.entries(row.input.shape as Record<string, z.ZodType>)
  return fieldsOf(shape.filter(([name]) => isTaken(name))).map((field) => ({
    ...field,
    sentence: sentenceOf(field.schema),
  }))
}

/** The named types besides the input that a type includes. */
export function otherTypes(type: string): string[] {
  if (type.startsWith('OptionsFor<')) return ['MutationOptions']
  return inputFields(type) === null ? [type] : []
}

/** A signature with such types written out. */
export function spelledOut(signature: string): string {
  return signature.replace(new RegExp(derived, 'g'), (type) => {
    const fields = (inputFields(type) ?? []).map(declared)
    return [...(fields.length === 0 ? [] : [`{ ${fields.join('; ')} }`]), ...otherTypes(type)].join(' & ')
  })
}

export function sentenceOf(schema: z.ZodType): string {
  for (let each: z.ZodType | null = schema; each !== null; each = innerOf(each)) {
    if (each.description !== undefined) return each.description
  }
  throw new Error('an option has no sentence')
}

export function innerOf(schema: z.ZodType): z.ZodType | null {
  const isWrapped =
    schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault
  return isWrapped ? (schema.unwrap() as z.ZodType) : null
}

/** A schema as the type of what it accepts, without `undefined`. */
function typeOf(schema: z.ZodType): string {
  const inner = innerOf(schema)
  if (schema instanceof z.ZodNullable) return `${typeOf(inner as z.ZodType)} | null`
  if (inner) return typeOf(inner)
  if (schema instanceof z.ZodString) return 'string'
  if (schema instanceof z.ZodNumber) return 'number'
  if (schema instanceof z.ZodBoolean) return 'boolean'
  if (schema instanceof z.ZodEnum) return schema.options.map((value) => `'${value}'`).join(' | ')
  if (schema instanceof z.ZodLiteral) return [...schema.values].map((value) => `'${value}'`).join(' | ')
  // An object with keys of the caller's choice is read as a map.
  if (schema instanceof z.ZodMap) return 'Record<string, unknown>'
  if (schema instanceof z.ZodPipe) {
    const input = typeOf(schema.in as z.ZodType)
    return input === 'unknown' ? typeOf(schema.out as z.ZodType) : input
  }
  if (schema instanceof z.ZodUnion)
    return [...new Set((schema.options as z.ZodType[]).map(typeOf))].join(' | ')
  if (schema instanceof z.ZodArray) {
    const each = typeOf(schema.element as z.ZodType)
    return each.includes(' ') ? `readonly (${each})[]` : `readonly ${each}[]`
  }
  if (schema instanceof z.ZodObject)
    return `{ ${fieldsOf(Object.entries(schema.shape)).map(declared).join('; ')} }`
  return 'unknown'
}

function fieldsOf(shape: readonly [string, z.ZodType][]): Omit<InputField, 'sentence'>[] {
  return shape.map(([name, schema]) => ({
    name,
    schema,
    type: typeOf(schema),
    isOptional: schema.safeParse(undefined).success,
  }))
}

function declared({ name, type, isOptional }: Omit<InputField, 'sentence'>): string {
  return `${name}${isOptional ? '?' : ''}: ${type}`
}
