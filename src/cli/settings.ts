/** Which store a command uses, and as which agent: from options, then the environment, `config.toml` and defaults. */
import { isAbsolute, join, resolve } from 'node:path'
import { assertName } from '../domain/name.ts'
import { serverScheme, withOwnCredentials } from '../domain/store-url.ts'
import { HoldfastError, InvalidError } from '../errors.ts'
import { getAgentIdSimple } from '../host/agent-id.ts'
import { assertFilePath } from '../host/store-path.ts'
import { maxBusyTimeoutMs } from '../options.ts'
import { type ConfigFile, type ConfigKey, lineOf, readConfig } from './config-file.ts'
import { formatDuration, parseDuration } from './duration.ts'
import { storeFile } from './home.ts'
import type { Io } from './io.ts'
import { configName, findHome, type Home, homeHere, isWithin, storeName } from './location.ts'
import { faultOfLocation } from './store-location.ts'
import { isTrusted } from './trust.ts'

/** One setting and its origin. */
export interface Setting<Value> {
  readonly value: Value
  readonly origin: string
}

export interface Settings {
  readonly home: Home
  /** Empty if the store was named by an option or a variable. */
  readonly config: ConfigFile
  /** The user has accepted the file in its current form. */
  readonly trusted: boolean
  /** Settings left out because the user has not accepted them. */
  readonly forbidden: readonly Forbidden[]
  readonly store: Setting<string>
  readonly namespace: Setting<string>
  readonly agent: Setting<string>
  readonly durability: Setting<'full' | 'normal'>
  readonly busyTimeoutMs: Setting<number>
}

/** Somebody named this store; it is not just the one that belongs to the current folder. */
export function isStoreNamed({ store, home }: Pick<Settings, 'store' | 'home'>): boolean {
  return store.origin !== home.because
}

/** As parsed by commander. */
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

/** A setting that a file may not make unless the user accepts the file. */
export interface Forbidden {
  readonly key: ConfigKey
  readonly where: string
  readonly why: string
}

/** Throws FORBIDDEN if a file that the user has not accepted makes a setting it may not make. */
export async function readSettings(io: Io, options: GlobalOptions): Promise<Settings> {
  const settings = await inspectSettings(io, options)
  const [first] = settings.forbidden
  if (first) throw refusal(first, settings.config)
  return settings
}

/** The same for commands that inspect the file itself: forbidden settings are left out and listed. */
export async function inspectSettings(io: Io, options: GlobalOptions): Promise<Settings> {
  const given: Partial<Record<ConfigKey, string | undefined>> = options
  const asked = (name: ConfigKey): Setting<string> | null => {
    const option = given[name]
    if (option !== undefined) return { value: option, origin: `--${name}` }
    const variable = io.env[variables[name]]
    return variable ? { value: variable, origin: variables[name] } : null
  }
  const explicit = asked('store')
  // With a store named explicitly, the folders above have no say.
  const home = explicit ? homeHere(io.cwd) : findHome(io)
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
  // Longer than the library's default, so that fifty commands started at once all get through.
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
    namespace: understood('namespace', pick('namespace', 'default'), settingReaders.namespace),
    agent: understood('agent', pick('agent', getAgentIdSimple()), settingReaders.agent),
    durability: understood('durability', pick('durability', 'full'), readDurability),
    busyTimeoutMs: understood('busy-timeout', busyTimeout, readBusyTimeout),
  }
}

/** Adds to an error which setting cannot be read and where it was found. */
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

/** Null if any folder may make this setting. */
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

/** The store that belongs to a folder. A path means the same wherever the command is run. */
function placed(store: Setting<string>, config: string, home: Home): string {
  // The user's password must not go to a server that a file names.
  const value = store.origin === config ? withOwnCredentials(located(store.value, home.folder)) : store.value
  const file = storeFile(value)
  // An accepted file may name any path. But the user did not accept symbolic links, so a path that looks as if it were
  // inside the folder must really be inside it.
  const isInside = file !== null && isWithin(file, home.folder)
  const fault = isInside ? faultOfLocation(file, home.folder) : null
  if (fault === null) return value
  throw new HoldfastError('FORBIDDEN', {
    what: `the store in ${home.folder} is not used: ${fault}`,
    next: 'remove the link, or name the store you mean with --store or HOLDFAST_URL',
    facts: { folder: home.folder },
  })
}

/** What a user sets instead; not every setting has an option. */
function wayOf(key: ConfigKey): string {
  const variable = variables[key]
  return key === 'durability' || key === 'busy-timeout' ? variable : `--${key} or ${variable}`
}

/** An error: ignored, it would leave half a fleet on another store, or under other names, than its config says. */
export function refusal({ key, where, why }: Forbidden, config: ConfigFile): HoldfastError {
  return new HoldfastError('FORBIDDEN', {
    what: `${where}: "${key}" is not accepted from a folder: ${why}`,
    next: `set ${wayOf(key)}; or, if you have read ${config.path} and wrote it or agree with it, run \`holdfast trust\``,
    facts: { file: config.path, key },
  })
}

/** For stores that a user names. Checked before it is made absolute, which would turn `jobs/` into a file `jobs`. */
export function locatedFile(store: string, from: string): string {
  const file = storeFile(store)
  if (file !== null) assertFilePath(file)
  return located(store, from)
}

/** Makes a path absolute; leaves a URL unchanged. */
export function located(store: string, from: string): string {
  if (serverScheme(store) !== null) return store
  if (!store.startsWith('sqlite:')) return resolve(from, store)
  const path = store.slice('sqlite:'.length)
  return path === ':memory:' || isAbsolute(path) ? store : `sqlite:${resolve(from, path)}`
}

function readName(kind: 'namespace' | 'agent'): (value: string) => string {
  return (value) => {
    assertName(kind, value)
    return value
  }
}

/** How each setting is read. What cannot be read is refused. */
export const settingReaders = {
  store: (value: string) => value,
  namespace: readName('namespace'),
  agent: readName('agent'),
  durability: readDurability,
  'busy-timeout': readBusyTimeout,
} as const satisfies Record<ConfigKey, (value: string) => unknown>

function readBusyTimeout(value: string): number {
  const ms = parseDuration(value)
  if (ms <= maxBusyTimeoutMs) return ms
  throw new InvalidError({
    what: `"${value}" is more than ${formatDuration(maxBusyTimeoutMs)}`,
    next: 'give less; a store that stays busy for that long needs attention',
    facts: { duration: value },
  })
}

function readDurability(value: string): 'full' | 'normal' {
  if (value === 'full' || value === 'normal') return value
  throw new InvalidError({
    what: `durability "${value}" is neither full nor normal`,
    next: 'use full (every acknowledged change is on disk) or normal (a power failure may lose the last ones)',
  })
}
