/**
 * Input nobody should send, made from the schema of an operation: every field in turn is left out, given another type,
 * emptied, made absurd. What no field of its kind may accept must be refused; the rest may be refused or not.
 */
import * as z from 'zod'

export interface Hostile {
  /** Which field, and what was done to it. */
  readonly what: string
  readonly input: unknown
  /** True: INVALID is the only answer. */
  readonly mustRefuse: boolean
  /** The intended field name, if it was mistyped. */
  readonly meant?: string
}

/** As zod describes it in JSON Schema. */
interface Shape {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly pattern?: string
  readonly anyOf?: readonly Shape[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly required?: readonly string[]
  readonly items?: Shape
  readonly minItems?: number
  readonly minimum?: number
  readonly additionalProperties?: boolean | Shape
}

type Path = readonly (string | number)[]
/** A valid value for a field, or undefined to make one from its schema. */
export type Samples = (path: string) => unknown

const nul = 'nul \u0000 character'
const longText = 'x'.repeat(1_000_001)
const hostileNames = ['', 'a\nb', 'a/../b', 'party 🎉', '\u202Egpj', ' lead', 'trail ', "a'b"]
const nothings = [null, Number.NaN]
const absurdNumbers = [Number.POSITIVE_INFINITY, 1e300, -1e300, 2 ** 53, 0.5]

/** Free text, ids that are only looked up, and names from other programs: any character is allowed. */
const freeText =
  /(^|\.)(reason|pauseReason|keptBack|note|title|body|context|error|message|code|stack|update|evidence|startTime|bootId|pidNamespace|hostName|testedAgainstSha|fromSha|mainSha|mergedSha|paths\.0|patterns\.0|path|ref|refs\.0|id|instance|alive\.0|ids\.0|waiter|after|prefix|states\.0|subject|delivery|parent|blockers\.0|dependsOn\.0|location|engineVersion|version|node|recoveryError|synchronousCommit|synchronousStandbys|formerStandbys)$/
/** Any JSON, or the caller's own facts. */
const jsonValue = /(^|\.)(payload|result|progress|metadata|cursor|content|value|data|journal|history)(\.|$)/

export function soundInput(schema: z.ZodType, samples: Samples): Record<string, unknown> {
  return sampleOf(shapeOf(schema), '', samples) as Record<string, unknown>
}

export function hostileInputs(schema: z.ZodType, samples: Samples): Hostile[] {
  const shape = shapeOf(schema)
  const sound = sampleOf(shape, '', samples)
  return [
    ...wholes.map((input) => ({ what: `everything is ${show(input)}`, input, mustRefuse: true })),
    ...mistyped(shape, sound as Record<string, unknown>),
    ...fieldsOf(shape, [], sound).flatMap(({ path, shape: field, isRequired }) => [
      ...(isRequired ? [{ ...change(sound, path, undefined), mustRefuse: true }] : []),
      ...hostileValues(field, path.join('.')).map(({ value, mustRefuse }) => ({
        ...change(sound, path, value),
        mustRefuse,
      })),
    ]),
  ]
}

const wholes = [null, undefined, 'x', 7, [], Number.NaN]

function shapeOf(schema: z.ZodType): Shape {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape
}

function typesOf(shape: Shape): readonly string[] {
  if (shape.anyOf) return shape.anyOf.flatMap(typesOf)
  if (shape.const !== undefined) return [typeof shape.const]
  return shape.type === undefined ? [] : [shape.type].flat()
}

function sampleOf(shape: Shape, path: string, samples: Samples): unknown {
  const given = samples(path)
  if (given !== undefined) return given
  if (shape.enum) return shape.enum[0]
  if (shape.const !== undefined) return shape.const
  if (shape.anyOf) return sampleOf(shape.anyOf.at(-1) as Shape, path, samples)
  const type = typesOf(shape)[0]
  if (type === 'string') return 'thing'
  if (type === 'integer' || type === 'number') return Math.max(1, shape.minimum ?? 1)
  if (type === 'boolean') return false
  if (type === 'null') return null
  if (type === 'array') return [sampleOf(shape.items ?? {}, at(path, '0'), samples)]
  if (type !== 'object') return { any: 'json' }
  return Object.fromEntries(
    Object.entries(shape.properties ?? {})
      .filter(([name]) => shape.required?.includes(name) || samples(at(path, name)) !== undefined)
      .map(([name, field]) => [name, sampleOf(field, at(path, name), samples)]),
  )
}

function at(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

interface Field {
  readonly path: Path
  readonly shape: Shape
  readonly isRequired: boolean
}

/** Every field, also inside objects, and the first element of every list. */
function fieldsOf(shape: Shape, path: Path, sound: unknown): Field[] {
  const own = Object.entries(shape.properties ?? {}).flatMap(([name, field]) => {
    const inner = [...path, name]
    const isRequired = shape.required?.includes(name) ?? false
    return [{ path: inner, shape: field, isRequired }, ...fieldsOf(field, inner, sound)]
  })
  const element = shape.items
    ? [
        { path: [...path, 0], shape: shape.items, isRequired: false },
        ...fieldsOf(shape.items, [...path, 0], sound),
      ]
    : []
  const ways = (shape.anyOf ?? []).flatMap((way) => fieldsOf(way, path, sound))
  // Nothing can be changed inside a list or object that the valid input leaves out.
  return [...own, ...element, ...ways].filter((field) => parentOf(sound, field.path) !== undefined)
}

function parentOf(value: unknown, path: Path): unknown {
  const parent = path.slice(0, -1).reduce<unknown>((part, step) => Reflect.get(Object(part), step), value)
  return typeof parent === 'object' && parent !== null ? parent : undefined
}

function change(sound: unknown, path: Path, value: unknown): { what: string; input: unknown } {
  const input = structuredClone(sound)
  const parent = parentOf(input, path) as Record<string | number, unknown>
  const last = path.at(-1) as string | number
  if (value === undefined) delete parent[last]
  else parent[last] = value
  return { what: `${path.join('.')} is ${value === undefined ? 'missing' : show(value)}`, input }
}

/** Each field with a letter left out. */
function mistyped(shape: Shape, sound: Record<string, unknown>): Hostile[] {
  const names = Object.keys(shape.properties ?? {}).filter((name) => name.length > 3)
  return names
    .map((meant) => ({ meant, wrong: `${meant.slice(0, 2)}${meant.slice(3)}` }))
    .filter(({ wrong }) => !names.includes(wrong))
    .map(({ meant, wrong }) => ({
      what: `${meant} is called ${wrong}`,
      input: { ...sound, [wrong]: 1 },
      mustRefuse: true,
      meant,
    }))
}

interface Value {
  readonly value: unknown
  readonly mustRefuse: boolean
}

function hostileValues(shape: Shape, path: string): Value[] {
  if (jsonValue.test(path)) return jsonValues(path)
  const types = typesOf(shape)
  const wrong = {
    string: 'a word',
    integer: 7,
    number: 7,
    boolean: true,
    array: ['x'],
    object: { x: 1 },
  } as const
  const others = Object.entries(wrong)
    .filter(([type]) => !types.includes(type) && !(type === 'integer' && types.includes('number')))
    .filter(([type]) => !(type === 'number' && types.includes('integer')))
    .map(([, value]) => value as unknown)
  const refused = [
    ...others,
    ...nothings.filter((value) => value !== null || !types.includes('null')),
    ...absurdNumbers.filter((value) => !(types.includes('number') && Number.isFinite(value))),
    ...(types.includes('integer') ? [-1] : []),
    ...(types.includes('string') ? [nul, 'lone \ud800 half', longText] : []),
    ...(types.includes('array') ? [Array(100_000).fill('x')] : []),
    nested(20_000),
  ]
  const names = types.includes('string') ? hostileNames : []
  const isName = !freeText.test(path)
  return [
    ...refused.map((value) => ({ value, mustRefuse: true })),
    ...names.map((value) => ({ value, mustRefuse: isName })),
    ...maybe.map((value) => ({ value, mustRefuse: false })),
  ]
}

/** Valid for one field and not for another. */
const maybe: unknown[] = [0, 1, 2 ** 31, 2 ** 53 - 1, -(2 ** 53 - 1), '', [], {}, 'null', '%', '[]']

function jsonValues(path: string): Value[] {
  const isWhole = !path.includes('.')
  const circle: Record<string, unknown> = {}
  circle.self = circle
  const refused = isWhole
    ? [
        circle,
        { big: 1n },
        { not: Number.NaN },
        new Map(),
        () => 1,
        longText,
        'é'.repeat(200_000),
        nested(20_000),
        nested(600),
      ]
    : []
  const kept = [null, '', nul, 'lone \ud800 half', nested(50), { [nul]: nul }, [], 0]
  return [
    ...refused.map((value) => ({ value, mustRefuse: true })),
    ...kept.map((value) => ({ value, mustRefuse: false })),
  ]
}

function nested(depth: number): unknown {
  let value: unknown = 'end'
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

function show(value: unknown): string {
  if (typeof value === 'string')
    return value.length > 40 ? `${value.length} characters` : JSON.stringify(value)
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return `an array of ${value.length}`
  return 'an object'
}
