/** Where the user's programs keep what is nobody else's: readable by the user alone. */
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { Io } from './io.ts'

export function stateFolder(io: Pick<Io, 'env'>): string {
  const given = io.env.XDG_STATE_HOME
  // A relative one would lie in whatever folder a command is run in, which may be a stranger's.
  return join(given && isAbsolute(given) ? given : join(homedir(), '.local', 'state'), 'holdfast')
}
