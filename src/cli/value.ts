/** Parses words of a command line into values of an operation's input. */
import { Option } from 'commander'
import { JsonFault } from '../domain/json.ts'
import { parseJsonText } from '../domain/json-text.ts'
import { nearestName } from '../domain/name.ts'
import { InvalidError } from '../errors.ts'
import { parseDuration, parseTime } from './duration.ts'
import type { Field } from './field.ts'
import type { OwnOption } from './verb.ts'

/** One value, or one per occurrence of the option. */
export type Words = string | boolean | readonly string[]

/** A field and its name as typed, for error messages. */
export interface Typed extends Field {
  readonly typed: string
}

export function readValue(field: Typed, words: Words, now: number): unknown {
  if (words === false) return field.isNullable ? null : false
  if (words === true) return true
  if (Array.isArray(words)) return words.map((word) => readWord(field, word, now))
  return readWord(field, words as string, now)
}

/** The values of a verb's own options, numbers as numbers. `given` is keyed by commander's names. */
export function readOwnOptions(
  options: readonly OwnOption[],
  given: Readonly<Record<string, Words | undefined>>,
): Record<string, unknown> {
  const read = options.map(({ flags, kind }) => {
    const option = new Option(flags)
    const name = option.attributeName()
    const words = given[name]
    const typed = option.long ?? flags
    const about = { choices: [], isOptional: true, isNullable: false, description: '' } as const
    const field: Typed = { name, kind: kind ?? 'text', typed, ...about }
    const value = words === undefined ? undefined : readValue(field, words, 0)
    if (typeof value === 'number' && value < 0) throw wrong(field, `${value} is below 0`, 'give 0 or more')
    return [name, value]
  })
  return { ...given, ...Object.fromEntries(read) }
}

function readWord(field: Typed, word: string, now: number): unknown {
  switch (field.kind) {
    case 'text':
      return field.name === 'quorum' && /^\d+$/.test(word) ? Number(word) : word
    case 'texts':
      return word
    case 'boolean':
      return readBoolean(field, word)
    case 'integer':
      return readInteger(field, word)
    case 'duration':
    case 'durations':
      return named(field, () => parseDuration(word))
    case 'time':
      return named(field, () => parseTime(word, now))
    case 'choice':
    case 'choices':
      return readChoice(field, word)
    case 'json':
      return readJson(field.name, word)
    default:
      return field.kind satisfies never
  }
}

function readBoolean(field: Typed, word: string): boolean {
  if (word === 'true' || word === 'false') return word === 'true'
  throw wrong(field, `"${word}" is neither true nor false`, 'give true or false')
}

function readInteger(field: Typed, word: string): number {
  if (!/^-?\d{1,16}$/.test(word)) throw wrong(field, `"${word}" is not a whole number`, 'give digits only')
  return Number(word)
}

/** `in-progress`, `in_progress` and `In Progress` are the same word. */
function readChoice(field: Typed, word: string): string {
  const plain = (text: string) => text.toLowerCase().replace(/[\s_-]/g, '')
  const chosen = field.choices.find((choice) => plain(choice) === plain(word))
  if (chosen !== undefined) return chosen
  const nearest = nearestName(word, field.choices)
  const known = field.choices.join(', ')
  // A long list would bury the suggestion, and is needed at most once.
  const isShort = field.choices.length <= 12
  throw wrong(
    field,
    isShort ? `"${word}" is not one of ${known}` : `there is no "${word}"`,
    nearest ? `did you mean "${nearest}"?` : `give one of ${isShort ? 'these' : known}`,
  )
}

/** Parses JSON; plain text becomes a string, so that `holdfast queue add q hello` needs no quotes within quotes. */
export function readJson(name: string, text: string): unknown {
  try {
    return parseJsonText(text)
  } catch (cause) {
    if (cause instanceof JsonFault) throw lossy(name, cause)
    if (!/^\s*[[{"]/.test(text)) return text
    throw new InvalidError({
      what: `${name}: ${text.slice(0, 80)} is not JSON`,
      next: `quote it for your shell, as in '{"a":1}'`,
      facts: { field: name },
      cause,
    })
  }
}

/** The error for a number that cannot be stored exactly as typed. */
export function lossy(name: string, { path, message, next }: JsonFault): InvalidError {
  return new InvalidError({ what: `${[name, ...path].join('.')}: ${message}`, next, facts: { field: name } })
}

function named<Value>(field: Typed, read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof InvalidError)) throw error
    throw wrong(field, error.what, error.next)
  }
}

function wrong(field: Typed, what: string, next: string): InvalidError {
  return new InvalidError({ what: `${field.typed}: ${what}`, next, facts: { field: field.name } })
}
