/**
 * Which `config.toml` files the user has accepted, each with its contents at that time. A file found in a folder is
 * controlled by the folder's author, so on its own it may not point commands at a server, another path or another name.
 */
import { createHash } from 'node:crypto'
import { realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { HoldfastError } from '../errors.ts'
import { giveFolderToCaller } from '../host/hand-over.ts'
import { trustedOwners } from '../host/user.ts'
import type { ConfigFile } from './config-file.ts'
import { makeFolder } from './folder.ts'
import type { Io } from './io.ts'
import { readPlainFile, writePlainFile } from './plain-file.ts'
import { stateFolder } from './state-folder.ts'

type Accepted = Pick<ConfigFile, 'path' | 'text'>

const maxRecordBytes = 16 * 1024

export function isTrusted(config: Accepted, io: Pick<Io, 'env'>): boolean {
  const found = readPlainFile(recordOf(config, io), maxRecordBytes)
  if (found === null || !('text' in found) || found.text !== recordText(config)) return false
  // Under a state folder that others share, anybody could have left it.
  return trustedOwners(io.env)?.has(found.owner) ?? true
}

/** Replaces what was accepted before. */
export function trust(config: Accepted, io: Pick<Io, 'env'>): void {
  const record = recordOf(config, io)
  try {
    const made = (folder: string) => giveFolderToCaller(folder, io.env)
    makeFolder(folderOf(io), { own: 0o700, parents: 0o700, made })
    writePlainFile(record, recordText(config))
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new HoldfastError('STORE_UNAVAILABLE', {
      what: `${record} cannot be written (${code ?? String(cause)}), so ${config.path} is still not trusted`,
      next: 'check the permissions of that folder, or set XDG_STATE_HOME to one that you can write to',
      facts: { path: record, code },
      cause,
    })
  }
}

export function distrust(config: Accepted, io: Pick<Io, 'env'>): void {
  rmSync(recordOf(config, io), { force: true })
}

function folderOf(io: Pick<Io, 'env'>): string {
  return join(stateFolder(io), 'trusted')
}

function recordOf(config: Accepted, io: Pick<Io, 'env'>): string {
  return join(folderOf(io), `${digest(realpathSync(config.path)).slice(0, 32)}.json`)
}

function recordText(config: Accepted): string {
  return `${JSON.stringify({ path: realpathSync(config.path), sha256: digest(config.text) })}\n`
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
