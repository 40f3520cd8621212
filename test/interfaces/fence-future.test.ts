/** Tokens from the far future, by which one caller could shut out every later holder; and how to undo one that passed. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  createHttpFence,
  createSqlFence,
  fenceHeaders,
  type Grant,
  updateGitRef,
  writeFileFenced,
} from 'holdfast/fences'
import { expect, test } from 'vitest'
import { aFolder } from '../support/fixtures.ts'
import { openRaw } from '../support/sqlite-file.ts'

interface Fence {
  pass(grant: Grant): Promise<unknown>
  /** What the guide tells an operator to do. */
  reset(): void
}

const resource = 'lock:deploy'

const fences: Readonly<Record<string, () => Fence>> = {
  SQL() {
    const database = openRaw(':memory:')
    const fence = createSqlFence({ dialect: 'sqlite' })
    database.exec(fence.createTable)
    return {
      pass: (grant) => fence.pass(grant, ({ text, values }) => database.prepare(text).all(...values)),
      reset: () => database.exec(`delete from holdfast_fence where resource = '${resource}'`),
    }
  },
  file() {
    const file = join(aFolder(), 'file')
    return {
      pass: (grant) => writeFileFenced(file, 'x', grant),
      reset: () => rmSync(`${file}.fence`, { recursive: true }),
    }
  },
  HTTP() {
    let kept = 0
    const raise = (_: string, token: number) => {
      kept = Math.max(kept, token)
      return kept
    }
    const fence = createHttpFence({ raise })
    return {
      async pass(grant) {
        const answer = await fence.admit(fenceHeaders(grant), () => 'done')
        if (answer.outcome === 'refused') throw JSON.parse(answer.body)
      },
      reset: () => {
        kept = 0
      },
    }
  },
  git() {
    const directory = aFolder()
    const git = (...args: string[]) => {
      const settings = ['-c', 'user.name=t', '-c', 'user.email=t@example.com']
      return execFileSync('git', [...settings, ...args], { cwd: directory, encoding: 'utf8' }).trim()
    }
    git('init', '--quiet', '--initial-branch=main')
    git('commit', '--quiet', '--allow-empty', '-m', 'first')
    const at = git('rev-parse', 'HEAD')
    const kept = createHash('sha256').update(resource).digest('hex').slice(0, 40)
    return {
      pass: (grant) => updateGitRef({ directory, ref: 'refs/heads/main', from: at, to: at }, grant),
      reset: () => git('update-ref', '-d', `refs/holdfast/${kept}`),
    }
  },
}

const inYears = (years: number) => (Date.now() + years * 365 * 86_400_000) * 1000

test.each(Object.entries(fences))(
  'a %s fence refuses the far future, and can be reset [S5d-15]',
  async (_, make) => {
    const fence = make()
    const today = { resource, token: inYears(0) }

    await expect(fence.pass({ resource, token: Number.MAX_SAFE_INTEGER })).rejects.toMatchObject({
      code: 'INVALID',
    })
    await expect(fence.pass({ resource, token: inYears(11) })).rejects.toMatchObject({ code: 'INVALID' })
    await fence.pass(today)
    await fence.pass({ resource, token: inYears(9) })
    await expect(fence.pass(today)).rejects.toMatchObject({ code: 'LEASE_LOST' })
    fence.reset()
    await fence.pass(today)
  },
)

test('the guide says how each is reset, and that requests must be authenticated [S5d-15]', () => {
  const guide = readFileSync(new URL('../../docs/guides/fences.md', import.meta.url), 'utf8')

  for (const fence of Object.keys(fences)) expect(guide).toMatch(new RegExp(`^\\| ${fence} \\| `, 'm'))
  expect(guide).toContain('authenticated requests')
})
