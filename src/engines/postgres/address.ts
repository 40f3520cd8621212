/**
 * `postgres://user:password@host:port,host:port/database?schema=holdfast`: where the servers are, and what is ours
 * there.
 */
import { withOwnCredentials, withoutPassword } from '../../domain/store-url.ts'
import { InvalidError } from '../../errors.ts'

export interface ServerHost {
  readonly host: string
  readonly port: number
}

export interface Address {
  /** The hosts to look for the primary on; a standby does not serve. */
  readonly hosts: readonly ServerHost[]
  readonly user: string | undefined
  readonly password: string | undefined
  /** Nothing is added from PGPASSWORD or a password file, because the URL may come from a stranger. */
  readonly isComplete: boolean
  readonly database: string | undefined
  readonly schema: string
  /** False behind a pooler that cannot keep prepared statements (PgBouncer before 1.21). */
  readonly prepares: boolean
  /** The URL leads to a pooler in transaction mode: no session state lasts, and nobody can listen there. */
  readonly isPooled: boolean
  /** Where to listen for wake-ups when the URL leads to a pooler; null = only polling. */
  readonly wakeUrl: string | null
  /** Whether to accept a server with fsync = off. */
  readonly allowUnsafeServer: boolean
  /** Whether to accept a schema in which others could run code as our role. */
  readonly allowUnsafeSchema: boolean
  readonly ssl: boolean | { readonly rejectUnauthorized: boolean }
  /** The URL without its password, for messages. */
  readonly shown: string
}

const known = ['schema', 'prepare', 'wake', 'allowUnsafeServer', 'allowUnsafeSchema', 'sslmode', 'auth']
/** A password ends at the last @ before a slash. One that contains a slash would be taken for a host and a database. */
const pattern = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^/]*))?@)?([^@/?]*)(?:\/([^@/?]*))?(?:\?(.*))?$/i
const schemaPattern = /^[a-z_][a-z0-9_]{0,62}$/
const defaultPort = 5432

export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:\/\//i.test(url)
}

export function parseAddress(url: string): Address {
  const match = pattern.exec(url)
  if (!match)
    throw badUrl(url, 'it cannot be parsed; in a name or password, write / as %2F, @ as %40 and % as %25')
  const [, user, password, hosts = '', database, query = ''] = match
  const options = new URLSearchParams(query)
  const unknown = query
    .split('&')
    .find((each) => each !== '' && !known.includes(each.split('=', 1)[0] as string))
  // A parameter without a value may be a piece of a password.
  if (unknown !== undefined) {
    const name = unknown.includes('=') ? ` "${unknown.split('=', 1)[0]}"` : ''
    throw badUrl(url, `unknown parameter${name}; the known ones are ${known.join(', ')}`)
  }
  const schema = options.get('schema') ?? 'holdfast'
  if (!schemaPattern.test(schema))
    throw badUrl(url, `schema "${schema}" is not a plain name (a–z, 0–9, _; at most 63)`)
  const wake = options.get('wake')
  return {
    hosts: hosts.split(',').map((each) => parseHost(each, url)),
    user: decoded(user, url),
    password: decoded(password, url),
    isComplete: isCompleteIn(options.get('auth'), url),
    database: decoded(database, url),
    schema,
    prepares: options.get('prepare') !== 'false',
    isPooled: wake !== null,
    wakeUrl: wakeOf(wake, options.get('auth'), url),
    allowUnsafeServer: options.get('allowUnsafeServer') === 'true',
    allowUnsafeSchema: options.get('allowUnsafeSchema') === 'true',
    ssl: sslOf(options.get('sslmode'), url),
    shown: withoutPassword(url, ''),
  }
}

/** Does not say which: it may be a piece of a password. */
const noHost = 'a host or its port cannot be parsed; in a password, write / as %2F, : as %3A and @ as %40'

function parseHost(text: string, url: string): ServerHost {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:]*)(?::(\d+))?$/.exec(text)
  const port = Number(match?.[2] ?? defaultPort)
  if (!match || port < 1 || port > 65_535) throw badUrl(url, noHost)
  const host = decoded((match[1] as string).replace(/^\[|\]$/g, ''), url)
  return { host: host ?? 'localhost', port }
}

function decoded(text: string | undefined, url: string): string | undefined {
  try {
    return text === undefined || text === '' ? undefined : decodeURIComponent(text)
  } catch {
    throw badUrl(url, 'it has a % that starts no valid escape; write a literal % as %25')
  }
}

/** Checked here: the listener retries forever, and nobody would hear why it fails. */
function wakeOf(wake: string | null, auth: string | null, url: string): string | null {
  if (wake === null || wake === 'off') return null
  if (!isPostgresUrl(wake)) throw badUrl(url, 'wake is neither off nor the URL of a server')
  const wakeUrl = auth === null ? wake : withOwnCredentials(wake)
  parseAddress(wakeUrl)
  return wakeUrl
}

function isCompleteIn(auth: string | null, url: string): boolean {
  if (auth === null || auth === 'url') return auth === 'url'
  throw badUrl(url, `auth "${auth}" is not valid; the only value is url`)
}

function sslOf(mode: string | null, url: string): Address['ssl'] {
  switch (mode) {
    case null:
    case 'disable':
      return false
    case 'require':
      return { rejectUnauthorized: false }
    case 'verify-full':
      return true
    default:
      throw badUrl(url, `sslmode "${mode}" is not one of disable, require, verify-full`)
  }
}

function badUrl(url: string, why: string): InvalidError {
  return new InvalidError({
    what: `"${withoutPassword(url, '')}" is not a PostgreSQL store: ${why}`,
    next: 'give postgres://user:password@host:port/database, with several hosts separated by commas',
  })
}
