/** Where a store file may lie. */
import { basename, dirname } from 'node:path'
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { StoreWarning } from '../engine.ts'

/** Refuses a place where SQLite's locks, or its log, do not reach everybody. */
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

/** What may go wrong in a place that is not refused. */
export function placeWarnings(location: string, { host }: Environment): StoreWarning[] {
  const name = host.userFileSystem(dirname(location))
  if (name === null) return []
  const what = `${location} is on ${name}; whether its locks and shared memory work for every process that can see the file is not known`
  return [{ check: 'file system', what, remedy: 'put the store on a local disk of the machine that uses it' }]
}
