/**
 * Checks queue payloads and documents against any Standard Schema. **The input is stored, in its JSON form.** The
 * output of a schema may be anything, such as a Date or an instance of a class; once stored, it could not be parsed
 * again.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Json } from '../domain/json.ts'
import { JsonFault, jsonCopy, maxDepth, maxPayloadBytes } from '../domain/json.ts'
import { shown } from '../domain/text.ts'
import { InvalidError } from '../errors.ts'

/**
 * The constraint on a payload or document: JSON must return its type unchanged. For any other (a Date, a bigint, a Map,
 * a function anywhere in it) this is a text that says so, and `Input extends Storable<Input>` does not compile.
 */
export type Storable<Input> = [Input] extends [AsJson<Input>]
  ? unknown
  : 'JSON does not return this type unchanged: store strings and plain data, and let a schema transform them'

/**
 * The type with everything that JSON would change replaced by `never`. A class such as Date or Map is known by its
 * methods.
 */
type AsJson<Value> = unknown extends Value
  ? unknown
  : Value extends Json
    ? Value
    : Value extends undefined | bigint | symbol | ((...args: never[]) => unknown)
      ? never
      : Value extends readonly unknown[]
        ? { readonly [Index in keyof Value]: AsJson<Value[Index]> }
        : {
            readonly [Field in keyof Value]:
              | AsJson<Exclude<Value[Field], undefined>>
              | Extract<Value[Field], undefined>
          }

/** What a value is called, and whose schema it must fit. */
interface PayloadOwner {
  readonly what: 'payload' | 'value'
  readonly noun: 'queue' | 'state'
  readonly name: string
}

export function payloadOf(queue: string): PayloadOwner {
  return { what: 'payload', noun: 'queue', name: queue }
}

export function documentAt(key: string): PayloadOwner {
  return { what: 'value', noun: 'state', name: key }
}

/**
 * What to store of a value, and what reading it will return. The schema checks the stored form, so whatever it accepts
 * here it can parse later. INVALID names the first issue.
 */
export async function storable<Output>(
  schema: StandardSchemaV1<unknown, Output> | undefined,
  value: unknown,
  owner: PayloadOwner,
): Promise<{ readonly input: unknown; readonly output: Output }> {
  if (value === undefined) throw missing(owner)
  if (!schema) return { input: value, output: value as Output }
  const input = asJson(value, owner)
  return { input, output: await parsed(schema, input, owner) }
}

/** The schema's output for a stored value. INVALID names the first issue. */
export async function parsed<Output>(
  schema: StandardSchemaV1<unknown, Output> | undefined,
  stored: unknown,
  { what, noun, name }: PayloadOwner,
): Promise<Output> {
  if (!schema) return stored as Output
  const checked = await schema['~standard'].validate(stored)
  if (!checked.issues) return checked.value
  const issues = checked.issues.slice(0, 10).map(({ path = [], message }) => ({
    path: path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.'),
    message,
  }))
  const [{ path, message } = { path: '', message: 'invalid' }] = issues
  throw new InvalidError({
    what: `the ${what} does not fit ${noun} ${name}: ${path === '' ? '' : `${path}: `}${message}`,
    next: `give a ${what} that fits the ${noun}'s schema`,
    facts: { [noun]: name, issues },
  })
}

function asJson(value: unknown, { what, noun, name }: PayloadOwner): unknown {
  try {
    return jsonCopy(value, { maxBytes: maxPayloadBytes, maxDepth })
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    const where = [`the ${what} for ${noun} ${shown(name)}`, error.path.join('.')].filter(
      (part) => part !== '',
    )
    throw new InvalidError({
      what: `${where.join(': ')}: ${error.message}`,
      next: error.next,
      facts: { ...error.facts, [noun]: name },
    })
  }
}

function missing({ what, noun, name }: PayloadOwner): InvalidError {
  return new InvalidError({
    what: `the ${what} for ${noun} ${shown(name)} is missing`,
    next: 'give any JSON value, or null',
    facts: { [noun]: name },
  })
}
