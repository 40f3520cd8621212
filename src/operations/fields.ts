/** Input fields that several operations share, each with its bounds. */
import * as z from 'zod'
import { maxBackoffMs } from '../domain/backoff.ts'
import { type Json, JsonFault, jsonCopy, jsonText, maxDepth, maxPayloadBytes } from '../domain/json.ts'
import { maxLeaseMs } from '../domain/lease.ts'
import { isName, maxNameLength } from '../domain/name.ts'
import { isText } from '../domain/text.ts'
import type { State } from '../domain/workflow.ts'
import { InvalidError } from '../errors.ts'
import { lazily } from '../lazily.ts'

export const maxBatch = 1000
export const maxPage = 1000
export const maxPriority = 10
const priorityRule = `must be a whole number from 0 (first) to ${maxPriority} (last)`

const nameRule = `1 to ${maxNameLength} letters, digits or _ . : / @ + # = , ~ - and inner spaces, without ".."`

/** Free text: anything that can be stored and read back unchanged. */
export function text(maxLength: number): z.ZodString {
  const known = texts.get(maxLength)
  if (known) return known
  const made = z
    .string()
    .max(maxLength)
    .refine(isText, { error: 'must not contain NUL or half of a surrogate pair' })
  texts.set(maxLength, made)
  return made
}

/** Cached because a schema never changes and building one costs a command 0.1 ms. */
const texts = new Map<number, z.ZodString>()

export function whole(min: number, max?: number): z.ZodInt {
  const number = z.int().min(min)
  return max === undefined ? number : number.max(max)
}

export const after = text(500).optional().describe('`next` of the previous page.')

export const name = z.string().refine(isName, { error: `must be ${nameRule}` })
export const queue = name.describe('Name of the queue.')
export const ref = text(maxNameLength).min(1).describe('Id or key of the item.')
export const token = z
  .int()
  .nonnegative()
  .optional()
  .describe('Token of the lease; may be omitted where it is remembered.')
export const leaseMs = z
  .int({ error: 'must be a whole number of milliseconds' })
  .min(0, { error: 'a lease cannot be negative' })
  .max(maxLeaseMs, { error: 'a lease lasts at most 24 h' })
  .optional()
  .describe('Length of the lease in ms.')
/** Shared, so that every priority has the same bounds however it is given. */
export const priority = z
  .int({ error: priorityRule })
  .min(0, { error: priorityRule })
  .max(maxPriority, { error: priorityRule })
  .optional()
  .describe(`0 (first) to ${maxPriority} (last); default 5.`)
export const maxAttempts = z.int().min(1).max(1000)
/** Delays between retries. Fields left out keep their current value. */
export const backoff = lazily(() =>
  z
    .strictObject({
      baseMs: z.int().min(0).max(maxBackoffMs).optional(),
      factor: z.number().min(1).max(10).optional(),
      maxMs: z.int().min(0).max(maxBackoffMs).optional(),
    })
    .optional()
    .describe('How the waits between retries grow: baseMs (1 s), factor (2), maxMs (5 min).'),
)
export const reason = text(2000).optional().describe('Why; kept in the audit trail.')
/** For operations that say `needsReason`. */
export const operatorReason = lazily(() =>
  text(2000).trim().min(1, { error: 'say why' }).describe('Why; kept in the audit trail.'),
)
export const expectedVersion = z
  .int()
  .positive()
  .optional()
  .describe('Refuse unless the item is at this version.')
export const dryRun = z.boolean().optional().describe('Report what would be done, and do nothing.')
export const limit = z.int().min(1).max(maxPage).optional().describe(`How many at most, up to ${maxPage}.`)
/** The page that is wanted: the first hundred rows, unless the caller says otherwise. */
export function paging({ limit = 100, after = null }: Paged) {
  return { limit, after }
}
type Paged = { readonly limit?: number | undefined; readonly after?: string | null | undefined }

export const wallTime = z.int().min(0).max(8_640_000_000_000_000)

/** Any JSON value, converted to its JSON text. */
export const asJsonText = (maxBytes = maxPayloadBytes) =>
  z.unknown().transform((value, context) => readAt(value, context, () => jsonText(value, maxBytes)))

/** Any JSON value, as it would look after a round trip through its text. */
export const json = () =>
  z
    .unknown()
    .transform((value, context) =>
      readAt(value, context, () => jsonCopy(value, { maxBytes: maxPayloadBytes, maxDepth })),
    )

/** Reports a fault with its full path, starting at the root of the input. */
function readAt<Value>(value: unknown, context: z.core.$RefinementCtx, read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    const { path, next, facts } = error
    const message = value === undefined ? 'is missing: give any JSON value, or null' : error.message
    context.issues.push({ code: 'custom', message, path: [...path], params: { next, facts }, input: value })
    return z.NEVER
  }
}

/** An object with keys chosen by the caller. A zod record would silently drop `__proto__`; a map accepts every key. */
function byName<Value extends z.ZodType>(name: z.ZodString, value: Value): ByName<Value> {
  const entries = (given: Json) => (z.core.util.isPlainObject(given) ? new Map(Object.entries(given)) : given)
  return z
    .preprocess(entries, z.map(name, value))
    .transform((found): Record<string, z.output<Value>> => Object.fromEntries(found))
    .meta({ type: 'object' }) as unknown as ByName<Value>
}

type ByName<Value extends z.ZodType> = z.ZodType<
  Record<string, z.output<Value>>,
  Readonly<Record<string, z.input<Value>>>
>

export const payload = asJsonText().optional().describe('Any JSON value.')
export const result = asJsonText().optional().describe('Any JSON value; kept with the item.')
export const data: ByName<z.ZodType<Json, unknown>> = json()
  .pipe(byName(z.string().max(100), z.custom<Json>()))
  .describe('Data of the workflow itself.') as never

/** Merged data must not exceed the size limit for data given in one call. */
export function assertSize(what: string, value: unknown): void {
  try {
    jsonText(value, maxPayloadBytes)
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    throw new InvalidError({ what: `the ${what} ${error.message}`, next: error.next, facts: error.facts })
  }
}

export const failure = z
  .strictObject({ message: text(10_000), code: text(200).optional(), stack: text(4_000).optional() })
  .describe('What went wrong.')

const stateName = text(100)

const state = z.strictObject({
  claimTo: stateName.optional(),
  claimByNameTo: stateName.optional(),
  held: z.literal(true).optional(),
  lostTo: stateName.optional(),
  closed: z.enum(['succeeded', 'failed']).optional(),
  moves: z.array(stateName).max(50),
  completeTo: stateName.optional(),
  failTo: stateName.optional(),
  failRetryableTo: stateName.optional(),
  retryTo: stateName.optional(),
  returnTo: stateName.optional(),
}) as unknown as z.ZodType<State>

export const workflow = z
  .strictObject({
    name: text(maxNameLength),
    initial: stateName,
    cancelTo: stateName.optional(),
    failsRetryably: z.boolean().default(true),
    retryForgives: z.boolean().default(true),
    slots: z.int().optional(),
    states: byName(stateName, state),
  })
  .describe('Its states, and which action leads from one to the next.')
