/** Where a store file may be. */
import { statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { isShared } from '../../host/access.ts'
import type { StoreWarning } from '../../port/engine.ts'

/** Refuses a location where SQLite's locks, or its log, are not shared by everybody. */
export function assertLocal(location: string, { host }: Environment): void {
  const network = host.networkFileSystem(dirname(location))
  if (network !== null) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${location} is on a network file system (${network}), where SQLite's locks do not hold`,
      next: 'put the store on a local disk, or use PostgreSQL for a fleet on many machines',
      facts: { location, fileSystem: network },
    })
  }
  if (host.isMountPoint(location)) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${location} is mounted as a single file, so its log (${basename(location)}-wal) would not be shared with it`,
      next: 'mount its folder instead',
      facts: { location },
    })
  }
}

/** Warns if others may read or write the store: it holds tokens and payloads, and a reader can keep writers waiting. */
export function accessWarnings(location: string, mode: number): StoreWarning[] {
  const folder = statSync(dirname(location))
  if (process.getuid === undefined || (folder.mode & 0o011) === 0) return []
  const groupMay = isShared(folder) || (folder.mode & 0o010) === 0 ? 0 : 0o060
  const open = mode & (((folder.mode & 0o001) === 0 ? 0 : 0o006) | groupMay)
  if (open === 0) return []
  const what = `${location} can be ${(open & 0o022) === 0 ? 'read' : 'written'} by other users`
  const remedy = `run chmod 600 on it and on its -wal and -shm while no process has it open; to share a store between users, create its folder with \`holdfast init --shared\``
  return [{ check: 'access', what, remedy, isLasting: true }]
}

/** Warns about locations that are risky but not refused. */
export function fileSystemWarnings(location: string, { host }: Environment): StoreWarning[] {
  const name = host.userFileSystem(dirname(location))
  if (name === null) return []
  const what = `${location} is on ${name}, where locks and shared memory may not work for every process that can see the file`
  return [{ check: 'file system', what, remedy: 'put the store on a local disk of the machine that uses it' }]
}
