// Where the suites put their stores: in memory, where that is possible. Nothing in a test outlives its machine, so to
// wait for a disk would only show how slow it is; SQLite and PostgreSQL ask it all the same.

import { accessSync, constants, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'
/** What the suites fill at most, several times over; containers often have much less. */
const roomMin = 2 * 1024 ** 3

/** A folder for TMPDIR; one that somebody has named is left alone. */
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
