/**
 * A git ref that late holders cannot move. A fence ref, `refs/holdfast/<hash of the resource>`, points to a small
 * blob with the highest token that has passed. It is replaced together with the user's ref, each by compare and
 * swap: git itself refuses a holder that has read an older fence or an older ref. Every pass writes a new blob, even
 * under the same token, so that a push always has a fence to compare.
 *
 * Not guaranteed: anything against writers that do not use these functions (a remote can enforce it in a hook); that
 * both refs change if git is killed between them. Locally the fence is written first, so late holders are already
 * refused and the ref is unchanged; on a remote it depends on the server. A killed git can leave `<ref>.lock` behind,
 * which has to be removed by hand: BUSY.
 */
import { createHash } from 'node:crypto'
import { fieldsIn } from '../domain/json-text.ts'
import { HoldfastError } from '../errors.ts'
import { type GitAnswer, type GitOptions, runGit, tryGit } from './git-command.ts'
import { assertNotLate, type FencedResource, type Grant, isToken, readGrant } from './grant.ts'
import { assertDuration, assertOptions, assertText, invalid } from './input.ts'

export interface GitUpdate {
  /** A folder inside the repository. */
  readonly directory: string
  /** The full name, as in `refs/heads/main`. */
  readonly ref: string
  /** The object name you believe the ref has now; null if it must not exist yet. */
  readonly from: string | null
  readonly to: string
  /** How long each git command may take, ms; 60,000 by default, 0 for no limit. */
  readonly timeoutMs?: number | undefined
}

export interface GitPush extends GitUpdate {
  /** Name or URL of the remote. */
  readonly remote: string
}

/** Moves a ref of this repository. LEASE_LOST for a late holder, VERSION_MISMATCH if the ref is elsewhere. */
export async function updateGitRef(update: GitUpdate, grant: Grant): Promise<void> {
  const fenced = readGrant(grant)
  assertUpdate(update, updateOptions)
  await move(localRefs(update, fenceRefOf(fenced)), update, fenced)
}

/** Like `updateGitRef`, for a ref of a remote: one atomic push with a lease on both refs. */
export async function pushGitRef(push: GitPush, grant: Grant): Promise<void> {
  const fenced = readGrant(grant)
  assertUpdate(push, [...updateOptions, 'remote'])
  assertRemote(push.remote)
  await move(remoteRefs(push, fenceRefOf(fenced)), push, fenced)
}

/** Object names of the fence and of the user's ref; null: it does not exist. */
interface Refs {
  readonly fence: string | null
  readonly target: string | null
}

/** Where the refs are: here, or on a remote. */
interface RefStore {
  read(): Promise<Refs>
  /** The text of a fence; null if it is no longer available because it has been replaced. */
  readFence(name: string): Promise<string | null>
  /** Changes both refs if both are as expected, otherwise neither. */
  swap(expected: Refs, next: { readonly fence: string; readonly target: string }): Promise<GitAnswer>
}

const maxAttempts = 5

async function move(store: RefStore, update: GitUpdate, fenced: FencedResource): Promise<void> {
  let complaint = 'its fence changed on every attempt to read it'
  let before: Refs | null = null
  let tried: Refs | null = null
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const refs = await store.read()
    // Both are as we wanted them: the swap succeeded and only its answer was lost. Nobody else creates the same fence.
    if (tried && tried.fence === refs.fence && tried.target === refs.target) return
    // Refused although nothing has changed: this is no race, so retrying would not help.
    if (before?.fence === refs.fence && before.target === refs.target) break
    const text = refs.fence === null ? null : await store.readFence(refs.fence)
    if (refs.fence !== null && text === null) continue
    if (text !== null) assertNotLate(fenced, tokenIn(text, fenced.resource))
    if (refs.target !== update.from) throw movedError(update, refs.target)

    const next = {
      fence: await writeFence(optionsOf(update), fenced, refs.fence),
      target: update.to,
    }
    const answer = await store.swap(refs, next)
    if (answer.isDone) return
    before = refs
    tried = next
    complaint = answer.complaint
  }
  throw new HoldfastError('BUSY', {
    what: `git did not move ${update.ref}: ${complaint.slice(0, 500)}`,
    next: 'try again; if it persists, look for a hook, a missing permission or a .lock file left by a killed git',
    facts: { ref: update.ref },
  })
}

function localRefs(update: GitUpdate, fenceRef: string): RefStore {
  const options = optionsOf(update)
  return {
    async read() {
      const format = '--format=%(objectname)%09%(refname)'
      return readRefs(
        await runGit(options, ['for-each-ref', format, update.ref, fenceRef]),
        update.ref,
        fenceRef,
      )
    },
    readFence: (name) => readBlob(options, name),
    swap(expected, next) {
      const missing = '0'.repeat(update.to.length)
      // The fence first: git writes in this order.
      const lines = [
        `update ${fenceRef} ${next.fence} ${expected.fence ?? missing}`,
        `update ${update.ref} ${next.target} ${expected.target ?? missing}`,
      ]
      return tryGit(options, ['update-ref', '--stdin'], `${lines.join('\n')}\n`)
    },
  }
}

