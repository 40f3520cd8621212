/** Where a store file may lie. */
import { dirname } from 'node:path'
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'

export function assertLocal(location: string, environment: Environment): void {
  const network = environment.host.networkFileSystem(dirname(location))
  if (network === null) return
  throw new HoldfastError('STORE_UNFIT', {
    what: `${location} is on a network file system (${network}), where SQLite's locks do not hold`,
    next: 'put the store on a local disk, or use PostgreSQL for a fleet on many machines',
    facts: { location, fileSystem: network },
  })
}
