// Where the suites put their stores: in memory where possible. Nothing in a test has to survive a machine crash, so
// waiting for a disk would only measure the disk. SQLite and PostgreSQL still make the same sync calls.

import { accessSync, constants, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'
/** Several times the most that the suites ever use. Containers often have much less. */
const roomMin = 2 * 1024 ** 3

/** The folder to use as TMPDIR. A TMPDIR that is already set is kept. */
export function storesFolder() {
  return process.env.TMPDIR === undefined && hasRoom(memory) ? memory : tmpdir()
}

function hasRoom(folder) {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize >= roomMin
  } catch {
    return false
  }
}