function remoteRefs(push: GitPush, fenceRef: string): RefStore {
  const options = optionsOf(push)
  return {
    async read() {
      return readRefs(
        await runGit(options, ['ls-remote', push.remote, push.ref, fenceRef]),
        push.ref,
        fenceRef,
      )
    },
    async readFence(name) {
      const known = await readBlob(options, name)
      if (known !== null) return known
      await tryGit(options, ['fetch', '--quiet', '--no-tags', '--no-write-fetch-head', push.remote, fenceRef])
      return readBlob(options, name)
    },
    swap(expected, next) {
      return tryGit(options, [
        'push',
        '--quiet',
        '--atomic',
        // The user's git settings could push more refs, which nobody has compared.
        '--no-follow-tags',
        '--recurse-submodules=no',
        `--force-with-lease=${fenceRef}:${expected.fence ?? ''}`,
        `--force-with-lease=${push.ref}:${expected.target ?? ''}`,
        push.remote,
        `${next.fence}:${fenceRef}`,
        `${next.target}:${push.ref}`,
      ])
    },
  }
}

/** Parses lines of object name, tab, ref; the commands may list more refs than were asked for. */
function readRefs(lines: string, target: string, fence: string): Refs {
  const names = new Map(lines.split('\n').map((line) => line.split('\t').reverse() as [string, string]))
  return { fence: names.get(fence) ?? null, target: names.get(target) ?? null }
}

async function readBlob(options: GitOptions, name: string): Promise<string | null> {
  const { isDone, output } = await tryGit(options, ['cat-file', 'blob', name])
  return isDone ? output : null
}

/** `after` makes each pass a new object, so that using the same token twice is still a change to compare. */
function writeFence(options: GitOptions, fenced: FencedResource, after: string | null): Promise<string> {
  return runGit(options, ['hash-object', '-w', '--stdin'], `${JSON.stringify({ ...fenced, after })}\n`)
}

function tokenIn(text: string, resource: string): number {
  const { token } = fieldsIn(text)
  if (isToken(token)) return token
  throw new HoldfastError('STORE_UNFIT', {
    what: `the fence ref of ${resource} holds no token`,
    next: 'restore it, or delete it once no former holder can still write',
    facts: { resource },
  })
}

/** Hashed: a resource may be longer than a file name, or differ from another only in case. */
function fenceRefOf({ resource }: FencedResource): string {
  return `refs/holdfast/${createHash('sha256').update(resource).digest('hex').slice(0, 40)}`
}

function optionsOf({ directory, timeoutMs = 60_000 }: GitUpdate): GitOptions {
  return { directory, timeoutMs }
}

function movedError({ ref, from }: GitUpdate, current: string | null): HoldfastError {
  return new HoldfastError('VERSION_MISMATCH', {
    what: `${ref} is ${current ? `at ${current}` : 'not there'}, expected ${from ?? 'nothing'}`,
    next: 'read it again and redo the change on what it is now',
    facts: { ref, expected: from, current },
  })
}

const updateOptions = ['directory', 'ref', 'from', 'to', 'timeoutMs']

function assertUpdate(update: GitUpdate, known: readonly string[]): void {
  assertOptions(update, known)
  const { directory, ref, from, to, timeoutMs } = { timeoutMs: 0, ...update }
  assertText('directory', directory)
  assertDuration('timeoutMs', timeoutMs)
  if (!isRef(ref)) {
    throw invalid(`${JSON.stringify(ref)} is not the full name of a ref`, 'write it as in refs/heads/main', {
      ref,
    })
  }
  for (const name of from === null ? [to] : [from, to]) {
    if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(name)) continue
    throw invalid(`${JSON.stringify(name)} is not the full name of an object`, 'get it from git rev-parse', {
      ref,
      name,
    })
  }
}

/**
 * The rules of git check-ref-format, so that a wrong name is not taken for a busy repository. The fences themselves are
 * off limits in any spelling, because some file systems ignore case.
 */
function isRef(ref: unknown): boolean {
  if (typeof ref !== 'string' || !/^refs\/(?!holdfast(?:\/|$))[^\s\p{Cc}~^:?*[\\]+$/iu.test(ref)) return false
  return !/\.\.|@\{|\/[./]|\.lock(?:\/|$)|[./]$/.test(ref)
}

/** A leading hyphen would be read as an option. */
function assertRemote(remote: string): void {
  assertText('remote', remote)
  if (/^[^-\s\p{Cc}][^\p{Cc}]*$/u.test(remote)) return
  throw invalid(`${JSON.stringify(remote)} is not a usable remote`, 'give the name or the URL of one', {
    remote,
  })
}
