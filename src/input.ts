/** What a method hands to its operation: the options that were given, without those that say who calls and how. */

/** The names of `CallOptions`. */
const callNames: ReadonlySet<string> = new Set(['agent', 'renew', 'idempotencyKey', 'instance'])
/** And those of a call that may wait. */
export const waitNames: ReadonlySet<string> = new Set([...callNames, 'waitMs', 'signal'])

/**
 * The input of an operation; `more` goes before what is given. An unknown option stays, and is refused by the
 * operation's schema. In one pass and without a rest or a spread: every call comes through here.
 */
export function inputOf(options: object, more: object, without = callNames): Record<string, unknown> {
  const input: Record<string, unknown> = {}
  for (const name of Object.keys(options)) if (!without.has(name)) put(input, name, options)
  for (const name of Object.keys(more)) put(input, name, more)
  return input
}

/** Without the fields nobody gave: an absent option and an undefined one are the same. */
export function given(input: object): Record<string, unknown> {
  return inputOf({}, input)
}

function put(input: Record<string, unknown>, name: string, from: object): void {
  const value = (from as Record<string, unknown>)[name]
  if (value !== undefined) input[name] = value
}
