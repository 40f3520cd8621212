/**
 * A bad network between clients and a PostgreSQL server: it cuts connections, holds bytes back, takes its time, and
 * loses a commit or the answer to one.
 */
import { connect, createServer, type Server as Listener, type Socket } from 'node:net'
import { Commits, execution, hasCommitted, type Message, Messages, preparedText } from './wire.ts'

/** What happens to the next commit, once. */
export type CommitFault =
  /** The server never sees it; the client's connection is cut. */
  | 'lost'
  /** The server commits; the client is cut off before it gets the answer. */
  | 'answer lost'
  /** The client is cut off at once; the server gets the commit when `deliver` is called. */
  | 'late'

/** Long enough for a client to reconnect and ask. */
const lateMs = 100

export class TcpProxy {
  readonly #listener: Listener
  readonly #links = new Set<Link>()
  #target: number
  #isCut = false
  #isStalled = false
  #fault: CommitFault | null = null
  #faults: (() => CommitFault | null) | null = null
  #onFault: () => void = () => {}
  #deliver: () => void = () => {}
  /** How many connections were reset at once, while it was cut. */
  refusals = 0
  /** How often a client has ended what it asked for with a Sync, which outside a transaction ends one. */
  syncs = 0
  /** How many statements clients have had executed. */
  statements = 0
  /** Each text that a client had prepared, as often as it did so. */
  readonly prepared: string[] = []
  /** The delay of each message, in each direction. */
  delayMs = 0
  /** The rate at which clients can send. */
  bytesPerSecond = Number.POSITIVE_INFINITY

  private constructor(listener: Listener, target: number) {
    this.#listener = listener
    this.#target = target
  }

