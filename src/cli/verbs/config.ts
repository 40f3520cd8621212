/** `holdfast config`. */
import { closeSync, fchmodSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { withoutPassword } from '../../domain/store-url.ts'
import { InvalidError } from '../../errors.ts'
import { fileModeIn } from '../../host/access.ts'
import { giveFileToCaller } from '../../host/hand-over.ts'
import { type ConfigKey, configKeys, withSetting } from '../config-file.ts'
import { lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { makeHome } from '../home.ts'
import { findHome } from '../location.ts'
import { inspectSettings, refusal, type Settings, settingReaders, variables } from '../settings.ts'
import { trust } from '../trust.ts'
import { verb } from '../verb.ts'

/** The config file in effect, and whether the user has accepted it. */
interface ShownConfig {
  readonly file: string
  readonly trusted: boolean
  readonly refused: readonly string[]
}

function configLines({ file, trusted, refused }: ShownConfig): string[] {
  if (trusted) return [`trusted: ${file}`]
  return refused.length === 0 ? [] : [...refused, 'accept it with `holdfast trust`']
}

function shownConfig({ config, trusted, forbidden }: Settings): ShownConfig | null {
  if (Object.keys(config.settings).length === 0) return null
  const refused = forbidden.map(({ key, where, why }) => `refused: ${where}: "${key}": ${why}`)
  return { file: config.path, trusted, refused }
}

function settingOf(name: string, value: string): ConfigKey {
  const setting = configKeys.find((each) => each === name)
  if (setting === undefined) {
    throw new InvalidError({
      what: `unknown setting "${name}"`,
      next: `known settings: ${configKeys.join(', ')}`,
    })
  }
  settingReaders[setting](value)
  return setting
}

function shownSettings({ store, namespace, agent, durability, busyTimeoutMs }: Settings) {
  return {
    store: { ...store, value: withoutPassword(store.value, ':…') },
    namespace,
    agent,
    durability,
    busyTimeoutMs,
  }
}

/** The rest says whose folders may be used, and where it is kept which files the user has accepted. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names: readonly string[] = Object.values(variables)
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.includes(name)))
}

/** As open to others as its folder. Under sudo, the user who called it must still be able to read the file. */
function writeIn(folder: string, file: string, text: string, env: NodeJS.ProcessEnv): void {
  const descriptor = openSync(file, 'wx', 0o600)
  try {
    writeFileSync(descriptor, text)
    fchmodSync(descriptor, fileModeIn(folder))
    giveFileToCaller(descriptor, folder, env)
  } finally {
    closeSync(descriptor)
  }
}

export const verbs = [
  verb({
    name: 'print',
    summary: 'Print the settings in force: options, HOLDFAST_* variables, config.toml, defaults.',
    options: [{ flags: '--show-origin', description: 'where each setting comes from' }],
    inspects: true,
    async act({ settings, options }) {
      const withOrigin = options.showOrigin === true
      return { settings: shownSettings(settings), config: shownConfig(settings), withOrigin }
    },
    text({ settings, config, withOrigin }, view) {
      const rows = Object.entries(settings).map(([name, { value, origin }]) => {
        const shown = name === 'busyTimeoutMs' ? formatDuration(value as number) : String(value)
        return [name.replace('busyTimeoutMs', 'busy-timeout'), shown, origin]
      })
      const shown = withOrigin
        ? view.table(['setting', 'value', 'origin'], rows)
        : view.pairs(rows.map(([name = '', value = '']) => [name, value]))
      return config === null ? shown : lines([shown, '', ...configLines(config)])
    },
    json: ({ settings, config, withOrigin }) => ({
      settings: withOrigin
        ? settings
        : Object.fromEntries(Object.entries(settings).map(([name, { value }]) => [name, value])),
      config,
    }),
  }),
  verb({
    name: 'set',
    summary: 'Change a setting in config.toml and trust the file.',
    arguments: [
      ['<name>', configKeys.join(', ')],
      ['<value>', 'as it is written in the file'],
    ],
    inspects: true,
    async act({ io, rest: [name = '', value = ''] }) {
      const setting = settingOf(name, value)
      const home = findHome(io)
      makeHome(home, io)
      // One reading: what is checked is what is accepted.
      const { config, forbidden } = await inspectSettings({ ...io, env: withoutSettings(io.env) }, {})
      const foreign = forbidden.find(({ key }) => key !== setting)
      // Accepting the whole file would also accept what someone else wrote into it.
      if (foreign) throw refusal(foreign, config)
      const text = await withSetting(config, setting, value)
      const fresh = `${config.path}.${process.pid}`
      writeIn(home.folder, fresh, text, io.env)
      renameSync(fresh, config.path)
      trust({ path: config.path, text }, io)
      return { file: config.path, setting, value: withoutPassword(value, ':…') }
    },
    text: ({ file, setting, value }, view) =>
      view.pairs([
        [setting, value],
        ['written to', file],
      ]),
  }),
]
