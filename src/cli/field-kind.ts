/** What kind of value a field has: said by its schema, and for numbers by its name, which ends in its unit. */
import * as z from 'zod'

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

interface FoundKind {
  readonly kind: FieldKind
  readonly choices: readonly string[]
}

/** Strips the wrappers that say whether a field may be omitted or null; its kind is inside. */
export function unwrap(schema: z.ZodType): { inner: z.ZodType; isNullable: boolean; description: string } {
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

export function kindOf(name: string, schema: z.ZodType): FoundKind {
  const plain = (kind: FieldKind) => ({ kind, choices: [] })
  if (schema instanceof z.ZodNumber) return plain(kindOfNumber(name))
  if (schema instanceof z.ZodString) return plain('text')
  if (schema instanceof z.ZodBoolean) return plain('boolean')
  if (schema instanceof z.ZodEnum) return { kind: 'choice', choices: schema.options.map(String) }
  if (schema instanceof z.ZodArray) return listOf(name, schema.element as z.ZodType)
  if (schema instanceof z.ZodUnion) return unionOf(name, schema.options as readonly z.ZodType[])
  return plain('json')
}

/** A number's unit is the end of its name. */
export function kindOfNumber(name: string): 'duration' | 'time' | 'integer' {
  if (name.endsWith('Ms')) return 'duration'
  return name === 'at' || name.endsWith('At') ? 'time' : 'integer'
}

function listOf(name: string, element: z.ZodType): FoundKind {
  const { kind, choices } = kindOf(name, unwrap(element).inner)
  if (kind === 'duration') return { kind: 'durations', choices }
  if (kind === 'choice') return { kind: 'choices', choices }
  return { kind: kind === 'text' ? 'texts' : 'json', choices: [] }
}

/** A union of one and several of the same kind is treated as several. */
function unionOf(name: string, options: readonly z.ZodType[]): FoundKind {
  const kinds = options.map((option) => kindOf(name, unwrap(option).inner))
  const several = kinds.find(({ kind }) => kind === 'texts' || kind === 'choices')
  return several ?? { kind: 'text', choices: [] }
}

/** The kinds of the fields of an object, or of what a list or a page of a list has in it. */
export function outputKinds(schema: z.ZodType): ReadonlyMap<string, FieldKind> {
  const { inner } = unwrap(schema)
  if (inner instanceof z.ZodArray) return outputKinds(inner.element as z.ZodType)
  if (!(inner instanceof z.ZodObject)) return new Map()
  const fields = Object.entries(inner.shape as Record<string, z.ZodType>)
  const lists = fields.filter(([, field]) => isListOfObjects(field))
  const [list] = lists
  if (list && lists.length === 1 && fields.every(([name]) => name === list[0] || name === 'next'))
    return outputKinds(list[1])
  return new Map(fields.map(([name, field]) => [name, kindOf(name, unwrap(field).inner).kind]))
}

function isListOfObjects(schema: z.ZodType): boolean {
  const { inner } = unwrap(schema)
  return inner instanceof z.ZodArray && unwrap(inner.element as z.ZodType).inner instanceof z.ZodObject
}
