/** `holdfast config`. */

import { withoutPassword } from '../../domain/store-url.ts'
import { formatDuration } from '../duration.ts'
import type { Settings } from '../settings.ts'
import { verb } from '../verb.ts'
import { printable } from '../view.ts'

interface Shown {
  readonly settings: Readonly<Record<string, { value: string | number; origin: string }>>
  readonly withOrigin: boolean
}

const print = verb<Shown>({
  name: 'print',
  summary: 'What is set: options, then HOLDFAST_* variables, then config.toml, then defaults.',
  options: [{ flags: '--show-origin', description: 'where each setting comes from' }],
  async act({ settings, options }) {
    return { settings: shownSettings(settings), withOrigin: options.showOrigin === true }
  },
  text({ settings, withOrigin }, view) {
    const rows = Object.entries(settings).map(([name, { value, origin }]) => {
      const shown = name === 'busyTimeoutMs' ? formatDuration(value as number) : printable(String(value))
      return [name.replace('busyTimeoutMs', 'busy-timeout'), shown, printable(origin)]
    })
    if (withOrigin) return view.table(['setting', 'value', 'origin'], rows)
    return view.pairs(rows.map(([name = '', value = '']) => [name, value]))
  },
  json: ({ settings, withOrigin }) =>
    withOrigin
      ? { settings }
      : {
          settings: Object.fromEntries(Object.entries(settings).map(([name, { value }]) => [name, value])),
        },
})

function shownSettings({ store, namespace, agent, durability, busyTimeoutMs }: Settings): Shown['settings'] {
  return {
    store: { ...store, value: withoutPassword(store.value, ':…') },
    namespace,
    agent,
    durability,
    busyTimeoutMs,
  }
}

export const configVerbs = [print]
