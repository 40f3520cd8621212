/**
 * A file that late holders cannot write. Next to it is a folder `<file>.fence` with the highest token that has
 * passed and the lock under which tokens are compared.
 *
 * Under the lock: 1. the token is compared; 2. a higher one is put on disk; 3. the content is written to a
 * temporary file and put on disk; 4. that file replaces the target. If the writer is killed after 2, the file has its
 * old content under the new token: late holders are already refused, and the next holder does the work again.
 * A reader sees the old content or the new, never a mix.
 *
 * Not guaranteed: anything against writers that do not use this function; network file systems (refused if
 * recognised); processes in different containers that share the folder (BUSY rather than a guess);
 * Windows without the right to create symbolic links. The file is a new one: it keeps the permissions of the old one,
 * but not its owner or a setuid or setgid bit, and other hard links keep the old content.
 */
import { open, readlink, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { fieldsIn } from '../domain/json-text.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError, isHoldfastError } from '../errors.ts'
import { fileModeIn } from '../host/access.ts'
import { systemEnvironment } from '../host/system.ts'
import { assertOwnFence, makeFenceFolder, readFenceFile, unlessMissing } from './fence-folder.ts'
import { withFileLock } from './file-lock.ts'
import { assertNotLate, type FencedResource, type Grant, isResource, isToken, readGrant } from './grant.ts'
import { assertDuration, assertOptions, assertText, invalid } from './input.ts'

export interface FileFenceOptions {
  /** How long to wait for another writer, ms; 5,000 by default. After that: BUSY. */
  readonly waitMs?: number | undefined
  /** Clock, timers and host; the real ones by default. */
  readonly environment?: Environment | undefined
}

/**
 * Durably replaces the content of a file, or creates it. LEASE_LOST if a later holder has written: the file
 * stays as that holder left it. The same token may write again. A file belongs to the resource of its first
 * write, because tokens of different resources cannot be compared.
 */
export async function writeFileFenced(
  path: string,
  content: string | Uint8Array,
  grant: Grant,
  options: FileFenceOptions = {},
): Promise<void> {
  assertOptions(options, ['waitMs', 'environment'])
  const { waitMs = 5000, environment = systemEnvironment } = options
  const fenced = readGrant(grant)
  assertText('path', path)
  assertContent(content)
  assertDuration('waitMs', waitMs)
  try {
    const file = await resolveFile(path)
    const folder = `${file}.fence`
    await refuseOther(file)
    refuseNetwork(environment, file)
    if (await makeFenceFolder(folder)) await syncFolder(dirname(folder))
    await assertOwnFence(folder)
    await withFileLock(folder, { environment, waitMs }, async () => {
      await passFence(folder, fenced)
      await replaceFile(file, content, { temporary: join(folder, 'content.tmp') })
    })
  } catch (error) {
    if (isHoldfastError(error)) throw error
    throw new HoldfastError('STORE_UNAVAILABLE', {
      what: `${path} could not be written`,
      next: 'fix the cause and write again; the file has its old or its new content, whole',
      facts: { path },
      cause: error,
    })
  }
}

function assertContent(content: unknown): void {
  if (typeof content === 'string' || content instanceof Uint8Array) return
  throw invalid(`the content is of type ${typeof content}`, 'give a string or bytes')
}

async function passFence(folder: string, fenced: FencedResource): Promise<void> {
  const path = join(folder, 'token.json')
  const kept = await readKept(path)
  if (kept && kept.resource !== fenced.resource) {
    throw invalid(
      `${path} belongs to ${kept.resource}, not to ${fenced.resource}`,
      `write under a lease on ${kept.resource}, or remove ${folder} when no holder of it is left`,
      { resource: fenced.resource, belongsTo: kept.resource },
    )
  }
  if (kept) assertNotLate(fenced, kept.token)
  if (kept?.token !== fenced.token) {
    const mode = fileModeIn(folder)
    await replaceFile(path, `${JSON.stringify(fenced)}\n`, { temporary: join(folder, 'token.tmp'), mode })
  }
}

async function readKept(path: string): Promise<FencedResource | null> {
  const text = await unlessMissing(readFenceFile(path))
  if (text === null) return null
  const { resource, token } = fieldsIn(text)
  if (isResource(resource) && isToken(token)) return { resource, token }
  throw new HoldfastError('STORE_UNFIT', {
    what: `${path} contains no token`,
    next: 'restore it, or remove it once no former holder can still write',
    facts: { path },
  })
}

/** All or nothing, and on disk when it returns. Call only under the lock: the temporary file has a fixed name. */
async function replaceFile(
  path: string,
  content: string | Uint8Array,
  { temporary, ...given }: { temporary: string; mode?: number },
): Promise<void> {
  // The new content does not inherit the trust placed in the old: no setuid, no setgid.
  const previous = await unlessMissing(stat(path))
  const mode = given.mode ?? (previous && previous.mode & 0o777)
  // A temporary file left by a killed writer may be read-only, like the file itself.
  await rm(temporary, { force: true })
  // Closed to others until it has the mode of the old file, which may be closed to them too.
  const file = await open(temporary, 'wx', mode === null ? 0o666 : 0o600)
  try {
    await file.writeFile(content)
    if (mode !== null) await file.chmod(mode)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
  await syncFolder(dirname(path))
}

/** A new name is on disk only once its folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/**
 * One spelling per file, also through a link to a file that does not exist yet: otherwise two writers would use two
 * different fences.
 */
async function resolveFile(path: string): Promise<string> {
  const real = await unlessMissing(realpath(path))
  if (real !== null) return real
  const folder = await realpath(dirname(path))
  const target = await readlink(path).catch(() => null)
  if (target === null) return join(folder, basename(path))
  // Not normalised: only the file system knows what `..` means after a link.
  return resolveFile(isAbsolute(target) ? target : `${folder}/${target}`)
}

/** A folder cannot be replaced by a file; a device or a pipe must not be. */
async function refuseOther(file: string): Promise<void> {
  const found = await unlessMissing(stat(file))
  if (!found || found.isFile()) return
  throw invalid(`${file} exists but is not a file`, 'name a file', { file })
}

function refuseNetwork({ host }: Environment, file: string): void {
  const network = host.networkFileSystem(dirname(file))
  if (network === null) return
  throw new HoldfastError('STORE_UNFIT', {
    what: `${file} is on ${network}, where other machines could write unseen`,
    next: 'write it to a local disk, or use another kind of fence',
    facts: { file, network },
  })
}
