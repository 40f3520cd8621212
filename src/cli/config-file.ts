/** `config.toml` in `.holdfast/`: a small file of plain settings. Errors in it are reported with their line. */
import { nearestName } from '../domain/name.ts'
import { HoldfastError, InvalidError } from '../errors.ts'
import { readPlainFile } from './plain-file.ts'

/** Names as the file spells them. */
export const configKeys = ['store', 'namespace', 'agent', 'durability', 'busy-timeout'] as const
export type ConfigKey = (typeof configKeys)[number]

export interface ConfigFile {
  readonly path: string
  readonly text: string
  readonly settings: Readonly<Partial<Record<ConfigKey, string>>>
}

const maxConfigBytes = 64 * 1024

/** A missing file counts as one without settings. */
export async function readConfig(path: string): Promise<ConfigFile> {
  const found = readPlainFile(path, maxConfigBytes)
  if (found !== null && 'refusal' in found) {
    throw new HoldfastError('FORBIDDEN', {
      what: `refusing to read ${path}: ${found.refusal}`,
      next: 'replace it with a plain file, or name the store you mean with --store or HOLDFAST_URL',
      facts: { file: path },
    })
  }
  const text = found?.text ?? ''
  return { path, text, settings: await parseConfig(path, text) }
}

async function parseConfig(path: string, text: string): Promise<ConfigFile['settings']> {
  // The file that `init` writes has no settings yet, and most never get any: skip loading the parser.
  if (!text.split('\n').some(isSetting)) return {}
  const { parse } = await import('smol-toml')
  let found: Record<string, unknown>
  try {
    found = parse(text)
  } catch (cause) {
    const [first = ''] = String((cause as Error).message).split('\n')
    throw new InvalidError({
      what: `${path}: ${first}`,
      next: 'fix the file',
      facts: { file: path },
      cause,
    })
  }
  return checked(path, found)
}

function isSetting(line: string): boolean {
  const words = line.trim()
  return words !== '' && !words.startsWith('#')
}

function checked(path: string, found: Record<string, unknown>): ConfigFile['settings'] {
  const settings: Partial<Record<ConfigKey, string>> = {}
  for (const [key, value] of Object.entries(found)) {
    const known = configKeys.find((each) => each === key)
    if (known === undefined) throw unknown(path, key)
    // No path or name can contain a NUL.
    if (typeof value !== 'string' || value.includes('\0')) {
      throw new InvalidError({
        what: `${path}: ${key} is not plain text`,
        next: `write ${key} = "…"`,
        facts: { file: path, key },
      })
    }
    settings[known] = value
  }
  return settings
}

function unknown(path: string, key: string): InvalidError {
  const nearest = nearestName(key, configKeys)
  return new InvalidError({
    what: `${path}: unknown setting "${key}"`,
    next: nearest ? `did you mean "${nearest}"?` : `known settings: ${configKeys.join(', ')}`,
    facts: { file: path, unknown: [key] },
  })
}

/** `file, line 3`, or just the file if the line is not found. */
export function lineOf({ path, text }: ConfigFile, key: ConfigKey): string {
  const index = text.split('\n').findIndex((line) => isLineOf(line, key))
  return index < 0 ? path : `${path}, line ${index + 1}`
}

/** The text with one setting changed, or appended; everything else stays as it is. */
export async function withSetting(config: ConfigFile, key: ConfigKey, value: string): Promise<string> {
  const lines = config.text.split('\n')
  const line = `${key} = ${JSON.stringify(value)}`
  const index = lines.findIndex((each) => isLineOf(each, key))
  if (index >= 0) lines[index] = line
  else lines.splice(lines.at(-1) === '' ? -1 : lines.length, 0, line)
  const text = `${lines.join('\n').trimEnd()}\n`
  const expected = { ...config.settings, [key]: value }
  const settings = await parseConfig(config.path, text)
  const isAsMeant = configKeys.every((each) => settings[each] === expected[each])
  if (isAsMeant && Buffer.byteLength(text) <= maxConfigBytes) return text
  throw new InvalidError({
    what: `${config.path} cannot be changed line by line`,
    next: `edit it yourself: ${line}`,
    facts: { file: config.path, key },
  })
}

function isLineOf(line: string, key: ConfigKey): boolean {
  const words = line.trim()
  return words.startsWith(key) && words.slice(key.length).trimStart().startsWith('=')
}

/** What `init` writes: every setting, commented out, with its default. */
export const configText = `# Settings of this store. Command options and HOLDFAST_* variables override them.

# namespace = "default"         # namespaces cannot see each other's data
# busy-timeout = "30s"          # how long to wait for other writers
#
# These need \`holdfast trust\` (or \`holdfast config set\`) from each user, because the file belongs to the folder:
# store = "postgres://…"        # a server or a path outside this folder; a path inside needs no trust
# agent = "…"                   # the name commands act under; setting HOLDFAST_AGENT per agent is better
# durability = "full"           # normal: a power failure may lose the last changes
`
