/** `holdfast trust`. */
import { join } from 'node:path'
import { withoutPassword } from '../../domain/store-url.ts'
import { NotFoundError } from '../../errors.ts'
import { type ConfigFile, readConfig } from '../config-file.ts'
import { configName, findHome } from '../location.ts'
import { trust as accept, distrust } from '../trust.ts'
import { verb } from '../verb.ts'

export const trust = verb({
  name: 'trust',
  summary:
    'Accept the config.toml found here, as it is now. Read it first: it decides where your commands go.',
  options: [{ flags: '--remove', description: 'no longer accept it' }],
  help: `A config.toml belongs to whoever wrote the folder it is in. Until you accept it, a line that names a server, a path
outside the folder, an agent or a durability is refused. A file that changes must be accepted again.`,
  inspects: true,
  async act({ io, options }) {
    const { folder } = findHome(io)
    const config = await readConfig(join(folder, configName))
    if (Object.keys(config.settings).length === 0) throw nothingToTrust(config)
    const isRemoved = options.remove === true
    ;(isRemoved ? distrust : accept)(config, io)
    const { store, ...others } = config.settings
    const settings = store === undefined ? others : { store: withoutPassword(store, ':…'), ...others }
    return { file: config.path, trusted: !isRemoved, settings }
  },
  text: ({ file, trusted, settings }, view) =>
    view.pairs(
      [[trusted ? 'trusted' : 'no longer trusted', file], ...Object.entries(settings)].map(
        ([name = '', value = '']) => [name, value],
      ),
    ),
})

function nothingToTrust({ path }: ConfigFile): NotFoundError {
  return new NotFoundError({
    what: `${path} sets nothing, so there is nothing to trust`,
    next: 'see what is set with `holdfast config print`',
    facts: { file: path },
  })
}
