/** Payloads checked by any Standard Schema, at both ends of a queue. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { InvalidError } from './errors.ts'

export type PayloadSchema<Payload> = StandardSchemaV1<unknown, Payload>

/** The payload as the schema returns it, or INVALID naming the first fault. */
export async function checkPayload<Payload>(
  schema: PayloadSchema<Payload> | undefined,
  payload: unknown,
  queue: string,
): Promise<Payload> {
  if (!schema) return payload as Payload
  const checked = await schema['~standard'].validate(payload)
  if (!checked.issues) return checked.value
  const [issue] = checked.issues
  const path = issue?.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  throw new InvalidError({
    what: `the payload does not fit queue ${queue}: ${path ? `${path}: ` : ''}${issue?.message ?? 'invalid'}`,
    next: "give a payload that fits the queue's schema",
    facts: { queue, issues: checked.issues.slice(0, 10).map(({ message }) => message) },
  })
}
