/**
 * A real PostgreSQL server that a test starts, stops, kills and doubles. It listens on 127.0.0.1 only; its data is
 * gone with the process that made it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { findBinaries, type ServerVersion } from './server-binaries.ts'
import { publish, standOnGround } from './server-ground.ts'

export type Settings = Readonly<Record<string, string | number>>

/** As users run it (fsync on), but small and for many tests at once. */
const settings: Settings = {
  listen_addresses: '127.0.0.1',
  max_connections: 300,
  shared_buffers: '64MB',
  wal_level: 'replica',
  // In its own folder: what a killed server leaves behind goes with it.
  dynamic_shared_memory_type: 'mmap',
}

const user = 'tester'
const password = 'secret'
const startTimeoutMs = 30_000

export class Server {
  readonly version: ServerVersion
  readonly port: number
  readonly #folder: string
  readonly #data: string
  #settings: Settings
  #process: ChildProcess | null = null

  private constructor(version: ServerVersion, folder: string, port: number, settings: Settings) {
    this.version = version
    this.port = port
    this.#folder = folder
    this.#data = join(folder, 'data')
    this.#settings = settings
  }

  /** A new server, started; `flags` are for initdb. */
  static async create(
    version: ServerVersion,
    more: Settings = {},
    flags: readonly string[] = [],
  ): Promise<Server> {
    const server = await Server.#prepare(version, more)
    await copy(await templateOf(version, flags), server.#data)
    await server.start()
    return server
  }

  /**
   * For tests that copy it again and again. Servers die there, machines do not: without fsync nothing is lost, and a
   * copy is there in a second instead of five. It has few files: short segments of the log, no templates.
   */
  static async createLight(version: ServerVersion, more: Settings = {}): Promise<Server> {
    const server = await Server.create(version, { fsync: 'off', ...more }, ['--wal-segsize=1'])
    await server.query(async (client) => {
      await client.query("update pg_database set datistemplate = false where datname <> 'postgres'")
      for (const name of ['template0', 'template1']) await client.query(`drop database ${name}`)
    })
    return server
  }

  static async #prepare(version: ServerVersion, more: Settings): Promise<Server> {
    const ground = standOnGround()
    const folder = mkdtempSync(join(ground.folder, `server-${version}-`))
    own(folder)
    return new Server(version, folder, await freePort(), { ...settings, ...more })
  }

  /** The URL of the database that every server starts with. */
  get url(): string {
    return `postgres://${user}:${password}@127.0.0.1:${this.port}/postgres`
  }

  /** The same for programs of this machine. */
  get socketUrl(): string {
    return `postgres://${user}:${password}@${encodeURIComponent(this.#folder)}:${this.port}/postgres`
  }

  get pid(): number | null {
    return this.#process?.pid ?? null
  }

