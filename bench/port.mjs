/** A free port for a server that we start. */
import { once } from 'node:events'
import { createServer } from 'node:net'

/** It was free a moment ago; nothing can promise more. */
export async function findFreePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
