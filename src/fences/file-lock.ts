/**
 * Mutual exclusion between the processes of one machine, in a folder, that survives `kill -9` at every step.
 *
 * A lock is a symbolic link: it is created whole or not at all, creating it fails if it exists, and its text says who
 * made it. `lock` belongs to the first holder. Breaking a dead holder's lock by removing it would race: another process
 * may already have broken and taken it. Instead, another process inherits from the dead holder: it creates
 * `<id>.heir`, of which there can be only one. If that heir dies, it gets an heir in turn. The last in this chain holds
 * the lock. Release first removes `lock`, in one step, and only then the heirs. So if a process that has become an heir
 * finds that `lock` is still the one its chain began with, nobody has released that chain in between.
 *
 * Not guaranteed: progress while a holder is stopped or cannot be judged (another container), or after a thread
 * was terminated in the middle while its process lives on; the result is BUSY, naming the holder. Only proof of death
 * breaks a lock: a stopped holder would wake up in the middle of its write.
 */
import { randomUUID } from 'node:crypto'
import { lstat, readdir, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'
import { fieldsIn } from '../domain/json-text.ts'
import { type Environment, pause, type Verdict } from '../environment.ts'
import { HoldfastError } from '../errors.ts'
import { unlessMissing } from './fence-folder.ts'

interface Owner extends ProcessIdentity {
  /** Identifies this acquisition; never reused. */
  readonly id: string
  /** Awake time of its machine at this acquisition. */
  readonly awakeAt?: number
}

/** What has to be removed to release the lock. */
interface Held {
  /** The id in the first link, where the chain begins. */
  readonly id: string
  readonly inherited: readonly string[]
}

type Attempt =
  | { readonly outcome: 'acquired'; readonly held: Held }
  | { readonly outcome: 'again' }
  | { readonly outcome: 'held'; readonly owner: Owner; readonly evidence: string }

interface LockOptions {
  readonly environment: Environment
  readonly waitMs: number
}

/** Each link is a holder that was killed within a few milliseconds; more than this is a fault to investigate. */
const maxHeirs = 100
const lookAgainMs = 5

export async function withFileLock<Result>(
  folder: string,
  options: LockOptions,
  act: () => Promise<Result>,
): Promise<Result> {
  const held = await acquire(folder, options)
  try {
    return await act()
  } finally {
    await release(folder, held)
  }
}

/** Somebody may have removed our lock by hand, and another process taken it: then it is not ours to remove. */
async function release(folder: string, { id, inherited }: Held): Promise<void> {
  if ((await readOwner(firstLink(folder)))?.id === id) await rm(firstLink(folder), { force: true })
  for (const link of inherited) await rm(link, { force: true })
}

async function acquire(folder: string, { environment, waitMs }: LockOptions): Promise<Held> {
  const giveUpAt = environment.monotonic() + waitMs
  for (;;) {
    const attempt = await attemptToAcquire(folder, environment)
    if (attempt.outcome === 'acquired') return attempt.held
    if (environment.monotonic() >= giveUpAt) throw busyError(folder, attempt)
    await pause(environment, lookAgainMs * (0.5 + environment.random()))
  }
}

async function attemptToAcquire(folder: string, environment: Environment): Promise<Attempt> {
  const awakeAt = Math.floor(environment.monotonic())
  const self: Owner = { id: randomUUID(), ...environment.host.identity, awakeAt }
  if (await makeLink(firstLink(folder), self)) {
    await removeLeftHeirs(folder)
    return { outcome: 'acquired', held: { id: self.id, inherited: [] } }
  }
  const chain = await readChain(folder)
  const [first, last] = [chain[0], chain.at(-1)]
  if (!first || !last) return { outcome: 'again' }
  const link = chain.length === 1 ? firstLink(folder) : heirLink(folder, (chain.at(-2) as Owner).id)
  const { liveness, evidence } = await judge(last, link, environment)
  if (liveness !== 'dead' || chain.length > maxHeirs) return { outcome: 'held', owner: last, evidence }

  const links = chain.map(({ id }) => heirLink(folder, id))
  const own = heirLink(folder, last.id)
  if (!(await makeLink(own, self))) return { outcome: 'again' }
  if ((await readOwner(firstLink(folder)))?.id === first.id)
    return { outcome: 'acquired', held: { id: first.id, inherited: links } }
  await rm(own, { force: true })
  return { outcome: 'again' }
}

/** The folder is on a disk of this machine, so every process that created a link in it ran on this machine. */
async function judge(owner: Owner, link: string, { host }: Environment): Promise<Verdict> {
  const isOfThisBoot = owner.bootId === host.identity.bootId
  const madeAt = isOfThisBoot ? 0 : await madeAtOf(link)
  return host.judge({ ...owner, startedAt: madeAt, beatAt: madeAt }, true)
}

/** Wall time. Infinity if the link is gone, so that nobody is taken for dead because of it. */
async function madeAtOf(link: string): Promise<number> {
  return (await unlessMissing(lstat(link)))?.mtimeMs ?? Number.POSITIVE_INFINITY
}

/** The first holder and its heirs, in order; empty if the lock was released meanwhile. */
async function readChain(folder: string): Promise<Owner[]> {
  const chain: Owner[] = []
  let owner = await readOwner(firstLink(folder))
  while (owner && chain.length <= maxHeirs) {
    chain.push(owner)
    owner = await readOwner(heirLink(folder, owner.id))
  }
  return chain
}

/** A process that died during release may have left heirs of a chain that no longer exists. */
async function removeLeftHeirs(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (/^[\w-]{1,64}\.heir$/.test(name)) await rm(join(folder, name), { force: true })
  }
}

/** False if it already exists. */
async function makeLink(path: string, owner: Owner): Promise<boolean> {
  try {
    await symlink(JSON.stringify(owner), path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function readOwner(path: string): Promise<Owner | null> {
  const text = await unlessMissing(readlink(path))
  if (text === null) return null
  const owner = parseOwner(text)
  if (owner) return owner
  throw new HoldfastError('STORE_UNFIT', {
    what: `the lock ${path} does not say who holds it`,
    next: 'remove it once you are sure that nobody is writing',
    facts: { path },
  })
}

function parseOwner(text: string): Owner | null {
  const owner = fieldsIn(text)
  // The id becomes part of a path.
  if (typeof owner.id !== 'string' || !/^[\w-]{1,64}$/.test(owner.id)) return null
  const { bootId, pidNamespace, hostName, pid, awakeAt } = owner
  if (awakeAt !== undefined && typeof awakeAt !== 'number') return null
  const isNamed = [bootId, pidNamespace, hostName].every((each) => typeof each === 'string')
  return isNamed && Number.isSafeInteger(pid) ? (owner as unknown as Owner) : null
}

function firstLink(folder: string): string {
  return join(folder, 'lock')
}

function heirLink(folder: string, id: string): string {
  return join(folder, `${id}.heir`)
}

function busyError(folder: string, attempt: Exclude<Attempt, { outcome: 'acquired' }>): HoldfastError {
  if (attempt.outcome === 'again') {
    return new HoldfastError('BUSY', {
      what: `${folder} changed hands every time we looked`,
      next: 'try again',
      facts: { folder },
    })
  }
  const { pid, hostName } = attempt.owner
  return new HoldfastError('BUSY', {
    what: `${folder} is locked by process ${pid} on ${hostName} (${attempt.evidence})`,
    next: `try again; if that process is stuck for good, end it, or remove ${folder} once you are sure it is gone`,
    facts: { folder, pid, hostName, evidence: attempt.evidence },
  })
}