  static async open({ port }: { readonly port: number }): Promise<TcpProxy> {
    // A close is answered by the other side, not by this one: over a network that stalls, it never is.
    const listener = createServer({ allowHalfOpen: true })
    const proxy = new TcpProxy(listener, port)
    listener.on('connection', (client) => proxy.#accept(client))
    await new Promise<void>((listening) => listener.listen(0, '127.0.0.1', listening))
    return proxy
  }

  get port(): number {
    const address = this.#listener.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy is closed')
    return address.port
  }

  /** The same server, through this proxy. */
  through(url: string): string {
    return url.replace(/@127\.0\.0\.1:\d+/, `@127.0.0.1:${this.port}`)
  }

  /** Leads to another server from now on. */
  leadTo({ port }: { readonly port: number }): void {
    this.#target = port
    this.reset()
  }

  get connections(): number {
    return this.#links.size
  }

  /** Every connection is reset; new ones are let through. */
  reset(): void {
    for (const link of this.#links) link.end()
  }

  /** Every connection is reset, and new ones too, until `mend`. */
  cut(): void {
    this.#isCut = true
    this.reset()
  }

  /** Nothing gets through and neither side notices, until `mend`; nothing is lost. */
  stall(): void {
    this.#isStalled = true
  }

  mend(): void {
    this.#isCut = false
    this.#isStalled = false
    for (const link of this.#links) link.flow()
  }

  /** Resolves when the fault has happened to the next commit. */
  breakCommit(fault: CommitFault): Promise<void> {
    this.#fault = fault
    return new Promise((happened) => {
      this.#onFault = happened
    })
  }

  /** Asked for each commit from now on; a late one is delivered a moment later. */
  breakCommits(choose: (() => CommitFault | null) | null): void {
    this.#faults = choose
  }

  /** Delivers the late commit. */
  deliver(): void {
    this.#deliver()
  }

  async close(): Promise<void> {
    this.reset()
    await new Promise((closed) => this.#listener.close(closed))
  }

  #accept(client: Socket): void {
    if (this.#isCut) {
      this.refusals++
      client.resetAndDestroy()
      return
    }
    const link: Link = new Link(client, connect(this.#target, '127.0.0.1'), {
      delayMs: () => this.delayMs,
      bytesPerSecond: () => this.bytesPerSecond,
      isStalled: () => this.#isStalled,
      pass: (message) => this.#pass(link, message),
      ended: () => this.#links.delete(link),
    })
    this.#links.add(link)
  }

  /** Whether a message of the client goes on to the server. */
  #pass(link: Link, message: Message): boolean {
    if (message.type === 'S') this.syncs++
    if (message.type === 'B') this.statements++
    if (message.type === 'P') this.prepared.push(preparedText(message))
    if (!link.isCommit(message)) return true
    const fault = this.#fault ?? this.#faults?.() ?? null
    if (fault === null) return true
    this.#fault = null
    switch (fault) {
      case 'lost':
        link.end()
        this.#onFault()
        return false
      case 'answer lost':
        link.loseAnswer(() => {
          link.end()
          this.#onFault()
        })
        return true
      case 'late':
        this.#deliver = link.leave(message.type === 'B' ? [message.bytes, execution] : [message.bytes])
        if (this.#faults !== null) setTimeout(this.#deliver, lateMs)
        this.#onFault()
        return false
    }
  }
}

interface LinkOptions {
  delayMs(): number
  bytesPerSecond(): number
  isStalled(): boolean
  pass(message: Message): boolean
  ended(): void
}

/** One client's connection and the one that was made for it. */
class Link {
  readonly #client: Socket
  readonly #server: Socket
  readonly #options: LinkOptions
  readonly #fromClient = new Messages('client')
  readonly #fromServer = new Messages('server')
  readonly #commits = new Commits()
  readonly #held: (() => void)[] = []
  #onCommitted: (() => void) | null = null
  #isEnded = false

  constructor(client: Socket, server: Socket, options: LinkOptions) {
    this.#client = client
    this.#server = server
    this.#options = options
    client.setNoDelay(true)
    server.setNoDelay(true)
    client.on('data', (chunk) => {
      this.#slowDown(chunk.length / options.bytesPerSecond())
      this.#carry(() => this.#toServer(chunk))
    })
    server.on('data', (chunk) => this.#carry(() => this.#toClient(chunk)))
    // A close travels like everything else: behind what was sent before it.
    client.on('end', () => this.#carry(() => this.end()))
    server.on('end', () => this.#carry(() => this.end()))
    client.on('error', () => this.end())
    server.on('error', () => this.end())
    client.on('close', () => this.#carry(() => this.end()))
    server.on('close', () => this.#carry(() => this.end()))
  }

  /** Accepts nothing more for this long. */
  #slowDown(seconds: number): void {
    if (seconds === 0) return
    this.#client.pause()
    setTimeout(() => this.#client.resume(), seconds * 1000)
  }

  #carry(pass: () => void): void {
    const delayMs = this.#options.delayMs()
    if (delayMs > 0) setTimeout(() => this.#arrive(pass), delayMs)
    else this.#arrive(pass)
  }

  #arrive(pass: () => void): void {
    if (this.#options.isStalled() || this.#held.length > 0) this.#held.push(pass)
    else pass()
  }

  flow(): void {
    for (const pass of this.#held.splice(0)) pass()
  }

  #toServer(chunk: Buffer): void {
    for (const message of this.#fromClient.take(chunk)) {
      if (this.#isEnded) return
      if (this.#options.pass(message)) this.#server.write(message.bytes)
    }
  }

  #toClient(chunk: Buffer): void {
    const messages = this.#fromServer.take(chunk)
    if (this.#onCommitted !== null && messages.some(hasCommitted)) this.#onCommitted()
    else if (this.#onCommitted === null && !this.#isEnded) this.#client.write(chunk)
  }

  isCommit(message: Message): boolean {
    return this.#commits.isOne(message)
  }

  /** What the server says from now on is not passed on; when it has committed, that is told here. */
  loseAnswer(onCommitted: () => void): void {
    this.#onCommitted = onCommitted
  }

  /** The client is cut off; the server is not, and gets these bytes when the returned function is called. */
  leave(bytes: readonly Buffer[]): () => void {
    this.#onCommitted = () => this.#server.destroy()
    this.#isEnded = true
    this.#client.resetAndDestroy()
    this.#options.ended()
    return () => this.#server.write(Buffer.concat(bytes))
  }

  end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#client.resetAndDestroy()
    this.#server.destroy()
    this.#options.ended()
  }
}
