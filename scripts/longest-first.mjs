// Runs the slowest test files first, so that the run does not end with one worker busy and the others idle. Vitest
// remembers how long files took, but on a first run it goes by file size, which says little here.

import { basename } from 'node:path'
import { BaseSequencer } from 'vitest/node'

/** File names, in any suite; the slowest first. */
const long = [
  'postgres-connections',
  'postgres-processes',
  'postgres-network',
  'postgres-failover',
  'postgres-branches',
  'locks',
  'frozen',
  'postgres-commits',
  'stop-signals',
  'state-contention',
  'postgres-clock',
  'postgres-release',
  'races',
  'copy',
  'messages',
  'postgres-standby',
  'poison',
  'postgres-waits',
  'leaving',
  'postgres-patience',
  'postgres-hosts',
  'closing',
  'caretaker-thread',
  'bad-input-every-operation',
  'lease-room',
  'retention',
  'properties',
  'json',
  'task-locks',
  'worker',
  'messages-runtime',
  'stress',
  'cli-run',
  'cli',
].map((name) => `${name}.test.ts`)

export class LongestFirst extends BaseSequencer {
  async sort(files) {
    const rank = ({ moduleId }) => {
      const index = long.indexOf(basename(moduleId))
      return index === -1 ? long.length : index
    }
    const sorted = await super.sort(files)
    return sorted.toSorted((left, right) => rank(left) - rank(right))
  }
}
