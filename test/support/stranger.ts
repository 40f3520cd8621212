/** A second user of the machine, for tests that root runs: only root can start a process of somebody else's. */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { cleanEnvironment, program } from './cli.ts'

/** The account `nobody`, and another id that no account has. */
export const stranger = { uid: 65_534, gid: 65_534 }
export const colleague = { uid: 54_321, gid: 65_534 }

export interface Ran {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

type User = typeof stranger

/** Why there can be no second user here; null if there can. */
export const noStranger = whyNot()

function whyNot(): string | null {
  if (process.getuid?.() !== 0) return 'only root can run a process as a second user'
  const { status } = runAs(stranger, process.execPath, [program, '--version'], { cwd: '/' })
  return status === 0 ? null : 'a second user cannot read the built package'
}

if (noStranger !== null) console.log(`tests with a second user are skipped: ${noStranger}`)

/** The command line as somebody else, with a home of their own. */
export function holdfastAs(user: User, options: { cwd: string; umask?: string }, ...args: string[]): Ran {
  const command = 'umask "$1"; shift; exec "$@"'
  const words = ['-c', command, 'sh', options.umask ?? '022', process.execPath, program, ...args]
  return runAs(user, '/bin/sh', words, { cwd: options.cwd })
}

export function runAs(user: User, command: string, args: readonly string[], { cwd }: { cwd: string }): Ran {
  const env = { ...cleanEnvironment(), HOME: '/nonexistent', HOLDFAST_AGENT: `u${user.uid}` }
  const { status, stdout, stderr } = spawnSync(command, args, {
    ...user,
    cwd,
    env,
    encoding: 'utf8',
    timeout: 20_000,
  })
  return { status, stdout, stderr }
}

/** A folder that everybody can enter, unlike those of other tests. */
export function anOpenFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-users-'))
  chmodSync(folder, 0o755)
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
