// Runs the slowest test files first, so that the run does not end with one worker busy and the others idle. Vitest
// remembers how long files took, but on a first run it goes by file size, which says little here.

import { basename } from 'node:path'
import { BaseSequencer } from 'vitest/node'

/** File names, in any suite; the slowest first. */
const long = [
  'postgres-connections',
  'postgres-branches',
  'cli-run',
  'run-code-blocks',
  'postgres-processes',
  'postgres-network',
  'prober',
  'postgres-failover',
  'postgres-commits',
  'stop-signals',
  'locks',
  'threads',
  'frozen',
  'copy',
  'postgres-release',
  'tasks',
  'postgres-lanes',
  'postgres-clock',
  'cli-files',
  'cli',
  'caretaker-thread',
  'races',
  'wake-up',
  'messages',
  'cli-terminal',
  'postgres-patience',
  'kill-at-every-step',
  'cli-wait',
  'poison',
  'leaving',
  'cli-passwords',
  'state-contention',
  'postgres-waits',
  'postgres-sessions',
  'postgres-standby',
  'cli-transcripts',
  'bells',
  'working-folder',
  'postgres-thread',
  'dead-holders',
  'postgres-hosts',
  'closing',
  'bad-input-every-operation',
  'lease-room',
  'properties',
  'retention-recoveries',
  'json',
  'task-locks',
  'worker',
  'messages-runtime',
  'stress',
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
