/** What the text of a store says, and what of it may be shown: never a password, however the URL is misspelled. */

/** Of what these say nothing is secret. Anything else may be a password, or a piece of one. */
const shownParameters = ['schema', 'prepare', 'allowUnsafeServer', 'allowUnsafeSchema', 'sslmode', 'auth']

/** A URL in quotes, behind a space or a word, or without its colon: what a file of settings makes of one. */
const spoiled = /^(?![a-z][a-z0-9+.-]+:\/)(?![./])(.*postgres(ql)?\s*:\/\/|\W*postgres(ql)?\/\/)/is

/**
 * The scheme of a server's URL, in lower case, also where the URL lost its slashes: taken for a path, its password would
 * be the name of a file. Null for a file. One letter is a drive of Windows.
 */
export function serverScheme(store: string): string | null {
  const [, scheme, slash] = /^([a-z][a-z0-9+.-]+):(\/?)/i.exec(store.toLowerCase()) ?? []
  if (scheme === 'sqlite') return null
  if (spoiled.test(store)) return 'postgres'
  if (scheme === undefined) return null
  return slash === '/' || /^postgres(ql)?$/.test(scheme) ? scheme : null
}

/** `instead` stands for the password; of the URL to listen on, which has one too, nothing is shown. */
export function withoutPassword(url: string, instead: '' | ':…'): string {
  if (serverScheme(url) === null) return url
  // Also where it cannot be read: there the password is whatever stands before the last @.
  const shown = spoiled.test(url)
    ? url.replace(/^.*@/s, '…@')
    : url.replace(/^([^:]+:\/*[^:@/?]*):.*@/s, `$1${instead}@`)
  const [address = '', ...query] = shown.split('?')
  if (query.length === 0) return address
  return `${address}?${query.join('?').split('&').map(shownParameter).join('&')}`
}

function shownParameter(text: string): string {
  const [name = '', ...value] = text.split('=')
  if (shownParameters.includes(name) || text === 'wake=off') return text
  return value.length === 0 ? '…' : `${name}=…`
}

/** The same place without the password, also that of the URL to listen on: for who has to bring one. */
export function withoutCredentials(url: string): string {
  if (serverScheme(url) === null) return url
  return url
    .replace(/^(\w+:\/\/[^:@/?]*):[^/]*@/, '$1@')
    .replace(
      /([?&]wake=)([^&]*)/,
      (_, name: string, wake: string) =>
        `${name}${encodeURIComponent(withoutCredentials(decodeURIComponent(wake)))}`,
    )
}

export function hasPassword(url: string): boolean {
  return withoutCredentials(url) !== url
}

/** The same server, asked only with the user and password that the URL itself names. A path stays as it is. */
export function withOwnCredentials(url: string): string {
  if (serverScheme(url) === null) return url
  return `${url}${url.includes('?') ? '&' : '?'}auth=url`
}
