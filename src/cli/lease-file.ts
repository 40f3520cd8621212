/**
 * Keeps the tokens of leases granted to commands, so that `complete` needs no token where `next` was run. One file per
 * lease, beside the store, readable only by its user. Separate files, because many commands run at once and none may
 * overwrite what another has written.
 */
import { createHash } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  lutimesSync,
  readdirSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { serverScheme } from '../domain/store-url.ts'
import { isOwn } from '../host/access.ts'
import { giveFolderToCaller, giveNewFolder } from '../host/hand-over.ts'
import { realPath } from '../host/store-path.ts'
import { unlessRefused } from '../host/unless-refused.ts'
import { makeFolder } from './folder.ts'
import type { Io } from './io.ts'
import { readPlainFile, writePlainFile } from './plain-file.ts'
import { stateFolder } from './state-folder.ts'

/** What is leased. */
export interface Leased {
  readonly kind: 'item' | 'lock'
  /** Id of the item, name of the lock. */
  readonly name: string
}

/** No lease runs longer than this without a renewal, and a renewal updates the file's modification time. */
const keptMs = 48 * 60 * 60 * 1000
const pruneAt = 50
/** A completion is retried soon or never. */
const maxCompleted = 20
/** Any other file in the folder is not ours to remove. */
const isLeaseFile = /^((?:done|lost)-)?(item|lock)-[0-9a-f]{24}-\d+\.json(\.\d+)?$/

/** How a lease ended, if later commands need to know: a completion may be retried, and what was lost stays lost. */
export type Ended = 'done' | 'lost'

/** How a lease was granted. */
export interface How {
  /** The token that the command had for the same thing before. */
  readonly instead?: number | undefined
  /** It went to the agent, whatever command it was that asked for it. */
  readonly transferred?: true
}

const folderEnd = '-leases'
const leaseFileBytes = 8192

export class LeaseFiles {
  readonly #folder: string | null
  readonly #owner: { readonly namespace: string; readonly agent: string }

  constructor(folder: string | null, owner: { readonly namespace: string; readonly agent: string }) {
    this.#folder = folder
    this.#owner = owner
  }

