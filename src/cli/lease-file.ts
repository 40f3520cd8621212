/**
 * Tokens of leases that commands were granted, so that `done` needs no token where `next` was run: one file a lease,
 * readable by its user only, beside the store. Files of their own, because many commands run at once and none may
 * lose what another writes.
 */
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { serverScheme } from '../domain/store-url.ts'
import { realPath } from '../host/store-path.ts'
import type { Io } from './io.ts'
import { stateFolder } from './state-folder.ts'

/** What is leased. */
export interface Leased {
  readonly kind: 'item' | 'lock'
  /** Id of the item, name of the lock. */
  readonly name: string
}

/** No lease runs longer without a renewal, and a renewal makes its file new. */
const keptMs = 48 * 60 * 60 * 1000
const pruneAt = 50
/** A completion is repeated soon or never. */
const completedMax = 20

export class LeaseFiles {
  readonly #folder: string | null
  readonly #owner: string

  constructor(folder: string | null, owner: { readonly namespace: string; readonly agent: string }) {
    this.#folder = folder
    this.#owner = `${owner.namespace}\n${owner.agent}`
  }

  /** The latest token granted for this; tokens only grow. */
  find(leased: Leased): number | undefined {
    const tokens = this.#names().flatMap((file) => this.#tokenIn(file, leased) ?? [])
    return tokens.length === 0 ? undefined : Math.max(...tokens)
  }

  keep(leased: Leased, token: number, now: number): void {
    if (this.#folder === null) return
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const file = join(this.#folder, this.#fileOf(leased, token))
    const fresh = `${file}.${process.pid}`
    const { kind, name } = leased
    writeFileSync(fresh, `${JSON.stringify({ kind, name, token })}\n`, { mode: 0o600 })
    renameSync(fresh, file)
    if (kind === 'item') this.#remove(leased, (each) => each < token)
    this.#prune(now)
  }

  /** The lease goes on. */
  touch(leased: Leased, token: number, now: number): void {
    if (this.#folder === null) return
    try {
      utimesSync(join(this.#folder, this.#fileOf(leased, token)), now / 1000, now / 1000)
    } catch {
      // It was given by hand and never kept here.
    }
  }

  /** The lease has ended, and with it what was granted before; but an agent may hold several slots of one lock. */
  forget(leased: Leased, token: number): void {
    this.#remove(leased, (each) => (leased.kind === 'lock' ? each === token : each <= token))
  }

  /** The lease ended with its item completed; its token is kept for a while, should that be repeated. */
  complete(leased: Leased, token: number): void {
    this.forget(leased, token)
    if (this.#folder === null) return
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const { kind, name } = leased
    const text = `${JSON.stringify({ kind, name, token })}\n`
    writeFileSync(join(this.#folder, `${completedPrefix}${this.#fileOf(leased, token)}`), text, {
      mode: 0o600,
    })
    const files = this.#names().filter((file) => file.startsWith(completedPrefix))
    if (files.length <= completedMax) return
    // Tokens grow with the time at which they were granted.
    const newestFirst = files.sort((left, right) => tokenOf(right) - tokenOf(left))
    for (const file of newestFirst.slice(completedMax)) rmSync(join(this.#folder, file), { force: true })
  }

  /** The token under which an item was completed here. */
  findCompleted(leased: Leased): number | undefined {
    const mark = `${completedPrefix}${this.#markOf(leased)}`
    const files = this.#names().filter((file) => file.startsWith(mark))
    return files.length === 0 ? undefined : Math.max(...files.map(tokenOf))
  }

  #remove(leased: Leased, isMeant: (token: number) => boolean): void {
    for (const file of this.#names()) {
      const token = this.#tokenIn(file, leased)
      if (token !== null && isMeant(token)) rmSync(join(this.#folder as string, file), { force: true })
    }
  }

  #names(): string[] {
    if (this.#folder === null) return []
    try {
      return readdirSync(this.#folder)
    } catch {
      return []
    }
  }

  #fileOf(leased: Leased, token: number): string {
    return `${this.#markOf(leased)}-${token}.json`
  }

  #tokenIn(file: string, leased: Leased): number | null {
    const token = file.startsWith(this.#markOf(leased)) ? tokenOf(file) : Number.NaN
    return Number.isNaN(token) ? null : token
  }

  /** Names of locks may hold what a file name may not. */
  #markOf({ kind, name }: Leased): string {
    const digest = createHash('sha256').update(`${this.#owner}\n${kind}\n${name}`).digest('hex')
    return `${kind}-${digest.slice(0, 24)}`
  }

  /** Only where many have gathered: a look at each takes longer than everything else here. */
  #prune(now: number): void {
    const names = this.#names()
    if (names.length < pruneAt) return
    for (const file of names) {
      const path = join(this.#folder as string, file)
      const changedAt = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now
      if (changedAt < now - keptMs) rmSync(path, { force: true })
    }
  }
}

const completedPrefix = 'done-'

/** NaN where the file is not whole: its command died while it wrote it. */
function tokenOf(file: string): number {
  return Number(/-(\d+)\.json$/.exec(file)?.[1])
}

/**
 * The tokens go with a store that is copied: their files say what is leased, not where. What is there already is left
 * alone, so this can be repeated.
 */
export function copyLeaseFiles(from: string | null, to: string | null): void {
  if (from === null || to === null || !existsSync(from)) return
  mkdirSync(to, { recursive: true, mode: 0o700 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const file = entry.name
    // A link may lead anywhere; what was being written when its command died is of no use.
    if (!entry.isFile() || !file.endsWith('.json') || existsSync(join(to, file))) continue
    const fresh = join(to, `${file}.${process.pid}`)
    copyFileSync(join(from, file), fresh)
    renameSync(fresh, join(to, file))
  }
}

/** Beside the store; for a store that is no file, where the user's programs keep their state. */
export function leaseFolder(store: string, io: Io): string | null {
  if (store === 'sqlite::memory:' || store === ':memory:') return null
  if (serverScheme(store) === null) return `${realPath(store.replace(/^sqlite:/, ''))}-leases`
  // Without user and password: the next command may be given another one.
  const place = store.replace(/\/\/[^/@]*@/, '//')
  const digest = createHash('sha256').update(place).digest('hex').slice(0, 16)
  return join(stateFolder(io), `${digest}-leases`)
}
