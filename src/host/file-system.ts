/** Where a path lies. SQLite's locks and shared memory do not hold on network file systems. */
import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Magic numbers as the kernel tells them (statfs). */
const networkTypes = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x01021997, '9p'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
])

export function networkFileSystem(path: string): string | null {
  if (process.platform !== 'linux') return null
  try {
    // Kept unsigned: some numbers have the highest of 32 bits set.
    return networkTypes.get(Number(statfsSync(path).type) >>> 0) ?? null
  } catch {
    // The folder is not there: opening the file will say so.
    return null
  }
}

export interface Storage {
  readonly storeBytes: number
  readonly logBytes: number
  readonly freeBytes: number
}

/** How much room a store and its log take, and how much is left; null when it cannot be told. */
export function storageOf(path: string): Storage | null {
  try {
    const { bavail, bsize } = statfsSync(dirname(path))
    const logBytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    return { storeBytes: statSync(path).size, logBytes, freeBytes: bavail * bsize }
  } catch {
    return null
  }
}
