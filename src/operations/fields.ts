/** Input fields that several operations share, each with its bounds. */
import * as z from 'zod'
import { leaseMsMax } from '../domain/lease.ts'
import { isName, nameLengthMax } from '../domain/name.ts'
import type { State } from '../domain/workflow.ts'
import { InvalidError } from '../errors.ts'

const payloadBytesMax = 256 * 1024
export const batchMax = 1000
const pageMax = 500

const nameRule = `1 to ${nameLengthMax} letters, digits or _ . : / @ + # = , ~ - and inner spaces, without ".."`

export const name = z.string().refine(isName, { error: `must be ${nameRule}` })
export const queue = name.describe('Name of the queue.')
export const ref = z.string().min(1).max(nameLengthMax).describe('Id of the item, or its key.')
export const token = z
  .int()
  .nonnegative()
  .optional()
  .describe('Token of the grant; may be left out where this handle got it.')
export const leaseMs = z
  .int({ error: 'must be a whole number of milliseconds' })
  .min(0, { error: 'a lease cannot be negative' })
  .max(leaseMsMax, { error: 'a lease lasts at most 24 h' })
  .optional()
  .describe('Length of the lease in ms.')
export const priority = z
  .int()
  .min(-2147483648)
  .max(2147483647)
  .optional()
  .describe('Lower first; default 5.')
export const reason = z.string().max(2000).optional().describe('Why; kept in the audit.')
export const expectedVersion = z
  .int()
  .positive()
  .optional()
  .describe('Refuse unless the item is at this version.')
export const dryRun = z.boolean().optional().describe('Say what would be done, and do nothing.')
export const limit = z.int().min(1).max(pageMax).optional().describe(`How many at most, up to ${pageMax}.`)
export const wallTime = z.int().min(0).max(8_640_000_000_000_000)

export const payload = z.unknown().optional().describe('Any JSON value.')
export const result = z.unknown().optional().describe('Any JSON value; kept with the item.')
export const data = z.record(z.string().max(100), z.json()).describe("The workflow's own facts.")

/** JSON text of a value; refuses what JSON cannot carry and what is too large to belong in a queue. */
export function jsonText(what: string, value: unknown): string {
  const text = stringify(what, value)
  if (text.length <= payloadBytesMax) return text
  throw new InvalidError({
    what: `the ${what} has ${text.length} characters of JSON, the limit is ${payloadBytesMax}`,
    next: 'store the content elsewhere and queue a reference to it',
    facts: { length: text.length, lengthMax: payloadBytesMax },
  })
}

function stringify(what: string, value: unknown): string {
  try {
    return JSON.stringify(value ?? null) ?? 'null'
  } catch (cause) {
    throw new InvalidError({
      what: `the ${what} is not JSON`,
      next: 'give plain objects, arrays, strings, numbers, booleans and null',
      cause,
    })
  }
}

export const failure = z
  .strictObject({ message: z.string().max(10_000), code: z.string().max(200).optional() })
  .describe('What went wrong.')

const state = z.strictObject({
  claimTo: z.string().optional(),
  claimByNameTo: z.string().optional(),
  held: z.literal(true).optional(),
  lostTo: z.string().optional(),
  closed: z.enum(['well', 'badly']).optional(),
  moves: z.array(z.string()).max(50),
  completeTo: z.string().optional(),
  failTo: z.string().optional(),
  failRetryableTo: z.string().optional(),
  retryTo: z.string().optional(),
  returnTo: z.string().optional(),
}) as unknown as z.ZodType<State>

export const workflow = z
  .strictObject({
    name: z.string(),
    initial: z.string(),
    cancelTo: z.string().optional(),
    failsRetryably: z.boolean().default(true),
    retryForgives: z.boolean().default(true),
    slots: z.int().optional(),
    states: z.record(z.string(), state),
  })
  .describe('Its states, and which act leads from one to which.')