  /** Those of another agent in the same namespace. */
  of(agent: string): LeaseFiles {
    return new LeaseFiles(this.#folder, { ...this.#owner, agent })
  }

  /**
   * The latest token granted for this: the largest one, because tokens only grow. With `instead`, only among those
   * granted to commands that had this token for it before.
   */
  find(leased: Leased, instead?: number): number | undefined {
    const kept = this.#kept(leased)
    const tokens = instead === undefined ? kept : kept.filter((token) => this.#is(leased, token, { instead }))
    return tokens.length === 0 ? undefined : Math.max(...tokens)
  }

  /** The latest token under which this was transferred to the agent, if it is later than this one. */
  findTransferred(leased: Leased, after: number): number | undefined {
    const later = this.#kept(leased).filter((token) => token > after)
    const tokens = later.filter((token) => this.#is(leased, token, { transferred: true }))
    return tokens.length === 0 ? undefined : Math.max(...tokens)
  }

  /**
   * Whether the lease was granted like this. `ended`: it is over, and that was noted. What root has kept here cannot be
   * read: it was granted by another user.
   */
  #is(leased: Leased, token: number, how: How, ended?: Ended): boolean {
    const file = `${ended === undefined ? '' : `${ended}-`}${this.#fileOf(leased, token)}`
    const found = unlessRefused(() => readPlainFile(join(this.#folder as string, file), leaseFileBytes))
    return found !== null && 'text' in found && found.text === textOf(leased, token, how)
  }

  #kept(leased: Leased): number[] {
    return this.#names().flatMap((file) => this.#tokenIn(file, leased) ?? [])
  }

  keep(leased: Leased, token: number, now: number, how: How): void {
    this.#write(this.#fileOf(leased, token), textOf(leased, token, how))
    if (leased.kind === 'item') this.#remove(leased, (each) => each < token)
    for (const file of this.#ended(leased, 'lost')) this.#unlink(file)
    this.#prune(now, token)
  }

  /**
   * A transfer went to this agent. The token it had for the same slot is void: `former`; if no slot was named there was
   * only one, so any earlier token.
   */
  keepTransferred(leased: Leased, token: number, now: number, former: number | undefined): void {
    this.keep(leased, token, now, { transferred: true })
    this.#remove(leased, (each) => (former === undefined ? each < token : each === former))
  }

  /** Marks a renewed lease's file as current, so that it is not pruned. */
  touch(leased: Leased, token: number, now: number): void {
    if (this.#folder === null) return
    try {
      lutimesSync(join(this.#folder, this.#fileOf(leased, token)), now / 1000, now / 1000)
    } catch {
      // The token was given by hand and never stored here.
    }
  }

  /** The lease has ended, and so have earlier ones; for a lock only this one, as an agent may hold several slots. */
  forget(leased: Leased, token: number): void {
    this.#remove(leased, (each) => (leased.kind === 'lock' ? each === token : each <= token))
  }

  /**
   * The lease ended in a way that later commands need to know. Only a lease that was kept here can be lost: a token
   * given by hand may be mistyped.
   */
  end(leased: Leased, token: number, ended: Ended, how: How): void {
    if (ended === 'lost' && !this.#kept(leased).includes(token)) return
    this.forget(leased, token)
    try {
      this.#write(`${ended}-${this.#fileOf(leased, token)}`, textOf(leased, token, how))
    } catch {
      // The folder belongs to another user or is not writable. The lease has ended anyway.
      return
    }
    const completed = this.#names().filter((file) => file.startsWith('done-'))
    if (completed.length <= maxCompleted) return
    // A token granted later is larger.
    const newestFirst = completed.sort((left, right) => tokenOf(right) - tokenOf(left))
    for (const file of newestFirst.slice(maxCompleted)) this.#unlink(file)
  }

  /** The latest token of a lease on this that ended here in one of these ways. `instead`: as in `find`. */
  findEnded(leased: Leased, ways: readonly Ended[], instead?: number): number | undefined {
    const isMeant = (token: number, ended: Ended) =>
      !Number.isNaN(token) && (instead === undefined || this.#is(leased, token, { instead }, ended))
    const tokens = ways.flatMap((ended) =>
      this.#ended(leased, ended)
        .map(tokenOf)
        .filter((token) => isMeant(token, ended)),
    )
    return tokens.length === 0 ? undefined : Math.max(...tokens)
  }

  #ended(leased: Leased, how: Ended): string[] {
    return this.#names().filter((file) => file.startsWith(`${how}-${this.#markOf(leased)}`))
  }

  #write(file: string, text: string): void {
    if (this.#folder === null) return
    makeLeaseFolder(this.#folder)
    writePlainFile(join(this.#folder, file), text)
  }

  #remove(leased: Leased, isMeant: (token: number) => boolean): void {
    for (const file of this.#names()) {
      const token = this.#tokenIn(file, leased)
      if (token !== null && isMeant(token)) this.#unlink(file)
    }
  }

  #unlink(file: string): void {
    rmSync(join(this.#folder as string, file), { force: true })
  }

  #names(): string[] {
    const folder = this.#folder
    const names = folder === null ? null : unlessRefused(() => readdirSync(folder))
    return names?.filter((name) => isLeaseFile.test(name)) ?? []
  }

  #fileOf(leased: Leased, token: number): string {
    return `${this.#markOf(leased)}-${token}.json`
  }

  #tokenIn(file: string, leased: Leased): number | null {
    const token = file.startsWith(this.#markOf(leased)) ? tokenOf(file) : Number.NaN
    return Number.isNaN(token) ? null : token
  }

  /** A digest, because lock names may contain characters that file names may not. */
  #markOf({ kind, name }: Leased): string {
    const { namespace, agent } = this.#owner
    const digest = createHash('sha256').update(`${namespace}\n${agent}\n${kind}\n${name}`).digest('hex')
    return `${kind}-${digest.slice(0, 24)}`
  }

  /**
   * Only when many files have piled up: checking each one takes longer than everything else here. Tokens follow the
   * lease clock, so a system date that jumps ahead makes no lease that was just granted look old.
   */
  #prune(now: number, newest: number): void {
    const names = this.#names()
    if (names.length < pruneAt) return
    for (const file of names) {
      if (tokenOf(file) > newest - keptMs * 1000) continue
      const path = join(this.#folder as string, file)
      const found = lstatSync(path, { throwIfNoEntry: false })
      if (found?.isFile() && found.mtimeMs < now - keptMs) rmSync(path, { force: true })
    }
  }
}

function textOf({ kind, name }: Leased, token: number, how: How): string {
  return `${JSON.stringify({ kind, name, token, ...how })}\n`
}

/** NaN for an incomplete file, whose command died while writing it. */
function tokenOf(file: string): number {
  return Number(/-(\d+)\.json$/.exec(file)?.[1])
}

/** When root creates the folder, it goes to the owner of the store, as SQLite does with its log. */
function makeLeaseFolder(folder: string): void {
  const path = folder.slice(0, -folderEnd.length)
  const store = process.getuid?.() === 0 ? statSync(path, { throwIfNoEntry: false }) : undefined
  const made = (each: string) => {
    if (each === folder && store?.isFile()) giveNewFolder(each, () => store)
    else giveFolderToCaller(each)
  }
  makeFolder(folder, { own: 0o700, parents: 0o700, made })
}

/**
 * Copies the tokens along with a store. The files say what is leased, not in which store. Existing files are left
 * alone, so this can be repeated.
 */
export function copyLeaseFiles(from: string | null, to: string | null): void {
  if (from === null || to === null || !existsSync(from)) return
  makeLeaseFolder(to)
  for (const file of readdirSync(from)) {
    // A file left half-written by a command that died is useless.
    if (!isLeaseFile.test(file) || !file.endsWith('.json') || existsSync(join(to, file))) continue
    // What another user has kept here is of no use to this one.
    const found = unlessRefused(() => readPlainFile(join(from, file), leaseFileBytes))
    if (found !== null && 'text' in found) writePlainFile(join(to, file), found.text)
  }
}

/**
 * Beside the store. If the store is not a file, or the folder beside it is not ours to use, in the user's state folder
 * instead. `warn` is called when something that is not a folder is in the way.
 */
export function leaseFolder(store: string, io: Io, warn: (what: string) => void = () => {}): string | null {
  if (store === 'sqlite::memory:' || store === ':memory:') return null
  if (serverScheme(store) === null) {
    const file = realPath(store.replace(/^sqlite:/, ''))
    const folder = `${file}${folderEnd}`
    const found = unlessRefused(() => lstatSync(folder))
    if (found ? isUsable(found, file) : canMakeIn(dirname(folder))) return folder
    if (found && !found.isDirectory())
      warn(`${folder} is not used: it is not a folder; find out what it is, then remove it`)
    return stateFolderFor(file, io)
  }
  // Without user and password: the next command may use different ones.
  return stateFolderFor(store.replace(/\/\/[^/@]*@/, '//'), io)
}

/** The user's own folder; for root also that of the store's owner, which only root could have opened to others. */
function isUsable(folder: Stats, store: string): boolean {
  if (!folder.isDirectory()) return false
  if (isOwn(folder)) return true
  return process.getuid?.() === 0 && folder.uid === unlessRefused(() => lstatSync(store))?.uid
}

function canMakeIn(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch (error) {
    // A store that does not exist yet may have no folder yet.
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

function stateFolderFor(store: string, io: Io): string {
  const digest = createHash('sha256').update(store).digest('hex').slice(0, 16)
  return join(stateFolder(io), `${digest}${folderEnd}`)
}
