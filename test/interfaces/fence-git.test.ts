/** The git fence, in real repositories. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type GitPush, type GitUpdate, type Grant, pushGitRef, updateGitRef } from 'holdfast/fences'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'
import { createSuccession } from '../support/succession.ts'

const ref = 'refs/heads/main'
const committer = ['-c', 'user.name=test', '-c', 'user.email=test@example.com']
/** Made once and copied: each git command is a process. */
const template = createTemplate()
afterAll(() => rmSync(template.folder, { recursive: true }))

/** The same promises for a ref of the repository itself and for one of its remote. */
const places = [
  { place: 'a local ref', move: updateGitRef, remote: '.' },
  { place: 'a ref of a remote', move: moveOnRemote, remote: 'origin' },
]

describe.each(places)('a git fence on $place', ({ move, remote }) => {
  forEachEngine((engine) => {
    test('refuses a late holder, even one that has read the ref again [Z7]', async () => {
      const { resource, late, current } = await createSuccession(engine)
      const { directory, commits, now } = createRepository(remote)
      await move({ directory, ref, from: null, to: commits[0] }, current)

      const refusals = [
        await refusal(() => move({ directory, ref, from: null, to: commits[1] }, late)),
        await refusal(() => move({ directory, ref, from: commits[0], to: commits[1] }, late)),
      ]

      for (const { code, facts } of refusals) {
        expect(code).toBe('LEASE_LOST')
        expect(facts).toMatchObject({ subject: resource, token: late.token, currentToken: current.token })
      }
      expect(now()).toBe(commits[0])
    })
  })

  test('lets the same holder move it again, and then its successor', async () => {
    const { directory, commits, now } = createRepository(remote)

    await move({ directory, ref, from: null, to: commits[0] }, { resource: 'r', token: 5 })
    await move({ directory, ref, from: commits[0], to: commits[1] }, { resource: 'r', token: 5 })
    await move({ directory, ref, from: commits[1], to: commits[2] }, { resource: 'r', token: 6 })

    expect(now()).toBe(commits[2])
    expect(await refusalCode(() => move({ directory, ref, from: commits[2], to: commits[0] }, r(5)))).toBe(
      'LEASE_LOST',
    )
  })

  test('says where the ref is if the holder expected it elsewhere', async () => {
    const { directory, commits, now } = createRepository(remote)
    await move({ directory, ref, from: null, to: commits[0] }, r(5))

    const refused = await refusal(() => move({ directory, ref, from: commits[1], to: commits[2] }, r(6)))

    expect(refused).toMatchObject({
      code: 'VERSION_MISMATCH',
      facts: { ref, expected: commits[1], current: commits[0] },
    })
    expect(now()).toBe(commits[0])
  })

  test('keeps resources apart, even those that differ by case or are long', async () => {
    const { directory, commits, now } = createRepository(remote)
    const long = 'x'.repeat(500)

    await move({ directory, ref, from: null, to: commits[0] }, { resource: 'R', token: 9 })
    await move({ directory, ref, from: commits[0], to: commits[1] }, { resource: 'r', token: 8 })
    await move({ directory, ref, from: commits[1], to: commits[2] }, { resource: long, token: 7 })

    expect(now()).toBe(commits[2])
  })

  test('of many at once, exactly one moves the ref, and none with a lower token after it', async () => {
    const { directory, commits, now } = createRepository(remote)
    await move({ directory, ref, from: null, to: commits[0] }, r(1))

    const attempts = [2, 3, 4, 5].map(async (token) => {
      const to = commits[token % 2 === 0 ? 1 : 2]
      await move({ directory, ref, from: commits[0], to }, r(token))
      return { token, to }
    })
    const settled = await Promise.allSettled(attempts)

    const winners = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const codes = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []))
    expect(winners).toHaveLength(1)
    expect(now()).toBe(winners[0]?.to)
    expect(['LEASE_LOST', 'VERSION_MISMATCH', 'BUSY']).toEqual(expect.arrayContaining(codes))
    const late = await refusalCode(() =>
      move({ directory, ref, from: now(), to: commits[0] }, r((winners[0]?.token as number) - 1)),
    )
    expect(late).toBe('LEASE_LOST')
  })

  test('is BUSY, with git’s message, if git refuses although nothing has changed', async () => {
    const { directory, commits, repository, now } = createRepository(remote)
    await move({ directory, ref, from: null, to: commits[0] }, r(5))
    writeFileSync(join(repository, 'refs/heads/main.lock'), '')

    const refused = await refusal(() => move({ directory, ref, from: commits[0], to: commits[1] }, r(6)))

    expect(refused.code).toBe('BUSY')
    expect(refused.next).toContain('.lock')
    expect(now()).toBe(commits[0])
  })

  test('a fence without a token is an error, not overwritten', async () => {
    const { directory, commits, repository } = createRepository(remote)
    await move({ directory, ref, from: null, to: commits[0] }, r(5))
    const garbage = git(repository, ['hash-object', '-w', '--stdin'], 'garbage')
    const [fence = ''] = git(repository, ['for-each-ref', '--format=%(refname)', 'refs/holdfast']).split('\n')
    git(repository, ['update-ref', fence, garbage])

    const code = await refusalCode(() => move({ directory, ref, from: commits[0], to: commits[1] }, r(6)))

    expect(code).toBe('STORE_UNFIT')
  })

  test('uses its own repository, even if git was pointed at another, as in a hook', async () => {
    const { directory, commits, now } = createRepository(remote)
    const other = createRepository('.')
    const before = { GIT_DIR: process.env.GIT_DIR, GIT_INDEX_FILE: process.env.GIT_INDEX_FILE }
    onTestFinished(() => setEnvironment(before))
    setEnvironment({ GIT_DIR: other.repository, GIT_INDEX_FILE: '/nowhere/index' })

    await move({ directory, ref, from: null, to: commits[0] }, r(5))

    setEnvironment(before)
    expect(now()).toBe(commits[0])
    expect(git(other.repository, ['for-each-ref'])).toBe('')
  })

  test.each([
    { ref: 'main' },
    { ref: '--delete' },
    { ref: 'refs/heads/a b' },
    { ref: 'refs/heads/a\nupdate refs/heads/b' },
    { ref: 'refs/holdfast/mine' },
    { ref: 'refs/holdfast' },
    { ref: 'refs/Holdfast/mine' },
    { ref: 'refs/heads/a..b' },
    { ref: 'refs/heads/a.lock' },
    { ref: 'refs/heads//a' },
    { ref: 'refs/heads/' },
    { to: 'HEAD' },
    { from: 'main~1' },
    { to: 'a'.repeat(39) },
    { to: undefined },
    { from: undefined },
    { directory: '' },
    { timeoutMs: -1 },
    { force: true },
  ])('refuses %j', async (wrong) => {
    const right = { directory: '.', ref, from: null, to: 'a'.repeat(40) }

    const code = await refusalCode(() => move({ ...right, ...wrong } as GitUpdate, r(5)))

    expect(code).toBe('INVALID')
  })
})

