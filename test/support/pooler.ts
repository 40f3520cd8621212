/**
 * A pooler in transaction mode, as PgBouncer is: clients share a few connections, each for one transaction at a time.
 * Nothing is reset in between: what one client sets, the next one gets.
 */
import { createServer, type Server as Listener, type Socket } from 'node:net'
import { Client } from 'pg'
import type { Server } from './server.ts'
import { Messages, message } from './wire.ts'

export class Pooler {
  readonly #listener: Listener
  #server: Server
  readonly #clients = new Set<Socket>()
  readonly #backends = new Set<Backend>()
  readonly #free: Backend[] = []
  readonly #waiting: ((backend: Backend) => void)[] = []
  /** How often a client got a different connection than before. */
  switches = 0
  /** How many clients it has let in. */
  logins = 0

  private constructor(listener: Listener, server: Server) {
    this.#listener = listener
    this.#server = server
  }

  /** This many connections to the server for any number of clients. */
  static async open(server: Server, connections: number): Promise<Pooler> {
    const listener = createServer()
    const pooler = new Pooler(listener, server)
    for (let number = 0; number < connections; number++) pooler.#give(await pooler.#connect())
    listener.on('connection', (client) => pooler.#serve(client))
    await new Promise<void>((listening) => listener.listen(0, '127.0.0.1', listening))
    return pooler
  }

  /** The same server, through this pooler. */
  through(url: string): string {
    const address = this.#listener.address()
    if (address === null || typeof address === 'string') throw new Error('the pooler is closed')
    return url.replace(/@127\.0\.0\.1:\d+/, `@127.0.0.1:${address.port}`)
  }

  /** Its clients stay connected, and reach another server from now on. */
  async leadTo(server: Server): Promise<void> {
    const connections = this.#backends.size
    for (const backend of this.#backends) backend.end()
    this.#backends.clear()
    this.#free.length = 0
    this.#server = server
    for (let number = 0; number < connections; number++) this.#give(await this.#connect())
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.destroy()
    for (const backend of this.#backends) backend.end()
    await new Promise((closed) => this.#listener.close(closed))
  }

  async #connect(): Promise<Backend> {
    const backend = await Backend.open(this.#server)
    this.#backends.add(backend)
    return backend
  }

  #take(): Promise<Backend> {
    const free = this.#free.shift()
    if (free) return Promise.resolve(free)
    return new Promise((given) => this.#waiting.push(given))
  }

  #give(backend: Backend): void {
    const next = this.#waiting.shift()
    if (next) next(backend)
    else this.#free.push(backend)
  }

  /** Its client left midway: nobody can tell what is still to come. */
  async #replace(backend: Backend): Promise<void> {
    this.#backends.delete(backend)
    backend.end()
    if (this.#listener.listening) this.#give(await this.#connect())
  }

  #serve(client: Socket): void {
    const messages = new Messages('client')
    let toSend: Buffer[] = []
    let backend: Backend | null = null
    let last: Backend | null = null
    let isAsking = false
    let hasLeft = false

    const release = (used: Backend) => {
      backend = null
      this.#give(used)
      if (toSend.length > 0) void flush()
    }
    const flush = async () => {
      if (backend === null) {
        if (isAsking) return
        isAsking = true
        const given = await this.#take()
        isAsking = false
        if (hasLeft) return this.#give(given)
        if (last !== null && last !== given) this.switches++
        backend = given
        last = given
        given.use({ answer: (bytes) => client.write(bytes), done: () => release(given) })
      }
      const sending = toSend
      toSend = []
      for (const bytes of sending) backend.send(bytes)
    }
    this.#clients.add(client)
    client.setNoDelay(true)
    client.on('error', () => {})
    client.on('close', () => {
      hasLeft = true
      this.#clients.delete(client)
      if (backend !== null) void this.#replace(backend)
    })
    client.on('data', (chunk) => {
      for (const { type, bytes } of messages.take(chunk)) {
        if (type === '') {
          this.logins++
          client.write(welcome)
        } else if (type !== 'X') toSend.push(bytes)
      }
      if (toSend.length > 0) void flush()
    })
  }
}

interface Use {
  answer(bytes: Buffer): void
  /** Everything sent was answered, and no transaction is open. */
  done(): void
}

/** One connection to the server. */
class Backend {
  readonly #stream: Socket
  readonly #messages = new Messages('server')
  #asked = 0
  #use: Use | null = null

  private constructor(stream: Socket) {
    this.#stream = stream
    stream.removeAllListeners('data')
    stream.on('data', (chunk: Buffer) => this.#hear(chunk))
  }

  /** The driver logs in; after that the connection is ours. */
  static async open({ url }: Server): Promise<Backend> {
    const client = new Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    return new Backend((client as unknown as { connection: { stream: Socket } }).connection.stream)
  }

  use(use: Use): void {
    this.#use = use
  }

  send(bytes: Buffer): void {
    if (bytes[0] === sync || bytes[0] === query) this.#asked++
    this.#stream.write(bytes)
  }

  end(): void {
    this.#use = null
    this.#stream.destroy()
  }

  #hear(chunk: Buffer): void {
    for (const { type, bytes } of this.#messages.take(chunk)) {
      this.#use?.answer(bytes)
      if (type !== 'Z') continue
      this.#asked--
      if (this.#asked === 0 && bytes[5] === idle) this.#use?.done()
    }
  }
}

const sync = 'S'.charCodeAt(0)
const query = 'Q'.charCodeAt(0)
const idle = 'I'.charCodeAt(0)

/** Every client is accepted: the pooler itself has logged in. */
const welcome = Buffer.concat([
  message('R', Buffer.alloc(4)),
  ...Object.entries({ client_encoding: 'UTF8', server_version: '18', standard_conforming_strings: 'on' }).map(
    ([name, value]) => message('S', Buffer.from(`${name}\0${value}\0`)),
  ),
  message('K', Buffer.alloc(8)),
  message('Z', Buffer.from('I')),
])
