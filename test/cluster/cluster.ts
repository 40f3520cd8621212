/**
 * Three PostgreSQL servers, of which one is the primary and the others follow it. What an HA manager does is done here
 * by hand, step by step: cut the former primary off, promote whoever has most, have the others follow. They can be in
 * three regions; then what goes from one to another takes its time.
 */

import { closeAfterHandles, until } from '../crash/support.ts'
import { TcpProxy } from '../support/proxy.ts'
import { Server, type Settings } from '../support/server.ts'

const nodeNames = ['a', 'b', 'c'] as const
type NodeName = (typeof nodeNames)[number]

/** A place for a server. The server may be replaced by a copy of the primary, as pg_rewind would do. */
export class Node {
  readonly name: NodeName
  /** How clients of each region reach it. */
  readonly ways: readonly TcpProxy[]
  /** Where it gets its changes from while it is a standby. */
  readonly link: TcpProxy
  #server: Server

  constructor(name: NodeName, server: Server, ways: readonly TcpProxy[], link: TcpProxy) {
    this.name = name
    this.#server = server
    this.ways = ways
    this.link = link
  }

  get server(): Server {
    return this.#server
  }

  /** From now on clients that come here reach this server. */
  take(server: Server): void {
    this.#server = server
    for (const way of this.ways) way.leadTo(server)
    this.mend()
  }

  /** It falls silent for all clients, without an error, until `mend`; it keeps running. */
  stall(): void {
    for (const way of this.ways) way.stall()
  }

  mend(): void {
    for (const way of this.ways) way.mend()
  }
}

/** A commit is acknowledged when it is on the primary and on one of the others, whichever that is. */
const anyOther: Settings = { synchronous_standby_names: `ANY 1 (${nodeNames.join(', ')})` }
/** A standby that lost its primary asks for it again soon, and finds what it has missed. */
const lasting: Settings = { wal_retrieve_retry_interval: '100ms', wal_keep_size: '256MB' }
const nowhere = { port: 1 }

export class Cluster {
  readonly nodes: readonly Node[]
  readonly #isSynchronous: boolean
  #primary: Node

  private constructor(nodes: readonly Node[], isSynchronous: boolean) {
    this.nodes = nodes
    this.#primary = nodes[0] as Node
    this.#isSynchronous = isSynchronous
  }

  /** `delayMs`: so long a message takes from one region to another. */
  static async create({ isSynchronous = true, delayMs = 0 } = {}): Promise<Cluster> {
    const server = await Server.createLight('18')
    const nodes: Node[] = []
    for (const name of nodeNames) {
      const ways = await Promise.all(nodeNames.map((region) => openWay(region === name ? 0 : delayMs)))
      nodes.push(new Node(name, server, ways, await openWay(delayMs)))
    }
    const cluster = new Cluster(nodes, isSynchronous)
    await server.configure(lasting)
    cluster.primary.take(server)
    for (const node of cluster.standbys) await cluster.join(node)
    // Not before: nobody could acknowledge anything.
    if (isSynchronous) await cluster.primary.server.configure(anyOther)
    await cluster.isInStep()
    return cluster
  }

  /** As clients of each region name it: with all three hosts, in the order of their names. */
  get stores(): string[] {
    const { url, port } = this.primary.server
    return nodeNames.map((_, region) => {
      const hosts = this.nodes.map(({ ways }) => `127.0.0.1:${ways[region]?.port}`).join(',')
      return `${url.replace(`127.0.0.1:${port}`, hosts)}?schema=cluster&allowUnsafeServer=true`
    })
  }

  get store(): string {
    return this.stores[0] as string
  }

  get primary(): Node {
    return this.#primary
  }

  get standbys(): Node[] {
    return this.nodes.filter((node) => node !== this.#primary)
  }

  /** A node that is not there, or whose server has gone its own way, follows the primary with a fresh copy of it. */
  async join(node: Node): Promise<void> {
    const { server } = this.primary
    node.link.leadTo(server)
    node.link.mend()
    const settings = { ...lasting, ...(this.#isSynchronous ? anyOther : {}) }
    node.take(await server.createStandby(node.name, { through: node.link, settings }))
  }

  /** Every standby follows, and what is committed from now on is on one of them at least. */
  async isInStep(): Promise<void> {
    const state = this.#isSynchronous ? 'quorum' : 'async'
    const inStep = `select from pg_stat_replication where state = 'streaming' and sync_state = '${state}'`
    await this.primary.server.query((client) =>
      until('the standbys are in step', async () => {
        const { rows } = await client.query(inStep)
        return rows.length === this.standbys.length
      }),
    )
  }

  /**
   * The standbys leave the primary, which may be gone, frozen or unseen, and so acknowledges nothing any more; then the
   * one that has most is promoted. The former primary is as it was. Answers it.
   */
  async failOver(): Promise<Node> {
    const former = this.#primary
    const next = await this.findSuccessor()
    await next.server.promote()
    this.#primary = next
    for (const node of this.standbys) {
      if (node === former) continue
      node.link.leadTo(next.server)
      node.link.mend()
    }
    return former
  }

  /** The standbys get nothing more from the primary. Answers the one that has everything that was acknowledged. */
  async findSuccessor(): Promise<Node> {
    for (const { link } of this.standbys) link.cut()
    const received = await Promise.all(
      this.standbys.map(async (node) => ({ node, at: await node.server.receivedAt() })),
    )
    const [best] = received.sort((left, right) => (left.at < right.at ? 1 : -1))
    if (best === undefined) throw new Error('there is no standby')
    return best.node
  }

  /**
   * As an HA manager would that throws away what others have: the node becomes the primary, whatever it has got, and
   * nobody follows it. The former primary dies.
   */
  async forcePrimary(node: Node): Promise<void> {
    await this.#primary.server.kill()
    await node.server.promote()
    this.#primary = node
  }

  /** The node has everything that was committed before this was asked, and gets nothing more. */
  async leaveBehind(node: Node): Promise<void> {
    const committed = await this.primary.server.writtenAt()
    await until('it has caught up', async () => (await node.server.replayedAt()) >= committed)
    node.link.cut()
  }

  /** Its server is deleted, and its place follows the primary anew. */
  async rebuild(node: Node): Promise<void> {
    node.server.thaw()
    await node.server.remove()
    await this.join(node)
    await this.isInStep()
  }
}

async function openWay(delayMs: number): Promise<TcpProxy> {
  const way = await TcpProxy.open(nowhere)
  way.delayMs = delayMs
  closeAfterHandles(() => way.close())
  return way
}