test('a push refuses a remote that git would read as an option', async () => {
  const push = { directory: '.', ref, from: null, to: 'a'.repeat(40), remote: '--upload-pack=touch x' }

  expect(await refusalCode(() => pushGitRef(push, r(5)))).toBe('INVALID')
})

test('a push that the remote accepted is done, even if git lost the answer', async () => {
  const { directory, commits, repository, now } = createRepository('origin')
  const taker = join(repository, 'taker.mjs')
  writeFileSync(taker, takesAndHangsUp)
  git(directory, ['config', 'remote.origin.receivepack', `"${process.execPath}" "${taker}"`])
  const complaint = pushBy(directory, commits[2], 'refs/heads/other')
  expect([complaint, git(repository, ['rev-parse', 'refs/heads/other'])]).toEqual([
    expect.stringContaining('hung up'),
    commits[2],
  ])

  await moveOnRemote({ directory, ref, from: null, to: commits[0] }, r(5))

  expect(now()).toBe(commits[0])
  expect(
    await refusalCode(() => moveOnRemote({ directory, ref, from: commits[0], to: commits[1] }, r(4))),
  ).toBe('LEASE_LOST')
})

test('a push adds nothing that the user’s settings would include', async () => {
  const { directory, commits, repository } = createRepository('origin')
  git(directory, [...committer, 'tag', '-a', 'v1', '-m', 'one', commits[0]])
  git(directory, ['config', 'push.followTags', 'true'])

  await moveOnRemote({ directory, ref, from: null, to: commits[0] }, r(5))

  expect(git(repository, ['tag'])).toBe('')
})

