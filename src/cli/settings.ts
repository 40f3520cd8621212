/** What a command works on and under which name: options, then the environment, then `config.toml`, then defaults. */
import { isAbsolute, join, resolve } from 'node:path'
import { assertName } from '../domain/name.ts'
import { serverScheme, withOwnCredentials } from '../domain/store-url.ts'
import { HoldfastError, InvalidError } from '../errors.ts'
import { getAgentIdSimple } from '../host/agent-id.ts'
import { assertFilePath } from '../host/store-path.ts'
import { trustedOwners } from '../host/user.ts'
import { maxBusyTimeoutMs } from '../options.ts'
import { type ConfigFile, type ConfigKey, lineOf, readConfig } from './config-file.ts'
import { formatDuration, parseDuration } from './duration.ts'
import { storeFile } from './home.ts'
import type { Io } from './io.ts'
import { configName, findHome, type Home, homeHere, isWithin, storeName } from './location.ts'
import { faultOfLocation } from './store-location.ts'
import { isTrusted } from './trust.ts'

/** One setting and where it came from. */
export interface Setting<Value> {
  readonly value: Value
  readonly origin: string
}

export interface Settings {
  readonly home: Home
  /** Without settings where the store was named by an option or a variable. */
  readonly config: ConfigFile
  /** The user has accepted the file as it is. */
  readonly trusted: boolean
  /** What is left out because nobody has accepted it. */
  readonly forbidden: readonly Forbidden[]
  readonly store: Setting<string>
  readonly namespace: Setting<string>
  readonly agent: Setting<string>
  readonly durability: Setting<'full' | 'normal'>
  readonly busyTimeoutMs: Setting<number>
}

/** As commander read them. */
export interface GlobalOptions {
  readonly json?: boolean
  readonly store?: string
  readonly agent?: string
  readonly namespace?: string
  readonly idempotencyKey?: string
}

export const variables = {
  store: 'HOLDFAST_URL',
  namespace: 'HOLDFAST_NAMESPACE',
  agent: 'HOLDFAST_AGENT',
  durability: 'HOLDFAST_DURABILITY',
  'busy-timeout': 'HOLDFAST_BUSY_TIMEOUT',
} as const satisfies Record<ConfigKey, string>

/** What a file may not say unless the user accepts it. */
export interface Forbidden {
  readonly key: ConfigKey
  readonly where: string
  readonly why: string
}

/** Throws FORBIDDEN where a file that nobody accepted would decide something it must not. */
export async function readSettings(io: Io, options: GlobalOptions): Promise<Settings> {
  const settings = await inspectSettings(io, options)
  const [first] = settings.forbidden
  if (first) throw refusal(first, settings.config)
  return settings
}

/** The same for whoever looks at the file itself: what it must not say is left out and listed. */
export async function inspectSettings(io: Io, options: GlobalOptions): Promise<Settings> {
  const given: Partial<Record<ConfigKey, string | undefined>> = options
  const asked = (name: ConfigKey): Setting<string> | null => {
    const option = given[name]
    if (option !== undefined) return { value: option, origin: `--${name}` }
    const variable = io.env[variables[name]]
    return variable ? { value: variable, origin: variables[name] } : null
  }
  const explicit = asked('store')
  // Whoever names a store wants nothing from the folders above.
  const home = explicit ? homeHere(io.cwd) : findHome(io.cwd, trustedOwners(io.env))
  const config = explicit ? noConfig : await readConfig(join(home.folder, configName))
  const trusted = Object.keys(config.settings).length > 0 && isTrusted(config, io)
  const forbidden: Forbidden[] = []
  const pick = (key: ConfigKey, otherwise: string, origin = 'default'): Setting<string> => {
    const value = config.settings[key]
    const chosen = asked(key)
    if (chosen || value === undefined) return chosen ?? { value: otherwise, origin }
    const why = trusted ? null : whyForbidden(key, value, home)
    if (why === null) return { value, origin: config.path }
    forbidden.push({ key, where: lineOf(config, key), why })
    return { value: otherwise, origin }
  }
  const store = pick('store', join(home.folder, storeName), home.because)
  // Longer than a program waits: fifty commands started at once all get their turn.
  const busyTimeout = pick('busy-timeout', '30s')
  const understood = <Value>(key: ConfigKey, setting: Setting<string>, read: (text: string) => Value) => ({
    ...setting,
    value: readFrom(setting.origin === config.path ? lineOf(config, key) : setting.origin, key, () =>
      read(setting.value),
    ),
  })
  return {
    home,
    config,
    trusted,
    forbidden,
    store: {
      ...store,
      value: explicit ? locatedFile(store.value, io.cwd) : placed(store, config.path, home),
    },
    namespace: understood('namespace', pick('namespace', 'default'), readNamespace),
    agent: understood('agent', pick('agent', getAgentIdSimple()), readAgent),
    durability: understood('durability', pick('durability', 'full'), readDurability),
    busyTimeoutMs: understood('busy-timeout', busyTimeout, readBusyTimeout),
  }
}

