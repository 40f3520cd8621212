/**
 * Where the servers of this process live: a folder that the user they run as can enter, and a guard that stops what
 * still runs and deletes the folder when this process ends, however it ends.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The user a server runs as; empty means ours. */
export interface ServerUser {
  readonly uid?: number
  readonly gid?: number
}

export interface Ground {
  readonly folder: string
  /** What is made once per run and used by all of its processes lies here; without such a run, in `folder`. */
  readonly shared: string
  readonly user: ServerUser
  /** The guard stops this process when ours ends; until the returned function is called. */
  guard(pid: number): () => void
  leave(): Promise<void>
}

let ground: Ground | null = null

export function standOnGround(): Ground {
  ground ??= createGround()
  return ground
}

/** Processes that this one starts share what it and they make, until it leaves its ground. */
export function shareGround(): void {
  process.env[sharedFolder] = standOnGround().folder
}

const sharedFolder = 'HOLDFAST_TEST_SERVERS'

/** Another process may have made the same in the meantime; the first one stays, and no one sees half of it. */
export function publish(draft: string, place: string): void {
  try {
    renameSync(draft, place)
  } catch (error) {
    if (!existsSync(place)) throw error
    rmSync(draft, { recursive: true, force: true })
  }
}

/** Stops every server of this process and deletes everything. */
export async function leaveGround(): Promise<void> {
  const left = ground
  ground = null
  await left?.leave()
}

function createGround(): Ground {
  const user = serverUser()
  const folder = mkdtempSync(join(temporaryFolder(user), 'holdfast-servers-'))
  // mkdtemp makes it 0700, and a server of another user must get through.
  chmodSync(folder, 0o755)
  const guard = startGuard(folder)
  return {
    folder,
    shared: process.env[sharedFolder] ?? folder,
    user,
    guard(pid) {
      guard.stdin?.write(`+${pid}\n`)
      return () => guard.stdin?.write(`-${pid}\n`)
    },
    async leave() {
      const gone = new Promise((exited) => guard.once('exit', exited))
      guard.ref()
      guard.stdin?.end()
      await gone
    },
  }
}

/** PostgreSQL refuses to run as root; `nobody` is there on every system and owns nothing. */
function serverUser(): ServerUser {
  if (process.getuid?.() !== 0) return {}
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: idOf('-u'), gid: idOf('-g') }
}

/** The usual one, unless the server's user cannot enter a folder above it. */
function temporaryFolder({ uid }: ServerUser): string {
  if (uid === undefined) return tmpdir()
  const found = ['/dev/shm', tmpdir(), '/tmp', '/var/tmp'].find(isOpenToAll)
  if (found !== undefined) return found
  throw new Error(
    `PostgreSQL does not run as root, and user ${uid} cannot enter ${tmpdir()}; set TMPDIR to a folder that all can enter`,
  )
}

function isOpenToAll(folder: string): boolean {
  const isEntered = existsSync(folder) && (statSync(folder).mode & 0o001) !== 0
  return isEntered && (dirname(folder) === folder || isOpenToAll(dirname(folder)))
}

/** Detached, so that Ctrl-C does not reach it: it must outlive us. Its input ends when we do. */
function startGuard(folder: string): ChildProcess {
  const program = fileURLToPath(new URL('./server-guard.mjs', import.meta.url))
  const guard = spawn(process.execPath, [program, folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  guard.unref()
  const pipe = guard.stdin as unknown as { unref(): void }
  pipe.unref()
  return guard
}
