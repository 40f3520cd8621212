/** What `stat` says about a store's files, which are never opened here. */
import { type BigIntStats, statSync } from 'node:fs'
import { HoldfastError } from '../../errors.ts'

/** Null if there is nothing at the path. */
export function lookAt(path: string): BigIntStats | null {
  try {
    return statSync(path, { bigint: true })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw new HoldfastError('STORE_UNAVAILABLE', {
      what: `${path} cannot be reached (${code ?? String(cause)})`,
      next: 'check the disk, and the permissions of the folders above it',
      facts: { path, code },
      cause,
    })
  }
}

export function sizeOf(path: string): bigint {
  return lookAt(path)?.size ?? 0n
}

/** Tells the files of one machine apart while someone has them open: the inode numbers of deleted files are reused. */
export function idOf({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${dev}:${ino}`
}