  /** Returns when it takes connections. Keeps its port; `more` settings stay in force. */
  async start(more: Settings = {}): Promise<void> {
    this.#settings = { ...this.#settings, ...more }
    const deadline = performance.now() + startTimeoutMs
    // A server killed a moment ago may still have children that hold its memory; it is refused until they see it.
    while (!(await this.#launch(deadline))) {
      if (performance.now() > deadline) throw this.#failure('did not start')
      await pause(50)
    }
  }

  /** False when the memory of its predecessor is still in use. */
  async #launch(deadline: number): Promise<boolean> {
    const log = openSync(this.#log, 'w')
    const place = { port: this.port, unix_socket_directories: this.#folder }
    const args = Object.entries({ ...this.#settings, ...place }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ])
    const launched = spawn(join(binaries(this.version), 'postgres'), ['-D', this.#data, ...args], {
      ...standOnGround().user,
      cwd: this.#folder,
      env: { ...process.env, LC_ALL: 'C' },
      // Out of reach of Ctrl-C: the guard stops it when its turn has come.
      detached: true,
      stdio: ['ignore', log, log],
    })
    launched.unref()
    let exit: string | null = null
    launched.once('error', (error) => {
      exit = String(error)
    })
    launched.once('exit', (code, signal) => {
      exit = `exit ${code ?? signal}`
    })
    const unguard = launched.pid === undefined ? () => {} : standOnGround().guard(launched.pid)
    launched.once('exit', unguard)
    this.#process = launched
    while (!this.#isReady()) {
      if (exit !== null) {
        this.#process = null
        if (/shared memory block .* still in use/s.test(this.#readLog())) return false
        throw this.#failure(`ended with ${exit}`)
      }
      if (performance.now() > deadline) throw this.#failure('takes no connections')
      await pause(10)
    }
    return true
  }

  /** The file by which pg_ctl knows it too: the first line is the process, the eighth how far it is. */
  #isReady(): boolean {
    const lines = read(join(this.#data, 'postmaster.pid')).split('\n')
    return lines[0] === String(this.pid) && ['ready', 'standby'].includes(lines[7]?.trim() ?? '')
  }

  /** Fast shutdown: sessions are ended, what they did not commit is rolled back. */
  async stop(): Promise<void> {
    await this.#end('SIGINT')
  }

  /** kill -9 of the server; its sessions end when they see it. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** SIGSTOP to all of its processes: connections stay, nothing is answered, until `thaw`. */
  freeze(): void {
    this.#signalAll('SIGSTOP')
  }

  thaw(): void {
    this.#signalAll('SIGCONT')
  }

  /** The server first: it must not think that its children are dead, or start others. */
  #signalAll(signal: 'SIGSTOP' | 'SIGCONT'): void {
    if (this.pid === null) return
    process.kill(this.pid, signal)
    for (const child of childrenOf(this.pid)) signalQuietly(child, signal)
  }

  async restart(more: Settings = {}): Promise<void> {
    await this.stop()
    await this.start(more)
  }

  async #end(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    const ending = this.#process
    this.#process = null
    if (ending === null || ending.exitCode !== null || ending.signalCode !== null) return
    const gone = once(ending, 'exit')
    ending.ref()
    ending.kill(signal)
    await gone
  }

  /**
   * A copy that follows this one, started; `name` is what `synchronous_standby_names` calls it. `through` is the place
   * it gets its changes from, such as a proxy that leads here.
   */
  async createStandby(
    name: string,
    {
      through = this,
      settings = {},
    }: { readonly through?: { readonly port: number }; readonly settings?: Settings } = {},
  ): Promise<Server> {
    const standby = await Server.#prepare(this.version, { ...this.#settings, ...settings })
    await this.#copyTo(standby.#data)
    rmSync(join(standby.#data, 'postmaster.pid'), { force: true })
    writeFileSync(join(standby.#data, 'standby.signal'), '')
    const primary = `host=127.0.0.1 port=${through.port} user=${user} password=${password} application_name=${name} sslmode=disable gssencmode=disable`
    await standby.start({ primary_conninfo: primary })
    return standby
  }

  /** While it runs: what changed meanwhile is in the log that the label names. */
  async #copyTo(data: string): Promise<void> {
    const { begin, end } = backup[this.version]
    await this.query(async (client) => {
      await client.query(begin)
      await copyLive(this.#data, data)
      const { rows } = await client.query<{ label: string }>(end)
      const label = join(data, 'backup_label')
      writeFileSync(label, rows[0]?.label ?? '')
      own(label)
    })
  }

  /** A standby becomes a primary, on its own timeline. */
  async promote(): Promise<void> {
    await this.query((client) => client.query('select pg_promote(true, 30)'))
  }

  /** How far a primary has written its log, and a standby has applied it. */
  async writtenAt(): Promise<bigint> {
    return this.#place('pg_current_wal_lsn()')
  }

  async replayedAt(): Promise<bigint> {
    return this.#place('pg_last_wal_replay_lsn()')
  }

  async #place(of: string): Promise<bigint> {
    const sql = `select (${of} - '0/0')::text as at`
    const { rows } = await this.query((client) => client.query<{ at: string }>(sql))
    return BigInt(rows[0]?.at ?? 0)
  }

  /** How far a standby has got the primary's log, once it gets no more of it. */
  async receivedAt(): Promise<bigint> {
    const sql =
      "select (pg_last_wal_receive_lsn() - '0/0')::text as at, (select count(*) from pg_stat_wal_receiver) as receivers"
    for (;;) {
      const { rows } = await this.query((client) => client.query<{ at: string; receivers: string }>(sql))
      if (rows[0]?.receivers === '0') return BigInt(rows[0].at)
      await pause(10)
    }
  }

  /** Every session of Holdfast is ended by the server. */
  async endSessions(): Promise<void> {
    const sql = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast'`
    await this.query((client) => client.query(sql))
  }

  async countSessions(): Promise<number> {
    return this.#count("from pg_stat_activity where application_name = 'holdfast'")
  }

  async countStandbys(): Promise<number> {
    return this.#count('from pg_stat_replication')
  }

  async #count(rows: string): Promise<number> {
    const sql = `select count(*)::int as count ${rows}`
    const { rows: answer } = await this.query((client) => client.query<{ count: number }>(sql))
    return answer[0]?.count ?? 0
  }

  /** Settings that need no restart. */
  async configure(settings: Settings): Promise<void> {
    await this.query(async (client) => {
      for (const [name, value] of Object.entries(settings))
        await client.query(`alter system set ${name} = ${client.escapeLiteral(String(value))}`)
      await client.query('select pg_reload_conf()')
    })
  }

  /** Which timeline a primary writes. */
  async timeline(): Promise<number> {
    const sql = 'select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline'
    const { rows } = await this.query((client) => client.query<{ timeline: string }>(sql))
    return Number.parseInt(rows[0]?.timeline ?? '', 16)
  }

  /** Over a separate connection. */
  async query<Result>(use: (client: Client) => Promise<Result>): Promise<Result> {
    const client = new Client({ connectionString: this.url })
    await client.connect()
    try {
      return await use(client)
    } finally {
      await client.end()
    }
  }

  /** Stopped and deleted; nothing of it is left. */
  async remove(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  }

  get #log(): string {
    return join(this.#folder, 'log')
  }

  #readLog(): string {
    return read(this.#log)
  }

  #failure(what: string): Error {
    const log = this.#readLog().split('\n').slice(-20).join('\n')
    return new Error(`the PostgreSQL ${this.version} of the tests ${what}; its log says:\n${log}`)
  }
}

const templates = new Map<string, Promise<string>>()

/** What initdb makes with these flags, made once per run: a copy is there in a tenth of the time. */
function templateOf(version: ServerVersion, flags: readonly string[]): Promise<string> {
  const place = join(standOnGround().shared, ['template', version, ...flags].join(''))
  const template = templates.get(place) ?? initialize(version, flags, place)
  templates.set(place, template)
  return template
}

async function initialize(version: ServerVersion, flags: readonly string[], place: string): Promise<string> {
  if (existsSync(place)) return join(place, 'data')
  const draft = `${place}-${process.pid}`
  mkdirSync(draft)
  own(draft)
  await run(join(binaries(version), 'initdb'), [
    `--pgdata=${join(draft, 'data')}`,
    `--username=${user}`,
    `--pwfile=${writePassword(draft)}`,
    '--encoding=UTF8',
    '--no-sync',
    // Password hashes are slow on purpose, and checked twice per store that a test opens.
    '--auth=trust',
    ...initFlags[version],
    ...flags,
  ])
  publish(draft, place)
  return join(place, 'data')
}

function writePassword(folder: string): string {
  const file = join(folder, 'password')
  writeFileSync(file, `${password}\n`, { mode: 0o600 })
  own(file)
  return file
}

/**
 * Cheap to check, since tests connect thousands of times. The collation of 18 is one for people, where "a" stands
 * before "B", as many users have it; that of 14 compares bytes.
 */
const initFlags: Record<ServerVersion, readonly string[]> = {
  '14': ['--auth=md5', '--locale=C'],
  '18': [
    '--auth=scram-sha-256',
    '--set=scram_iterations=1',
    '--locale=C',
    '--locale-provider=icu',
    '--icu-locale=en-US',
  ],
}

const backup: Record<ServerVersion, { readonly begin: string; readonly end: string }> = {
  '14': {
    begin: "select pg_start_backup('standby', true, false)",
    end: 'select labelfile as label from pg_stop_backup(false, false)',
  },
  '18': {
    begin: "select pg_backup_start('standby', true)",
    end: 'select labelfile as label from pg_backup_stop(false)',
  },
}

function binaries(version: ServerVersion): string {
  return findBinaries(version, standOnGround())
}

/** With owners and modes. */
async function copy(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to], { env: { ...process.env, LC_ALL: 'C' } })
}

/** Files may go while they are copied; the log knows of them. Anything else that cp says is a failure. */
async function copyLive(from: string, to: string): Promise<void> {
  try {
    await copy(from, to)
  } catch (error) {
    const complaints = (error as { stderr: string }).stderr.trim().split('\n')
    if (!complaints.every((line) => line.endsWith('No such file or directory'))) throw error
  }
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { user, folder } = standOnGround()
  try {
    await promisify(execFile)(program, [...args], {
      ...user,
      cwd: folder,
      env: { ...process.env, LC_ALL: 'C' },
    })
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${program} failed, so there is no PostgreSQL to test on:\n${stdout}${stderr}`, {
      cause: error,
    })
  }
}

/** Of the user that the server runs as. */
function own(path: string): void {
  const { uid, gid } = standOnGround().user
  if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid)
}

/** It may have ended meanwhile. */
function signalQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** It was free a moment ago; nothing can promise more. */
async function freePort(): Promise<number> {
  const listener = createServer()
  await new Promise<void>((listening) => listener.listen(0, '127.0.0.1', listening))
  const address = listener.address()
  await new Promise((closed) => listener.close(closed))
  if (address === null || typeof address === 'string') throw new Error('this machine gives out no ports')
  return address.port
}
