/** What `stat` says of a store's files, which are never opened here. */
import { type BigIntStats, statSync } from 'node:fs'
import { HoldfastError } from '../../errors.ts'

/** Null where there is nothing. */
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

/** Tells files of one machine apart, as long as somebody has them open: numbers of deleted files are used again. */
export function idOf({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${dev}:${ino}`
}
