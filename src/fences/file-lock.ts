/**
 * Mutual exclusion of the processes of one machine, in a folder, that survives `kill -9` at every step.
 *
 * A lock is a symbolic link: made whole or not at all, refused when it is there, and its text says who made it.
 * `lock` is the first holder's. Breaking the lock of a dead holder by removing it would race: another process may
 * have broken and taken it already. Instead the dead one is inherited from: its heir makes `<id>.heir`, of which
 * there can be only one; an heir that dies in turn has an heir of its own. Who ends this chain holds the lock.
 * Release removes `lock`, one step, and only then the heirs. So whoever finds, after it has become an heir, that
 * `lock` is still the one its chain began with, knows that nobody has released that chain in between.
 *
 * Not guaranteed: progress while a holder is stopped or cannot be judged (another container), or when a thread
 * was terminated in the middle and its process lives on; then BUSY, which names it. Only proof of death breaks a
 * lock: a stopped holder would wake up in the middle of its write.
 */
import { randomUUID } from 'node:crypto'
import { readdir, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'
import { type Environment, pause } from '../environment.ts'
import { HoldfastError } from '../errors.ts'

interface Owner extends ProcessIdentity {
  /** Of this acquisition; never used again. */
  readonly id: string
}

type Attempt =
  | { readonly outcome: 'acquired'; readonly inherited: readonly string[] }
  | { readonly outcome: 'again' }
  | { readonly outcome: 'held'; readonly owner: Owner; readonly evidence: string }

interface LockOptions {
  readonly environment: Environment
  readonly waitMs: number
}

/** Each link is a holder that was killed within a few milliseconds; more of them is a fault to look at. */
const heirsMax = 100
const lookAgainMs = 5

export async function withFileLock<Result>(
  folder: string,
  options: LockOptions,
  act: () => Promise<Result>,
): Promise<Result> {
  const inherited = await acquire(folder, options)
  try {
    return await act()
  } finally {
    await rm(firstLink(folder))
    for (const link of inherited) await rm(link, { force: true })
  }
}

async function acquire(folder: string, { environment, waitMs }: LockOptions): Promise<readonly string[]> {
  const giveUpAt = environment.monotonic() + waitMs
  for (;;) {
    const attempt = await attemptToAcquire(folder, environment)
    if (attempt.outcome === 'acquired') return attempt.inherited
    if (environment.monotonic() >= giveUpAt) throw busyError(folder, attempt)
    await pause(environment, lookAgainMs * (0.5 + environment.random()))
  }
}

async function attemptToAcquire(folder: string, { host }: Environment): Promise<Attempt> {
  const self: Owner = { id: randomUUID(), ...host.identity }
  if (await makeLink(firstLink(folder), self)) {
    await removeLeftHeirs(folder)
    return { outcome: 'acquired', inherited: [] }
  }
  const chain = await readChain(folder)
  const [first, last] = [chain[0], chain.at(-1)]
  if (!first || !last) return { outcome: 'again' }
  // The folder is on a disk of this machine, so a process of another boot is dead.
  const { liveness, evidence } = host.judge(last, true)
  if (liveness !== 'dead' || chain.length > heirsMax) return { outcome: 'held', owner: last, evidence }

  const links = chain.map(({ id }) => heirLink(folder, id))
  const own = heirLink(folder, last.id)
  if (!(await makeLink(own, self))) return { outcome: 'again' }
  if ((await readOwner(firstLink(folder)))?.id === first.id) return { outcome: 'acquired', inherited: links }
  await rm(own, { force: true })
  return { outcome: 'again' }
}

/** The first holder and its heirs, in order; empty when the lock was released meanwhile. */
async function readChain(folder: string): Promise<Owner[]> {
  const chain: Owner[] = []
  let owner = await readOwner(firstLink(folder))
  while (owner && chain.length <= heirsMax) {
    chain.push(owner)
    owner = await readOwner(heirLink(folder, owner.id))
  }
  return chain
}

/** A process that died while it released may have left heirs of a chain that is no more. */
async function removeLeftHeirs(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.endsWith('.heir')) await rm(join(folder, name), { force: true })
  }
}

/** False when it is there already. */
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
  try {
    return JSON.parse(await readlink(path)) as Owner
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
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
      what: `${folder} changed hands at each look`,
      next: 'try again',
      facts: { folder },
    })
  }
  const { pid, hostName } = attempt.owner
  return new HoldfastError('BUSY', {
    what: `${folder} is locked by process ${pid} on ${hostName} (${attempt.evidence})`,
    next: `try again; if that process will never go on, end it, or remove ${folder} when you know it is gone`,
    facts: { folder, pid, hostName, evidence: attempt.evidence },
  })
}
