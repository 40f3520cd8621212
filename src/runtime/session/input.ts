/** What a method passes to its operation: the options it was given, minus those that say who calls and how. */
import { createHash } from 'node:crypto'
import { InvalidError } from '../../errors.ts'
import { suggestion, unknownOptions } from '../../issue.ts'
import { type AnyOperation, assertNoFact, callNamesOf } from '../../operations/operation.ts'
import { type OperationName, operations } from '../../operations/table.ts'

/** Callers from plain JavaScript may omit required options or pass anything at all. */
export function optionsOf<Options extends object>(what: string, options: Options | undefined): Options {
  if (options === undefined) return {} as Options
  // A Map, or a promise that was not awaited, has none of the options as properties: all would be silently ignored.
  if (Object.prototype.toString.call(options) === '[object Object]') return options
  throw new InvalidError({
    what: `${what}: the options are not an object`,
    next: 'pass an object of options, or nothing',
  })
}

/**
 * Like `optionsOf`, for options no schema checks: a mistyped `dryRun` must not carry out what it was meant to preview.
 */
export function knownOptionsOf<Options extends object>(
  what: string,
  options: Options | undefined,
  known: readonly (string & keyof Options)[],
): Options {
  const given = optionsOf(what, options)
  const unknown = Object.keys(given).filter((name) => !(known as readonly string[]).includes(name))
  if (unknown.length === 0) return given
  throw new InvalidError({
    what: `${what}: ${unknownOptions(unknown)}`,
    next: suggestion(unknown, known),
    facts: { unknown },
  })
}

/** Turns a refusal thrown before anything is sent into a rejection, like a refusal by the store. */
export function orReject<Result>(act: () => Promise<Result>): Promise<Result> {
  try {
    return act()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Untyped callers may pass anything as a signal. */
export function assertSignal(what: string, signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return
  throw new InvalidError({
    what: `${what}: signal: must be an AbortSignal`,
    next: 'pass the signal of an AbortController, or nothing',
  })
}

/** Repeats the request until nothing is left, or `isEnough` says so. */
export async function inPieces<Piece extends { readonly more: boolean }>(
  ask: (index: number) => Promise<Piece>,
  isEnough: (pieces: readonly Piece[]) => boolean = () => false,
): Promise<Piece[]> {
  const pieces: Piece[] = []
  do pieces.push(await ask(pieces.length))
  while (pieces.at(-1)?.more && !isEnough(pieces))
  return pieces
}

/**
 * Like `inPieces`, for a method: each piece is its own request with its own idempotency key. A dry run is one piece.
 */
export function askInPieces<Options extends object, Piece extends { readonly more: boolean }>(
  what: string,
  options: Options,
  ask: (options: Options) => Promise<Piece>,
  isEnough: (pieces: readonly Piece[]) => boolean = () => false,
): Promise<Piece[]> {
  const { idempotencyKey, dryRun } = optionsOf(what, options) as { idempotencyKey?: string; dryRun?: boolean }
  const asked = (index: number) => ask({ ...options, ...keyOfPiece(idempotencyKey, index) })
  return inPieces(asked, (pieces) => dryRun === true || isEnough(pieces))
}

/** Adds up a count over all pieces. */
export function sumOf<Piece>(pieces: readonly Piece[], countOf: (piece: Piece) => number): number {
  return pieces.reduce((sum, piece) => sum + countOf(piece), 0)
}

/**
 * The idempotency key of one request of a call that makes several. The first uses the caller's own key. The others use
 * a hash of it, because a key of maximum length leaves no room for a number.
 */
export function keyOfPiece(key: string | undefined, piece: number): { idempotencyKey?: string } {
  if (key === undefined) return {}
  if (piece === 0) return { idempotencyKey: key }
  return { idempotencyKey: `${createHash('sha256').update(key).digest('hex')}#${piece}` }
}

/**
 * Splits a method's options in two: the input of its operation, and who calls and how. An unknown option counts as
 * input, so that the operation's schema refuses it. One pass without rest or spread: every call comes through here.
 */
export function splitOptions(
  operation: OperationName,
  options: object,
  named: object,
): { input: Record<string, unknown>; by: Record<string, unknown> } {
  const given = optionsOf(operation, options)
  const row = operations.get(operation) as AnyOperation
  if (row.facts) assertNoFact(row, given)
  const names = callNamesOf(row)
  const input: Record<string, unknown> = {}
  const by: Record<string, unknown> = {}
  for (const name of Object.keys(given)) put(names.has(name) ? by : input, name, given)
  for (const name of Object.keys(named)) put(input, name, named)
  return { input, by }
}

/** Drops undefined fields: an absent option and an undefined one mean the same. */
export function given<Fields extends object>(fields: Fields): Given<Fields> {
  const found: Record<string, unknown> = {}
  for (const name of Object.keys(fields)) put(found, name, fields)
  return found as Given<Fields>
}

type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }

function put(input: Record<string, unknown>, name: string, from: object): void {
  const value = (from as Record<string, unknown>)[name]
  if (value === undefined) return
  // Plain assignment would set the prototype, and the fields of that object would count as given.
  if (name === '__proto__') Object.defineProperty(input, name, { value, enumerable: true })
  else input[name] = value
}
