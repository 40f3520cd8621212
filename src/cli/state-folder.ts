/** Where the user's programs keep private state, readable only by the user. */
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { Io } from './io.ts'

export function stateFolder(io: Pick<Io, 'env'>): string {
  const given = io.env.XDG_STATE_HOME
  // A relative path would resolve inside the current folder, which may belong to another user.
  return join(given && isAbsolute(given) ? given : join(homedir(), '.local', 'state'), 'holdfast')
}