test('a folder without a repository is reported', async () => {
  const folder = newFolder()
  const update = { directory: folder, ref, from: null, to: 'a'.repeat(40) }

  expect(await refusalCode(() => updateGitRef(update, r(5)))).toBe('STORE_UNAVAILABLE')
  expect(await refusalCode(() => updateGitRef({ ...update, directory: join(folder, 'no') }, r(5)))).toBe(
    'STORE_UNAVAILABLE',
  )
})

test('a fence raised by a push from another clone is seen', async () => {
  const { directory, commits, repository } = createRepository('origin')
  const other = newFolder()
  const clone = join(other, 'clone')
  git(other, ['init', '--quiet', clone])
  git(clone, ['remote', 'add', 'origin', repository])
  git(clone, ['fetch', '--quiet', directory, commits[0], commits[1]])
  await pushGitRef({ directory: clone, ref, from: null, to: commits[0], remote: 'origin' }, r(9))

  const late = await refusalCode(() =>
    moveOnRemote({ directory, ref, from: commits[0], to: commits[1] }, r(8)),
  )

  expect(late).toBe('LEASE_LOST')
})

/** In the place of git-receive-pack: lets it do its work, and hands on nothing but what it says first. */
const takesAndHangsUp = `
import { spawn } from 'node:child_process'
const child = spawn('git', ['receive-pack', process.argv[2]], { stdio: ['pipe', 'pipe', 'inherit'] })
process.stdin.pipe(child.stdin)
let told = ''
child.stdout.on('data', (part) => {
  if (told.endsWith('0000')) return
  told += part.toString('latin1')
  process.stdout.write(part)
})
`

function pushBy(directory: string, commit: string, to: string): string {
  return spawnSync('git', ['push', 'origin', `${commit}:${to}`], { cwd: directory, encoding: 'utf8' }).stderr
}

function setEnvironment(values: Record<string, string | undefined>): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

function r(token: number): Grant {
  return { resource: 'r', token }
}

function moveOnRemote(update: GitUpdate, grant: Grant): Promise<void> {
  const push: GitPush = { ...update, remote: 'origin' }
  return pushGitRef(push, grant)
}

/** A repository with three commits that no ref names, and the repository that has the ref. */
function createRepository(remote: string) {
  const folder = newFolder()
  cpSync(template.folder, folder, { recursive: true })
  const directory = join(folder, 'work')
  const repository = remote === '.' ? join(directory, '.git') : join(folder, 'origin.git')
  return { directory, repository, commits: template.commits, now: () => git(repository, ['rev-parse', ref]) }
}

function createTemplate() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fence-'))
  const directory = join(folder, 'work')
  git(folder, ['init', '--quiet', '--bare', 'origin.git'])
  git(folder, ['init', '--quiet', directory])
  git(directory, ['remote', 'add', 'origin', '../origin.git'])
  git(directory, ['config', 'uploadpack.allowAnySHA1InWant', 'true'])
  const tree = git(directory, ['hash-object', '-t', 'tree', '-w', '--stdin'])
  const commit = (message: string) => git(directory, [...committer, 'commit-tree', tree, '-m', message])
  return { folder, commits: [commit('one'), commit('two'), commit('three')] as [string, string, string] }
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fence-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

function git(directory: string, args: readonly string[], input = ''): string {
  return execFileSync('git', args, { cwd: directory, input, encoding: 'utf8' }).trim()
}
