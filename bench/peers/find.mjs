/** What there is to compare with. A peer is `{ parameters }` when it can be measured, else `{ missing: reason }`. */
import { startRedis } from './redis.mjs'

const howToInstall = 'npm install --prefix bench/peers'

export class Peers {
  #isWanted
  #redis = null

  constructor({ isWanted }) {
    this.#isWanted = isWanted
  }

  async plainjob() {
    if (!this.#isWanted) return { missing: 'peers are left out' }
    return (await isInstalled('./plainjob.mjs')) ? { parameters: {} } : notInstalled('plainjob')
  }

  async bullmq() {
    if (!this.#isWanted) return { missing: 'peers are left out' }
    if (!(await isInstalled('./bullmq.mjs'))) return notInstalled('bullmq')
    try {
      this.#redis ??= await startRedis()
      return { parameters: { port: this.#redis.port } }
    } catch (error) {
      return { missing: error.code === 'ENOENT' ? 'there is no redis-server on this machine' : String(error) }
    }
  }

  async stop() {
    await this.#redis?.stop()
    this.#redis = null
  }
}

async function isInstalled(adapter) {
  try {
    await import(adapter)
    return true
  } catch (error) {
    // better-sqlite3 without its compiled part fails with an error of another kind; that should be seen.
    if (error.code === 'ERR_MODULE_NOT_FOUND') return false
    throw error
  }
}

function notInstalled(name) {
  return { missing: `${name} is not installed (${howToInstall})` }
}
