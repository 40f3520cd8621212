/** Finds the peers to compare with. A peer is `{ parameters }` if it can be measured, else `{ missing: reason }`. */
import { startRedis } from './redis.mjs'

/** Each has an adapter of the same name beside this file; some need a Redis with this `appendfsync`. */
const redisOf = { bullmq: 'always', redlock: 'everysec' }

export class Peers {
  #isWanted
  #servers = new Map()

  constructor({ isWanted }) {
    this.#isWanted = isWanted
  }

  async find(name) {
    if (!this.#isWanted) return { missing: 'peers are left out' }
    if (!(await isInstalled(name)))
      return { missing: `${name} is not installed (npm install --prefix bench/peers)` }
    const appendfsync = redisOf[name]
    return appendfsync === undefined ? { parameters: {} } : this.#findRedis(appendfsync)
  }

  async #findRedis(appendfsync) {
    try {
      if (!this.#servers.has(appendfsync)) this.#servers.set(appendfsync, await startRedis({ appendfsync }))
      return { parameters: { port: this.#servers.get(appendfsync).port } }
    } catch (error) {
      return { missing: error.code === 'ENOENT' ? 'there is no redis-server on this machine' : String(error) }
    }
  }

  async stop() {
    for (const server of this.#servers.values()) await server.stop()
    this.#servers.clear()
  }
}

async function isInstalled(name) {
  try {
    await import(`./${name}.mjs`)
    return true
  } catch (error) {
    // better-sqlite3 without its compiled part fails with a different error, which should be visible.
    if (error.code === 'ERR_MODULE_NOT_FOUND') return false
    throw error
  }
}
