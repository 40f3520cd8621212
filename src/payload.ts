/** Values checked by any Standard Schema: payloads at both ends of a queue, documents on their way in and out. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { shown } from './domain/text.ts'
import { InvalidError } from './errors.ts'

export type PayloadSchema<Payload> = StandardSchemaV1<unknown, Payload>

/** The payload as the schema returns it, or INVALID naming the first fault. */
export function checkPayload<Payload>(
  schema: PayloadSchema<Payload> | undefined,
  payload: unknown,
  queue: string,
): Promise<Payload> {
  return checkValue(schema, payload, { what: 'payload', noun: 'queue', name: queue })
}

/** What a value is called, and the thing whose schema it must fit. */
interface Place {
  readonly what: 'payload' | 'value'
  readonly noun: 'queue' | 'state'
  readonly name: string
}

/** The value as the schema returns it, or INVALID naming the first fault. */
export async function checkValue<Value>(
  schema: PayloadSchema<Value> | undefined,
  value: unknown,
  { what, noun, name }: Place,
): Promise<Value> {
  const checked = schema ? await schema['~standard'].validate(value) : { value: value as Value }
  if (!checked.issues) {
    if (checked.value !== undefined) return checked.value
    throw new InvalidError({
      what: `the ${what} for ${noun} ${shown(name)} is missing`,
      next: 'give any JSON value, or null',
      facts: { [noun]: name },
    })
  }
  const [issue] = checked.issues
  const path = issue?.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  throw new InvalidError({
    what: `the ${what} does not fit ${noun} ${name}: ${path ? `${path}: ` : ''}${issue?.message ?? 'invalid'}`,
    next: `give a ${what} that fits the ${noun}'s schema`,
    facts: { [noun]: name, issues: checked.issues.slice(0, 10).map(({ message }) => message) },
  })
}
