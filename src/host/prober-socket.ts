/**
 * How watchers learn at once that the prober is gone: each keeps a connection to a socket of the prober, which the
 * system closes when that process ends, however it ends. Nothing is ever sent. Where a socket cannot be made or reached,
 * nothing is noticed, and watchers have to look at the process itself.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'

/** The limit is 104 to 108 bytes, depending on the system. A longer path would be cut off. */
const maxPathBytes = 100

export class ProberSocket {
  #server: Server | null = null
  readonly #watchers = new Set<Socket>()
  #watched: { readonly path: string; readonly socket: Socket; isConnected: boolean } | null = null

  /** From now on, watchers notice when this process ends. Its file is removed by `close`, or stays if it is killed. */
  serve(path: string): void {
    if (this.#server !== null || !isShort(path)) return
    this.close()
    this.#server = createServer((watcher) => {
      this.#watchers.add(watcher)
      watcher.unref().resume()
      watcher.on('error', () => {})
      watcher.on('close', () => this.#watchers.delete(watcher))
    })
    this.#server.on('error', () => {})
    // Exclusive: otherwise the workers of a cluster would listen in its first process, and that one may live on.
    this.#server.listen({ path, exclusive: true }).unref()
  }

  /** Whether the end of the process that serves there is noticed: then `gone` is called, once. Connecting takes a while. */
  watch(path: string, gone: () => void): boolean {
    if (this.#watched?.path === path) return this.#watched.isConnected
    this.close()
    if (!isShort(path)) return false
    const watched = { path, socket: connect({ path }), isConnected: false }
    this.#watched = watched
    watched.socket.unref().resume()
    watched.socket.on('connect', () => {
      watched.isConnected = true
    })
    watched.socket.on('error', () => {})
    watched.socket.on('close', () => {
      if (this.#watched !== watched) return
      this.#watched = null
      if (watched.isConnected) gone()
    })
    return false
  }

  close(): void {
    this.#server?.close()
    this.#server = null
    for (const watcher of this.#watchers) watcher.destroy()
    const watched = this.#watched
    this.#watched = null
    watched?.socket.destroy()
  }
}

function isShort(path: string): boolean {
  return Buffer.byteLength(path) <= maxPathBytes
}
