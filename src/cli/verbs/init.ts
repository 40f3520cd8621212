/** `holdfast init`. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { InvalidError } from '../../errors.ts'
import { open } from '../../handle/open.ts'
import { makeHome, shareHome, storeFile } from '../home.ts'
import { assertUsableHome, configName, folderName, storeName } from '../location.ts'
import type { Settings } from '../settings.ts'
import { type Call, verb } from '../verb.ts'

export const init = verb({
  name: 'init',
  summary: 'Create a store: .holdfast/ with its own .gitignore and config.toml. Safe to repeat.',
  options: [
    { flags: '--here', description: 'in this folder, even if a folder above has a store' },
    {
      flags: '--shared',
      description: 'share it with a group: the folder gets mode 2770, its files 0660',
    },
  ],
  makesStore: 'always',
  help: 'In a git repository the store is created in the main work tree, so that agents in all work trees share it. Other users cannot open its files; with --shared, give the folder their group (chgrp).',
  async act(call): Promise<Made> {
    const { settings, io } = call
    if (isNamed(settings)) return makeNamed(call)
    const folder = call.options.here === true ? join(io.cwd, folderName) : settings.home.folder
    const isHere = call.options.here === true && settings.home.folder !== folder
    const file = storeFile(settings.store.value)
    // If the store is further up, this folder has not been checked yet.
    assertUsableHome(folder, io.env)
    const isNew = makeHome({ folder }, io) || (file !== null && !existsSync(file))
    if (call.options.shared === true) shareHome(folder)
    // With --here, the current settings point to another store.
    const store = isHere
      ? await makeStore(join(folder, storeName), settings.agent.value)
      : (await call.open()).status.location
    return {
      created: isNew,
      folder,
      config: join(folder, configName),
      store,
    }
  },
  text: ({ created, store, config }, view) =>
    view.pairs([
      [created ? 'made' : 'was there', store],
      ['settings', config],
    ]),
  hint: () => "add work: holdfast task add 'fix the flaky test'; more: holdfast --help",
})

/** By `--store` or `HOLDFAST_URL`: no folder was searched, and no `config.toml` is read for it. */
function isNamed({ config }: Settings): boolean {
  return config.path === ''
}

interface Made {
  readonly created: boolean
  /** Null for a store named elsewhere: a `.holdfast/` here would hide the one further up. */
  readonly folder: string | null
  readonly config: string | null
  readonly store: string
}

async function makeNamed(call: Call): Promise<Made> {
  const { origin } = call.settings.store
  const useless = ['here', 'shared'].find((option) => call.options[option] === true)
  if (useless !== undefined) {
    throw new InvalidError({
      what: `--${useless} is for a .holdfast/ in this folder, but ${origin} names another store`,
      next: `leave out --${useless}, or do not name a store`,
    })
  }
  const existing = await call.openExisting()
  const { status } = existing ?? (await call.open())
  return { created: existing === null, folder: null, config: null, store: status.location }
}

async function makeStore(file: string, agent: string): Promise<string> {
  const hf = await open(file, { agent, background: false, logger: false })
  try {
    return hf.status.location
  } finally {
    await hf.close()
  }
}
