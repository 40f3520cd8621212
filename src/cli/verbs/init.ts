/** `holdfast init`. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { trustedOwners } from '../../host/user.ts'
import { makeHome, shareHome, storeFile } from '../home.ts'
import { assertUsableHome, configName, folderName } from '../location.ts'
import { verb } from '../verb.ts'

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
  async act(call) {
    const { settings, io } = call
    const folder = call.options.here === true ? join(io.cwd, folderName) : settings.home.folder
    const isHere = call.options.here === true && settings.home.folder !== folder
    const file = storeFile(settings.store.value)
    // If the store was named explicitly, or is further up, this folder has not been checked yet.
    assertUsableHome(folder, trustedOwners(io.env))
    const isNew = makeHome({ folder }) || (file !== null && !existsSync(file))
    if (call.options.shared === true) shareHome(folder)
    // With --here, the current settings point to another store. The next command run here opens the new one.
    const store = isHere ? join(folder, 'store.db') : (await call.open()).status.location
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
