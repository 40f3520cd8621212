/** What is mounted where, as the kernel shows it to this process. */
import { readFileSync } from 'node:fs'
import { unlessRefused } from './unless-refused.ts'

export interface Mount {
  readonly point: string
  /** `fuse.sshfs` for a file system provided by a program. */
  readonly type: string
  readonly source: string
}

/** Empty if they cannot be read. */
export function readMounts(): Mount[] {
  return parseMounts(unlessRefused(() => readFileSync('/proc/self/mountinfo', 'utf8')) ?? '')
}

/** Lines of /proc/self/mountinfo: six fields, any number of optional ones, a dash, then type, source and options. */
export function parseMounts(text: string): Mount[] {
  return text.split('\n').flatMap((line) => {
    const fields = line.split(' ')
    const dash = fields.indexOf('-', 6)
    const [point, type, source] = [fields[4], fields[dash + 1], fields[dash + 2]]
    if (dash === -1 || point === undefined || type === undefined) return []
    return [{ point: unescaped(point), type: unescaped(type), source: unescaped(source ?? '') }]
  })
}

/** The kernel writes spaces, tabs, line breaks and backslashes as octal byte values. */
function unescaped(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
}

/** The mount that contains a path: the one with the longest mount point; the last of several at the same point. */
export function mountOf(path: string, mounts: readonly Mount[]): Mount | null {
  let found: Mount | null = null
  for (const mount of mounts) {
    if (isBelow(path, mount.point) && mount.point.length >= (found?.point.length ?? 0)) found = mount
  }
  return found
}

function isBelow(path: string, point: string): boolean {
  return point === '/' || path === point || path.startsWith(`${point}/`)
}
