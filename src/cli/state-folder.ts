/** Where the user's programs keep what is nobody else's: readable by the user alone. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Io } from './io.ts'

export function stateFolder(io: Pick<Io, 'env'>): string {
  return join(io.env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'holdfast')
}
