/** Input fields that several operations share, each with its bounds. */
import * as z from 'zod'
import { leaseMsMax } from '../domain/lease.ts'
import { isName, nameLengthMax } from '../domain/name.ts'
import { isText } from '../domain/text.ts'
import type { State } from '../domain/workflow.ts'
import { InvalidError } from '../errors.ts'

const payloadBytesMax = 256 * 1024
/** Deeper than anybody means, and well within what every engine can read. */
const depthMax = 200
export const batchMax = 1000
const pageMax = 500

const nameRule = `1 to ${nameLengthMax} letters, digits or _ . : / @ + # = , ~ - and inner spaces, without ".."`

/** Words of people and programs: anything that can be stored and read again as it was. */
export function text(lengthMax: number): z.ZodString {
  const known = texts.get(lengthMax)
  if (known) return known
  const made = z.string().max(lengthMax).refine(isText, { error: 'must not contain NUL or half a character' })
  texts.set(lengthMax, made)
  return made
}

/** A schema never changes, and making one costs a command a tenth of a millisecond. */
const texts = new Map<number, z.ZodString>()

/** `next` of the page before. */
export const after = text(500).optional().describe('`next` of the page before.')

export const name = z.string().refine(isName, { error: `must be ${nameRule}` })
export const queue = name.describe('Name of the queue.')
export const ref = text(nameLengthMax).min(1).describe('Id of the item, or its key.')
export const token = z
  .int()
  .nonnegative()
  .optional()
  .describe('Token of the grant; may be left out where it is remembered.')
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
export const reason = text(2000).optional().describe('Why; kept in the audit.')
export const expectedVersion = z
  .int()
  .positive()
  .optional()
  .describe('Refuse unless the item is at this version.')
export const dryRun = z.boolean().optional().describe('Say what would be done, and do nothing.')
export const limit = z.int().min(1).max(pageMax).optional().describe(`How many at most, up to ${pageMax}.`)
export const wallTime = z.int().min(0).max(8_640_000_000_000_000)

/** Any JSON value, read as its text. */
export const asJsonText = (what: string) => z.unknown().transform((value) => jsonText(what, value))

/** Any JSON value, within the bounds of one. */
export const json = (what: string) => bounded(what).pipe(z.json())

const bounded = (what: string) =>
  z.unknown().transform((value) => {
    jsonText(what, value)
    return value
  })

export const payload = asJsonText('payload').optional().describe('Any JSON value.')
export const result = asJsonText('result').optional().describe('Any JSON value; kept with the item.')
export const data = bounded('data')
  .pipe(z.record(z.string().max(100), z.json()))
  .describe("The workflow's own facts.")

/** JSON text of a value; refuses what JSON cannot carry and what is too large to belong in a queue. */
export function jsonText(what: string, value: unknown, bytesMax = payloadBytesMax): string {
  const text = stringify(what, value)
  // A character has at most three bytes for each of its units, so short texts need not be measured.
  const bytes = 3 * text.length <= bytesMax ? text.length : Buffer.byteLength(text)
  if (bytes > bytesMax) {
    throw new InvalidError({
      what: `the ${what} has ${bytes} bytes of JSON, the limit is ${bytesMax}`,
      next: 'store the content elsewhere and give a reference to it',
      facts: { bytes, bytesMax },
    })
  }
  if (!isTooDeep(text)) return text
  throw new InvalidError({
    what: `the ${what} is nested more than ${depthMax} levels deep`,
    next: 'make it flatter, or give it as text',
    facts: { depthMax },
  })
}

/** Looked at only where the text is long enough to be. */
function isTooDeep(text: string): boolean {
  if (text.length <= 2 * depthMax) return false
  let depth = 0
  let isQuoted = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (isQuoted && character === '\\') index++
    else if (character === '"') isQuoted = !isQuoted
    else if (isQuoted) continue
    else if (character === '[' || character === '{') depth++
    else if (character === ']' || character === '}') depth--
    if (depth > depthMax) return true
  }
  return false
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
  .strictObject({ message: text(10_000), code: text(200).optional(), stack: text(4_000).optional() })
  .describe('What went wrong.')

const stateName = text(100)

const state = z.strictObject({
  claimTo: stateName.optional(),
  claimByNameTo: stateName.optional(),
  held: z.literal(true).optional(),
  lostTo: stateName.optional(),
  closed: z.enum(['well', 'badly']).optional(),
  moves: z.array(stateName).max(50),
  completeTo: stateName.optional(),
  failTo: stateName.optional(),
  failRetryableTo: stateName.optional(),
  retryTo: stateName.optional(),
  returnTo: stateName.optional(),
}) as unknown as z.ZodType<State>

export const workflow = z
  .strictObject({
    name: text(nameLengthMax),
    initial: stateName,
    cancelTo: stateName.optional(),
    failsRetryably: z.boolean().default(true),
    retryForgives: z.boolean().default(true),
    slots: z.int().optional(),
    states: z.record(stateName, state),
  })
  .describe('Its states, and which act leads from one to which.')
