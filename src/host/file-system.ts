/** What kind of file system a path is on. SQLite's locks and shared memory do not work on network file systems. */
import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Mount, mountOf, readMounts } from './mounts.ts'
import { unlessRefused } from './unless-refused.ts'

/** Magic numbers as reported by the kernel (statfs). */
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

/** FUSE, and virtiofs, which is built on it. */
const fuse = 0x65735546

/** Programs behind FUSE that keep their files on other machines, by the start of their names. */
const networkPrograms =
  /^(afpfs|alluxio|azure|beegfs|blobfuse|ceph|cosfs|curlftpfs|cvmfs|davfs|fuse_dfs|fuse-nfs|gcsfuse|geesefs|gluster|goofys|google-drive|gvfs|hdfs|ipfs|juicefs|keybase|lizardfs|mfs|moosefs|mountpoint-s3|objectivefs|obsfs|onedrive|ossfs|rclone|s3|seaweedfs|smbnetfs|sshfs|tahoe|xtreemfs)/i
/** `host:path` and `scheme://…`. */
const remoteSource = /^[^/:]+:/

export function networkFileSystem(path: string): string | null {
  const type = typeOf(path)
  if (type === fuse) return networkProgram(mountOf(path, fuseMounts()))
  return type === null ? null : (networkTypes.get(type) ?? null)
}

/**
 * A file system provided by a program, here or outside a virtual machine: only that program knows how well it locks.
 */
export function userFileSystem(path: string): string | null {
  if (typeOf(path) !== fuse) return null
  const mount = mountOf(path, fuseMounts())
  return networkProgram(mount) === null ? (mount?.type ?? 'FUSE') : null
}

export function isMountPoint(path: string): boolean {
  return readMounts().some(({ point }) => point === path)
}

/** Null if it cannot be determined. Opening a file there will say what is wrong with it. */
function typeOf(path: string): number | null {
  if (process.platform !== 'linux') return null
  // Convert to unsigned: some of these numbers have the highest of 32 bits set.
  return unlessRefused(() => Number(statfsSync(path).type) >>> 0)
}

function fuseMounts(): Mount[] {
  return readMounts().filter(({ type }) => /^(fuse|virtiofs)/.test(type))
}

/** Judges by the type, such as `fuse.sshfs`; if that is just `fuse`, by the name of the mount's source. */
export function networkProgram(mount: Mount | null): string | null {
  if (mount?.type === 'fuse') {
    const [program = null] = networkPrograms.exec(mount.source) ?? []
    // Not the source itself, which may contain a password.
    return program ?? (remoteSource.test(mount.source) ? 'FUSE' : null)
  }
  const program = mount?.type.replace(/^fuse(blk)?\./, '') ?? ''
  return networkPrograms.test(program) ? program : null
}

/** How much space a store and its log take, and how much is free; null if that cannot be determined. */
export function storageOf(path: string) {
  return unlessRefused(() => {
    const { bavail, bsize } = statfsSync(dirname(path))
    const logBytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    return { storeBytes: statSync(path).size, logBytes, freeBytes: bavail * bsize }
  })
}
