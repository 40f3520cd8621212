/** A primary and its standby, at two places that a URL names. */
import { TcpProxy } from '../support/proxy.ts'
import { Server } from '../support/server.ts'
import { closeAfterHandles, until } from './support.ts'

/** Two places, of which the URL names both; one has the primary, the other a standby, or the primary of before. */
export class Site {
  readonly store: string
  readonly #places: readonly TcpProxy[]
  /** Which place the primary is at. */
  #at = 0
  #primary: Server
  #standby: Server | null = null
  #former: Server | null = null

  private constructor(primary: Server, places: readonly TcpProxy[]) {
    this.#primary = primary
    this.#places = places
    const hosts = places.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const url = primary.url.replace(`127.0.0.1:${primary.port}`, hosts)
    this.store = `${url}?schema=failover&allowUnsafeServer=true`
  }

  static async create(): Promise<Site> {
    const primary = await Server.createLight('18')
    const places = [await TcpProxy.open(primary), await TcpProxy.open({ port: 1 })]
    closeAfterHandles(() => Promise.all(places.map((place) => place.close())))
    return new Site(primary, places)
  }

  get primary(): Server {
    return this.#primary
  }

  /** The primary before this one. */
  get former(): Server {
    if (this.#former === null) throw new Error('there was no failover yet')
    return this.#former
  }

  get #other(): TcpProxy {
    return this.#places[1 - this.#at] as TcpProxy
  }

  /** From now on the primary acknowledges nothing that the standby has not got. `delayMs`: how far it is from all. */
  async addStandby({ delayMs } = { delayMs: 0 }): Promise<void> {
    const standby = await this.#primary.createStandby('standby')
    this.#standby = standby
    this.#other.leadTo(standby)
    this.#other.delayMs = delayMs
    await this.#primary.query(async (client) => {
      await client.query("alter system set synchronous_standby_names = 'standby'")
      await client.query('select pg_reload_conf()')
      await until('the standby is in step', async () => {
        const { rows } = await client.query("select 1 from pg_stat_replication where sync_state = 'sync'")
        return rows.length === 1
      })
    })
  }

  async promote(): Promise<void> {
    if (this.#standby === null) throw new Error('there is no standby')
    await this.#standby.promote()
    this.#former = this.#primary
    this.#primary = this.#standby
    this.#standby = null
    this.#at = 1 - this.#at
  }

  /** The primary falls silent for all clients, without an error, until `mend`; it keeps running. */
  silencePrimary(): void {
    this.#places[this.#at]?.stall()
  }

  /** No server can be reached, until `mend`. */
  cut(): void {
    for (const place of this.#places) place.cut()
  }

  mend(): void {
    for (const place of this.#places) place.mend()
  }

  async removeFormer(): Promise<void> {
    await this.former.remove()
    this.#former = null
  }
}
