/**
 * Our own Redis on a free loopback port, in its own folder. With `appendfsync` `always` every acknowledged
 * write is on disk, with `everysec` (its default) all but those of about the last second.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../port.mjs'
import { makeFolder } from '../store.mjs'

const startsWithinMs = 10_000

export async function startRedis({ appendfsync }) {
  const folder = makeFolder()
  const port = await findFreePort()
  const options = {
    port,
    bind: '127.0.0.1',
    dir: folder.path,
    appendonly: 'yes',
    appendfsync,
    save: '',
    'maxmemory-policy': 'noeviction',
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const server = spawn('redis-server', args, { stdio: 'ignore' })
  const killServer = () => server.kill('SIGKILL')
  process.once('exit', killServer)
  try {
    await Promise.race([untilAnswering(port), untilGone(server)])
  } catch (error) {
    killServer()
    folder.remove()
    throw error
  }
  return {
    port,
    async stop() {
      process.off('exit', killServer)
      server.kill()
      await once(server, 'exit')
      folder.remove()
    },
  }
}

async function untilGone(server) {
  // A missing program is reported as an error event, which `once` throws.
  const [code] = await once(server, 'exit')
  throw new Error(`redis-server ended with ${code}`)
}

async function untilAnswering(port) {
  const until = performance.now() + startsWithinMs
  while (!(await isAnswering(port))) {
    if (performance.now() > until) throw new Error(`redis-server did not answer within ${startsWithinMs} ms`)
    await sleep(50)
  }
}

function isAnswering(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    const tell = (answer) => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('data', (data) => tell(String(data).startsWith('+PONG')))
    socket.on('error', () => tell(false))
  })
}