/** What cannot be read is named, with where it was found. */
function readFrom<Value>(where: string, key: ConfigKey, read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof InvalidError)) throw error
    const isNamed = where === `--${key}` || where === variables[key]
    throw new InvalidError({
      what: `${where}: ${isNamed ? '' : `${key}: `}${error.what}`,
      next: error.next,
      facts: { setting: key, where },
    })
  }
}

const noConfig: ConfigFile = { path: '', text: '', settings: {} }

/** Null when any folder may say so. */
function whyForbidden(key: ConfigKey, value: string, home: Home): string | null {
  switch (key) {
    case 'namespace':
    case 'busy-timeout':
      return null
    case 'store': {
      const file = storeFile(located(value, home.folder))
      return file === null ? 'it is not a file in that folder' : faultOfLocation(file, home.folder)
    }
    case 'agent':
      return 'commands would act under a name that you did not choose'
    case 'durability':
      return 'acknowledged changes could be lost without your knowing'
  }
}

/** The store that goes with a folder: a path means the same wherever the command is run. */
function placed(store: Setting<string>, config: string, home: Home): string {
  // The password of a user is not for a server that a file names.
  const value = store.origin === config ? withOwnCredentials(located(store.value, home.folder)) : store.value
  const file = storeFile(value)
  // A file that was accepted may name any place. But links are no part of what was read and accepted: a place inside the
  // folder must be inside it.
  const isInside = file !== null && isWithin(file, home.folder)
  const fault = isInside ? faultOfLocation(file, home.folder) : null
  if (fault === null) return value
  throw new HoldfastError('FORBIDDEN', {
    what: `the store in ${home.folder} is not used: ${fault}`,
    next: 'remove the link, or name the store you mean with --store or HOLDFAST_URL',
    facts: { folder: home.folder },
  })
}

const ways: Readonly<Record<ConfigKey, string>> = {
  store: '--store or HOLDFAST_URL',
  namespace: '--namespace or HOLDFAST_NAMESPACE',
  agent: '--agent or HOLDFAST_AGENT',
  durability: 'HOLDFAST_DURABILITY',
  'busy-timeout': 'HOLDFAST_BUSY_TIMEOUT',
}

/** Refused instead of ignored: half a fleet would work on another store, or under other names, than its config says. */
export function refusal({ key, where, why }: Forbidden, config: ConfigFile): HoldfastError {
  return new HoldfastError('FORBIDDEN', {
    what: `${where}: "${key}" is not accepted from a folder: ${why}`,
    next: `set ${ways[key]}; or, if you have read ${config.path} and wrote it or agree with it, run \`holdfast trust\``,
    facts: { file: config.path, key },
  })
}

/** What a user names: made absolute, `jobs/` would be a file called `jobs`. */
export function locatedFile(store: string, from: string): string {
  const file = storeFile(store)
  if (file !== null) assertFilePath(file)
  return located(store, from)
}

/** A path made absolute; a URL as it is. */
export function located(store: string, from: string): string {
  if (serverScheme(store) !== null) return store
  if (!store.startsWith('sqlite:')) return resolve(from, store)
  const path = store.slice('sqlite:'.length)
  return path === ':memory:' || isAbsolute(path) ? store : `sqlite:${resolve(from, path)}`
}

export function readNamespace(value: string): string {
  assertName('namespace', value)
  return value
}

export function readAgent(value: string): string {
  assertName('agent', value)
  return value
}

export function readBusyTimeout(value: string): number {
  const ms = parseDuration(value)
  if (ms <= maxBusyTimeoutMs) return ms
  throw new InvalidError({
    what: `"${value}" is more than ${formatDuration(maxBusyTimeoutMs)}`,
    next: 'give less: a store that is busy for longer needs somebody to look at it',
    facts: { duration: value },
  })
}

export function readDurability(value: string): 'full' | 'normal' {
  if (value === 'full' || value === 'normal') return value
  throw new InvalidError({
    what: `durability "${value}" is neither full nor normal`,
    next: 'full: every acknowledged change is on disk; normal: the last ones may be lost at a power failure',
  })
}
