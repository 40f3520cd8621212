/** `holdfast config`. */
import { chmodSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withoutPassword } from '../../domain/store-url.ts'
import { InvalidError } from '../../errors.ts'
import { fileModeIn } from '../../host/access.ts'
import { trustedOwners } from '../../host/user.ts'
import { type ConfigKey, configKeys, readConfig, withSetting } from '../config-file.ts'
import { lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { makeHome } from '../home.ts'
import { configName, findHome } from '../location.ts'
import { inspectSettings, refusal, type Settings, settingReaders } from '../settings.ts'
import { isTrusted, trust } from '../trust.ts'
import { verb } from '../verb.ts'

interface Shown {
  readonly settings: Readonly<Record<string, { value: string | number; origin: string }>>
  readonly config: ShownConfig | null
  readonly withOrigin: boolean
}

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

function shownSettings({ store, namespace, agent, durability, busyTimeoutMs }: Settings): Shown['settings'] {
  return {
    store: { ...store, value: withoutPassword(store.value, ':…') },
    namespace,
    agent,
    durability,
    busyTimeoutMs,
  }
}

export const configVerbs = [
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
      const home = findHome(io.cwd, trustedOwners(io.env))
      makeHome(home)
      const config = await readConfig(join(home.folder, configName))
      const [foreign] = (await inspectSettings({ ...io, env: {} }, {})).forbidden.filter(
        ({ key }) => key !== setting,
      )
      // Accepting the whole file would also accept what someone else wrote into it.
      if (foreign && !isTrusted(config, io)) throw refusal(foreign, config)
      const text = await withSetting(config, setting, value)
      const fresh = `${config.path}.${process.pid}`
      writeFileSync(fresh, text, { flag: 'wx', mode: 0o600 })
      chmodSync(fresh, fileModeIn(home.folder))
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
