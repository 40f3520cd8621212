/** What a method hands to its operation: the options that were given, without those that say who calls and how. */
import { createHash } from 'node:crypto'
import { InvalidError } from '../../errors.ts'
import { suggestion, unknownOptions } from '../../issue.ts'
import { type AnyOperation, assertNoFact, callNamesOf } from '../../operations/operation.ts'
import { type OperationName, operations } from '../../operations/table.ts'

/** From plain JavaScript options may be missing where they are required, or be anything. */
export function optionsOf<Options extends object>(what: string, options: Options | undefined): Options {
  if (options === undefined) return {} as Options
  // A Map, or a promise that was not awaited, has no option by its name: all of them would be left out unseen.
  if (Object.prototype.toString.call(options) === '[object Object]') return options
  throw new InvalidError({
    what: `${what}: the options are not an object`,
    next: 'pass an object of options, or nothing',
  })
}

/** The same where no schema sees them: a mistyped `dryRun` must not do what it was to only say. */
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

/** What is refused before anything is asked rejects like what is refused by the store. */
export function orReject<Result>(act: () => Promise<Result>): Promise<Result> {
  try {
    return act()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Whoever calls without types may give anything to wait on. */
export function assertSignal(what: string, signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return
  throw new InvalidError({
    what: `${what}: signal: must be an AbortSignal`,
    next: 'pass the signal of an AbortController, or nothing',
  })
}

/** Asks again until there is no more, or it is enough. */
export async function inPieces<Piece extends { readonly more: boolean }>(
  ask: (index: number) => Promise<Piece>,
  isEnough: (pieces: readonly Piece[]) => boolean = () => false,
): Promise<Piece[]> {
  const pieces: Piece[] = []
  do pieces.push(await ask(pieces.length))
  while (pieces.at(-1)?.more && !isEnough(pieces))
  return pieces
}

/** The same for a method: each piece is a request of its own, under a key of its own. A dry run is one piece. */
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

/** What all pieces did together. */
export function sumOf<Piece>(pieces: readonly Piece[], countOf: (piece: Piece) => number): number {
  return pieces.reduce((sum, piece) => sum + countOf(piece), 0)
}

/**
 * The idempotency key of one request of a call that makes several: the caller's own for the first. Hashed for the others,
 * since a key of full length leaves no room for a number.
 */
export function keyOfPiece(key: string | undefined, piece: number): { idempotencyKey?: string } {
  if (key === undefined) return {}
  if (piece === 0) return { idempotencyKey: key }
  return { idempotencyKey: `${createHash('sha256').update(key).digest('hex')}#${piece}` }
}

/**
 * What a method's options say, in its two parts: the input of its operation, and who calls and how. An unknown option is
 * input, which the operation's schema refuses. In one pass and without a rest or a spread: every call comes through here.
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

/** Without the fields nobody gave: an absent option and an undefined one are the same. */
export function given<Fields extends object>(fields: Fields): Given<Fields> {
  const found: Record<string, unknown> = {}
  for (const name of Object.keys(fields)) put(found, name, fields)
  return found as Given<Fields>
}

type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }

function put(input: Record<string, unknown>, name: string, from: object): void {
  const value = (from as Record<string, unknown>)[name]
  if (value === undefined) return
  // Assigned, it would become the prototype, and what is in it would count as given.
  if (name === '__proto__') Object.defineProperty(input, name, { value, enumerable: true })
  else input[name] = value
}
