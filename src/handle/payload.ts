/**
 * Checks queue payloads and documents against any Standard Schema. **The input is stored, in its JSON form.** The
 * output of a schema may be anything, such as a Date or an instance of a class; once stored, it could not be parsed
 * again.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { JsonFault, jsonCopy, maxDepth, maxPayloadBytes } from '../domain/json.ts'
import { shown } from '../domain/text.ts'
import { InvalidError } from '../errors.ts'

/** Any Standard Schema whose output is the payload. */
export type PayloadSchema<Payload> = StandardSchemaV1<unknown, Payload>

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
export async function storable<Value>(
  schema: PayloadSchema<Value> | undefined,
  value: unknown,
  owner: PayloadOwner,
): Promise<{ readonly input: unknown; readonly output: Value }> {
  if (value === undefined) throw missing(owner)
  if (!schema) return { input: value, output: value as Value }
  const input = asJson(value, owner)
  return { input, output: await parsed(schema, input, owner) }
}

/** The schema's output for a stored value. INVALID names the first issue. */
export async function parsed<Value>(
  schema: PayloadSchema<Value> | undefined,
  stored: unknown,
  { what, noun, name }: PayloadOwner,
): Promise<Value> {
  if (!schema) return stored as Value
  const checked = await schema['~standard'].validate(stored)
  if (!checked.issues) return checked.value
  const [issue] = checked.issues
  const path = issue?.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  throw new InvalidError({
    what: `the ${what} does not fit ${noun} ${name}: ${path ? `${path}: ` : ''}${issue?.message ?? 'invalid'}`,
    next: `give a ${what} that fits the ${noun}'s schema`,
    facts: { [noun]: name, issues: checked.issues.slice(0, 10).map(({ message }) => message) },
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
