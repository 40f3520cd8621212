/**
 * What a store's location text says, and which parts of it may be shown: never a password, however the URL is
 * misspelled.
 */

/** Nothing in these parameters is secret. Anything else may be a password, or part of one. */
const shownParameters = ['schema', 'prepare', 'allowUnsafeServer', 'allowUnsafeSchema', 'sslmode', 'auth']

/** A URL in quotes, after a space or a word, or without its colon: typical damage from a settings file. */
const spoiled = /^(?![a-z][a-z0-9+.-]+:\/)(?![./])(.*postgres(ql)?\s*:\/\/|\W*postgres(ql)?\/\/)/is

/**
 * The scheme of a server's URL in lower case, even if the URL lost its slashes: taken for a path, its password would
 * become a file name. Null for a file. A single letter is a Windows drive.
 */
export function serverScheme(store: string): string | null {
  const [, scheme, slash] = /^([a-z][a-z0-9+.-]+):(\/?)/i.exec(store.toLowerCase()) ?? []
  if (scheme === 'sqlite') return null
  if (spoiled.test(store)) return 'postgres'
  if (scheme === undefined) return null
  return slash === '/' || /^postgres(ql)?$/.test(scheme) ? scheme : null
}

/** `instead` replaces the password. The listen URL, which has a password too, is not shown at all. */
export function withoutPassword(url: string, instead: '' | ':…'): string {
  if (serverScheme(url) === null) return url
  // Works even if the URL cannot be parsed: then the password is whatever precedes the last @.
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

/** The same location without its password or that of the listen URL, for callers that must supply their own. */
export function withoutCredentials(url: string): string {
  if (serverScheme(url) === null) return url
  return url
    .replace(/^(\w+:\/\/[^:@/?]*):[^/]*@/, '$1@')
    .replace(/([?&]wake=)([^&]*)/, (_, name: string, wake: string) => `${name}${listenUrl(wake)}`)
}

/** Nothing is left of a listen URL that cannot be decoded: opening the store refuses it anyway. */
function listenUrl(wake: string): string {
  try {
    return encodeURIComponent(withoutCredentials(decodeURIComponent(wake)))
  } catch {
    return ''
  }
}

/** Whether the URL itself has a password for the server; that of its listen URL does not count. */
export function hasPassword(url: string): boolean {
  return serverScheme(url) !== null && /^\w+:\/\/[^:@/?]*:[^/]*@/.test(url)
}

/** The same server, used only with the user and password in the URL itself. A path stays as it is. */
export function withOwnCredentials(url: string): string {
  if (serverScheme(url) === null) return url
  return `${url}${url.includes('?') ? '&' : '?'}auth=url`
}
