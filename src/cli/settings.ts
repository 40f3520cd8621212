/** What a command works on and under which name: options, then the environment, then `config.toml`, then defaults. */
import { existsSync, readFileSync } from 'node:fs'
import { isAbsolute, join, resolve } from 'node:path'
import { nearestName } from '../domain/name.ts'
import { InvalidError } from '../errors.ts'
import { getAgentIdSimple } from '../host/agent-id.ts'
import { parseDuration } from './duration.ts'
import type { Io } from './io.ts'
import { configName, findHome, type Home, storeName } from './location.ts'

/** One setting and where it came from. */
export interface Setting<Value> {
  readonly value: Value
  readonly origin: string
}

export interface Settings {
  readonly home: Home
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
  busyTimeout: 'HOLDFAST_BUSY_TIMEOUT',
} as const
type Name = keyof typeof variables
export const settingNames = Object.keys(variables) as Name[]

export async function readSettings(io: Io, options: GlobalOptions): Promise<Settings> {
  const home = findHome(io.cwd)
  const file = join(home.folder, configName)
  const configured = await readConfig(file)
  const given: Partial<Record<Name, string | undefined>> = options
  const pick = (name: Name, otherwise: Setting<string>): Setting<string> => {
    const option = given[name]
    if (option !== undefined) return { value: option, origin: `--${name}` }
    const variable = io.env[variables[name]]
    if (variable) return { value: variable, origin: variables[name] }
    const value = configured[name]
    return value === undefined ? otherwise : { value, origin: file }
  }
  const store = pick('store', { value: join(home.folder, storeName), origin: home.because })
  const durability = pick('durability', { value: 'full', origin: 'default' })
  // Longer than a program waits: fifty commands started at once all get their turn.
  const busy = pick('busyTimeout', { value: '30s', origin: 'default' })
  return {
    home,
    // A path in the file means the same wherever the command is run.
    store: { ...store, value: located(store.value, store.origin === file ? home.folder : io.cwd) },
    namespace: pick('namespace', { value: 'default', origin: 'default' }),
    agent: pick('agent', { value: getAgentIdSimple(), origin: 'default' }),
    durability: { ...durability, value: readDurability(durability.value) },
    busyTimeoutMs: { ...busy, value: parseDuration(busy.value) },
  }
}

/** A path made absolute; a URL as it is. */
export function located(store: string, from: string): string {
  const [, scheme, rest] = /^([a-z][a-z0-9+.-]+):(.*)$/s.exec(store) ?? []
  if (scheme === undefined) return resolve(from, store)
  if (scheme !== 'sqlite' || rest === undefined || rest === ':memory:' || isAbsolute(rest)) return store
  return `sqlite:${resolve(from, rest)}`
}

function readDurability(value: string): 'full' | 'normal' {
  if (value === 'full' || value === 'normal') return value
  throw new InvalidError({
    what: `durability "${value}" is neither full nor normal`,
    next: 'full: every acknowledged change is on disk; normal: the last ones may be lost at a power failure',
  })
}

async function readConfig(file: string): Promise<Partial<Record<Name, string>>> {
  if (!existsSync(file)) return {}
  const text = readFileSync(file, 'utf8')
  // The file that `init` makes says nothing yet, and most say nothing for ever.
  if (!/^\s*[^#\s]/m.test(text)) return {}
  const { parse } = await import('smol-toml')
  let found: Record<string, unknown>
  try {
    found = parse(text)
  } catch (cause) {
    const [first = ''] = String((cause as Error).message).split('\n')
    throw new InvalidError({ what: `${file}: ${first}`, next: 'fix the file', facts: { file }, cause })
  }
  return checked(file, found)
}

function checked(file: string, found: Record<string, unknown>): Partial<Record<Name, string>> {
  const settings: Partial<Record<Name, string>> = {}
  for (const [key, value] of Object.entries(found)) {
    const name = settingNames.find((each) => configKey(each) === key)
    if (name === undefined) {
      const nearest = nearestName(key, settingNames.map(configKey))
      throw new InvalidError({
        what: `${file}: unknown setting "${key}"`,
        next: nearest
          ? `did you mean "${nearest}"?`
          : `known settings: ${settingNames.map(configKey).join(', ')}`,
        facts: { file, unknown: key },
      })
    }
    if (typeof value !== 'string') {
      throw new InvalidError({
        what: `${file}: ${key} is not text`,
        next: `write ${key} = "…"`,
        facts: { file, key },
      })
    }
    settings[name] = value
  }
  return settings
}

export function configKey(name: Name): string {
  return name === 'busyTimeout' ? 'busy-timeout' : name
}

/** What `init` writes: everything that can be set, with its default. */
export const configText = `# Settings of this store. Options of a command and HOLDFAST_* variables come before them.

# store = "store.db"            # a path from this folder, or postgres://…
# namespace = "default"         # everything in one namespace is invisible to the others
# agent = "…"                   # the name commands act under; better set HOLDFAST_AGENT for each agent
# durability = "full"           # normal: the last changes may be lost at a power failure
# busy-timeout = "30s"          # how long to wait for other writers
`
