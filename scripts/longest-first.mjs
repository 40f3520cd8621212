// The order of test files: those that take long first, so that no worker is left alone with one at the end. Vitest
// remembers how long files took; where it has seen none yet it goes by their size, which says little here.

import { basename } from 'node:path'
import { BaseSequencer } from 'vitest/node'

/** By name, whatever the suite; the longest first. */
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
