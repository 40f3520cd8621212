/**
 * Reads and writes small text files where an untrusted user may have put something. Never reads a link, a device or a
 * pipe, and never writes through one.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { giveFileToCaller } from '../host/hand-over.ts'

/** Null if there is no such file. */
export type PlainFile =
  | { readonly text: string; readonly owner: number }
  | { readonly refusal: string }
  | null

/** The path itself must be a regular file. `maxBytes` limits what is read, whatever size the file system reports. */
export function readPlainFile(path: string, maxBytes: number): PlainFile {
  const descriptor = openPlain(path)
  if (typeof descriptor !== 'number') return descriptor
  try {
    const stats = fstatSync(descriptor)
    if (!stats.isFile()) return { refusal: 'it is not a regular file' }
    const bytes = Buffer.alloc(maxBytes + 1)
    let length = 0
    for (let read = 1; read > 0 && length <= maxBytes; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, null)
    if (length > maxBytes) return { refusal: `it is larger than ${maxBytes / 1024} KiB` }
    return { text: bytes.toString('utf8', 0, length), owner: stats.uid }
  } finally {
    closeSync(descriptor)
  }
}

function openPlain(path: string): number | PlainFile {
  // Follow no link, and do not block until someone opens the other end of a pipe.
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

/** Replaces the file as a whole. Only its user can read it; under sudo, in a folder of the caller, that is the caller. */
export function writePlainFile(path: string, text: string): void {
  const fresh = `${path}.${process.pid}`
  rmSync(fresh, { force: true })
  const descriptor = openSync(fresh, 'wx', 0o600)
  try {
    writeFileSync(descriptor, text)
    giveFileToCaller(descriptor, dirname(path))
  } finally {
    closeSync(descriptor)
  }
  renameSync(fresh, path)
}
