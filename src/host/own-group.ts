/**
 * Whether a group is the user's alone. Many systems give each user a group of the same name and let it write to the
 * user's files; but somebody may have been added to it, and on others all users share one primary group. A group that
 * the local files do not describe, as in a directory service, counts as shared.
 */
import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'

export function isOwnGroup(gid: number): boolean {
  try {
    const { username: user } = userInfo()
    return isGroupOfOne(gid, {
      user,
      groups: readFileSync('/etc/group', 'utf8'),
      users: readFileSync('/etc/passwd', 'utf8'),
    })
  } catch {
    // The user has no name, or there are no such files.
    return false
  }
}

/** `groups` and `users` as in /etc/group and /etc/passwd. */
export function isGroupOfOne(
  gid: number,
  { user, groups, users }: { user: string; groups: string; users: string },
): boolean {
  const named = rowsOf(groups).filter(([, , number]) => Number(number) === gid)
  const isNamedAfterUser = named.length > 0 && named.every(([name]) => name === user)
  const members = named.flatMap(([, , , list = '']) => list.split(',').filter((member) => member !== ''))
  const others = rowsOf(users).filter(([name, , , primary]) => name !== user && Number(primary) === gid)
  return isNamedAfterUser && members.every((member) => member === user) && others.length === 0
}

function rowsOf(file: string): string[][] {
  return file
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.trimEnd().split(':'))
}
