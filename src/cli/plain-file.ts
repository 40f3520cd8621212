/** Small text files that a stranger may have put there: a link, a device or a pipe in their place is never read. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Null where there is no such file. */
export type PlainFile = { readonly text: string } | { readonly refusal: string } | null

/** The name itself must be a regular file; `maxBytes` bounds what is read, whatever the file system claims its size is. */
export function readPlainFile(path: string, maxBytes: number): PlainFile {
  const descriptor = openPlain(path)
  if (typeof descriptor !== 'number') return descriptor
  try {
    if (!fstatSync(descriptor).isFile()) return { refusal: 'it is not a regular file' }
    const bytes = Buffer.alloc(maxBytes + 1)
    let length = 0
    for (let read = 1; read > 0 && length <= maxBytes; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, null)
    if (length > maxBytes) return { refusal: `it is larger than ${maxBytes / 1024} KiB` }
    return { text: bytes.toString('utf8', 0, length) }
  } finally {
    closeSync(descriptor)
  }
}

function openPlain(path: string): number | PlainFile {
  // Not through a link, and without waiting for somebody at the other end of a pipe.
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
  try {
    return openSync(path, flags)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    if (code === 'ELOOP') return { refusal: 'it is a symbolic link' }
    if (code === 'ENXIO') return { refusal: 'it is not a regular file' }
    throw error
  }
}
