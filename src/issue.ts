/** What is wrong with an input, in our own words: those of the schema library never reach a user. */
import * as z from 'zod'
import { maxNameLength, nearestName } from './domain/name.ts'
import { shown } from './domain/text.ts'

/** One thing that is wrong with an input. */
export interface Issue {
  /** The path from the root of the input, joined by dots; empty for the input as a whole. */
  readonly path: string
  readonly message: string
  /** What to do about it, if known. */
  readonly next?: string
  readonly facts?: Readonly<Record<string, unknown>>
}

/** A valid value, or what is wrong with it. */
export type Checked<Value> =
  | { readonly isSound: true; readonly value: Value }
  | { readonly isSound: false; readonly issues: readonly [Issue, ...Issue[]] }

const maxIssues = 10

/** Checks an input. `others` are valid names besides those of the schema; they are suggested for mistyped ones too. */
export function check<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  others: Iterable<string> = [],
): Checked<z.output<Schema>> {
  const parsed = schema.safeParse(input)
  if (parsed.success) return { isSound: true, value: parsed.data }
  // Parsed again for the wording: a schema reports its issues in our words only if told so while it parses.
  const { error = parsed.error } = schema.safeParse(input, { error: wordsFor })
  const issues = error.issues.slice(0, maxIssues).map((issue) => issueOf(issue, schema, others))
  return { isSound: false, issues: issues as [Issue, ...Issue[]] }
}

function issueOf(issue: z.core.$ZodIssue, schema: z.ZodType, others: Iterable<string>): Issue {
  const path = issue.path.map(stepText).join('.')
  if (issue.code === 'unrecognized_keys') {
    const known = [...namesAt(schema, issue.path), ...(issue.path.length === 0 ? others : [])]
    return {
      path,
      message: issue.message,
      next: suggestion(issue.keys, known),
      facts: { unknown: issue.keys.slice(0, maxIssues) },
    }
  }
  const received =
    issue.code === 'custom' ? (issue.params as Pick<Issue, 'next' | 'facts'> | undefined) : undefined
  return { path, message: issue.message, ...received }
}

/** A name in a path may be the caller's own, and of any length. */
function stepText(step: PropertyKey): string {
  const text = String(step)
  return text.length > maxNameLength ? `${text.slice(0, maxNameLength)}…` : text
}

/** Lists unknown names, but no more than anybody would read. */
export function unknownOptions(names: readonly string[]): string {
  const more = names.length - maxIssues
  return `unknown option ${names.slice(0, maxIssues).map(shown).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Suggests what a mistyped name may have meant, or lists all known names. */
export function suggestion(unknown: readonly string[], known: readonly string[]): string {
  const wrong = new Set(unknown)
  const usable = known.filter((name) => !wrong.has(name))
  const typed = String(unknown[0])
  const nearest = typed.length > maxNameLength ? null : nearestName(typed, usable)
  if (nearest !== null) return `did you mean "${nearest}"?`
  return usable.length === 0 ? 'leave it out' : `known options: ${usable.join(', ')}`
}

/** Property names of the object at a path, as far as the path can be followed. */
function namesAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = schema
  for (const step of path) at = within(at, step)
  at = unwrapped(at)
  return at instanceof z.ZodObject ? Object.keys(at.shape) : []
}

function within(schema: unknown, step: PropertyKey): unknown {
  const inner = unwrapped(schema)
  if (inner instanceof z.ZodObject) return inner.shape[String(step)]
  return inner instanceof z.ZodArray ? inner.element : undefined
}

/** For a union with an object among its options, that object. */
function unwrapped(schema: unknown): unknown {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return unwrapped(schema.unwrap())
  if (schema instanceof z.ZodUnion)
    return schema.options.map(unwrapped).find((each) => each instanceof z.ZodObject)
  return schema
}

/** Called for every issue for which the schema has no wording of its own. */
function wordsFor(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? 'is missing'
        : `must be ${typeWords[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      return `must be ${listed(issue.values.map((value) => JSON.stringify(value)))}`
    case 'too_small':
      return bound(issue.origin, 'at least', Number(issue.minimum))
    case 'too_big':
      return bound(issue.origin, 'at most', Number(issue.maximum))
    case 'unrecognized_keys':
      return unknownOptions(issue.keys)
    case 'invalid_union':
      return wordsForUnion(issue.errors)
    case 'invalid_key':
    case 'invalid_element':
      return `has an entry that ${issue.issues[0]?.message ?? 'is not usable'}`
    case 'invalid_format':
      return 'does not have the required form'
    default:
      return 'is not usable'
  }
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  map: 'an object',
  null: 'null',
}

function bound(origin: string, most: string, limit: number): string {
  if (origin === 'string')
    return limit === 1 && most === 'at least' ? 'must not be empty' : `must have ${most} ${limit} characters`
  if (origin === 'array') return `must have ${most} ${limit} ${limit === 1 ? 'entry' : 'entries'}`
  return `must be ${most} ${limit}`
}

/** Lists the alternatives. If the input almost matched one of them, says what is wrong with that one. */
function wordsForUnion(ways: readonly (readonly z.core.$ZodIssue[])[]): string {
  const inside = ways.flat().find(({ path }) => path.length > 0)
  if (inside) return `${inside.path.map(String).join('.')}: ${inside.message}`
  const words = ways.flatMap(([first]) => first?.message ?? [])
  const isType = words.every((word) => word.startsWith('must be '))
  if (!isType) return words.find((word) => !word.startsWith('must be ')) as string
  return `must be ${listed([...new Set(words.map((word) => word.slice('must be '.length)))])}`
}

function listed(words: readonly string[]): string {
  return words.length < 3 ? words.join(' or ') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
