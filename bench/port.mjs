/** A port of this machine for a server of ours. */
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Free a moment ago, which is as much as can be known. */
export async function findFreePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
